"""uol train and evaluate: what is said before training, and what is never guessed."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from uol.scoring.released import DEFAULT


@pytest.fixture
def photos(drawn, image_files, tmp_path):
    """A copy of ten photographs, and the table of their mean scores: the options that choose them."""
    shutil.copytree(image_files, tmp_path / "photos")
    names = [f"{name}.png" for name in drawn.names[:10]]
    pd.DataFrame({"image": names, "mean": drawn.scores[:10]}).to_csv(tmp_path / "ratings.csv", index=False)
    return "--data", tmp_path / "photos", "--table", tmp_path / "ratings.csv", "--scale", 1, 5


@pytest.fixture
def trained_on(monkeypatch):
    """The names of the images that would have trained and tested, split by split; nothing is trained."""
    calls = {}

    def train_and_test(packed, name, parts, *_, **__):
        calls[name] = tuple([packed.rated.names[i] for i in rows] for rows in parts)

    monkeypatch.setattr("uol.runs.train_and_test.train_and_test", train_and_test)
    return calls


@pytest.fixture
def train(uol, photos, tmp_path):
    options = ("--recipe", "demo", "--out", tmp_path / "run")
    return lambda *more: uol("train", *photos, *options, *more)


@pytest.mark.parametrize("command", [["train", "--out", "run"], ["evaluate", "run"],
                                     ["experiment", "ensemble", "a", "b", "--name", "x", "--out", "c"]])  # fmt: skip
def test_the_data_set_is_never_guessed(uol, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = uol(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--data is missing" in err
    assert "synthetic" in err
    assert list(tmp_path.iterdir()) == []


def test_evaluate_says_how_a_folder_of_images_is_named(uol, tmp_path):
    (tmp_path / "photos").mkdir()
    code, _, err = uol("evaluate", tmp_path / "photos", "--table", "ratings.csv")
    typed = f"uol evaluate MODEL --data {tmp_path / 'photos'} --table ratings.csv"
    assert (code, err) == (2, f"uol: --data is missing: it names the folder of images: {typed}\n")
    code, _, err = uol("evaluate", DEFAULT, "--table", "ratings.csv")
    assert f"uol evaluate {DEFAULT} --data FOLDER --table ratings.csv" in err


def test_training_without_a_split_is_said_beforehand(train, trained_on):
    code, _, err = train()
    assert code == 0, err
    assert err.index("no split: all 10 images train") < err.index("uol on ratings, whole")
    assert "no split" not in train("--split", "whole")[2]  # asked for


def test_folds_of_uol_data_split_train(uol, train, photos, trained_on, tmp_path):
    folds = tmp_path / "folds.csv"
    code, _, err = uol("data", "split", *photos[1:], "--folds", 2, "--out", folds)
    assert code == 0, err
    code, _, err = train("--folds", folds, "--fold", "all")
    assert code == 0, err
    assert "no split" not in err
    table = pd.read_csv(folds)
    for number in (1, 2):
        inside = table["fold"] == number
        assert trained_on[f"fold-{number}"] == (list(table["image"][~inside]), list(table["image"][inside]))
    before = folds.read_bytes()
    assert uol("data", "stats", *photos[1:], "--folds", folds, "--out", folds)[0] == 2
    assert folds.read_bytes() == before


@pytest.mark.parametrize(("changes", "said"), [
    ((), False),  # the demo's network
    (("--set", "model.backbone=resnet18"), True),
    (("--set", "model.backbone=resnet18", "--init", "timm"), False),
])  # fmt: skip
def test_random_weights_are_said_beforehand(train, trained_on, changes, said):
    code, _, err = train(*changes)
    assert code == 0, err
    assert ("random weights: resnet18 starts untrained; --init timm" in err) == said


def test_a_run_is_not_put_among_photographs(uol, photos, trained_on, tmp_path):
    before = sorted(path.name for path in (tmp_path / "photos").iterdir())
    code, _, err = uol("train", *photos, "--recipe", "demo", "--out", tmp_path / "photos")
    assert (code, trained_on) == (2, {})
    assert "other files in it" in err
    assert sorted(path.name for path in (tmp_path / "photos").iterdir()) == before


def test_a_begun_run_with_notes_is_resumed(train, trained_on, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").write_text("base: demo\n")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert train("--json")[:2] == (0, json.dumps([]) + "\n")


def test_ctrl_c_says_how_to_go_on(train, uol, model_folder, image_files, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("uol.runs.train_and_test.train_and_test", stop)
    code, _, err = train()
    assert (code, err.splitlines()[-1]) == (130, "uol: interrupted; run the same command to resume")
    monkeypatch.setattr("uol.scoring.job.score_files", stop)
    score = ("score", image_files, "--model", model_folder)
    assert uol(*score) == (130, "", "uol: interrupted after 0 of 10 images\n")
    code, _, err = uol(*score, "--out", tmp_path / "scores.csv")
    assert (code, err) == (130, "uol: interrupted after 0 of 10 images; run the same command to resume\n")


def test_an_unfinished_run_is_no_model_yet(uol, image_files, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text("base: demo\n")
    for call in (("score", image_files, "--model", run), ("evaluate", run, "--data", "synthetic")):
        code, _, err = uol(*call)
        assert (code, "a run without a model folder: it has not finished" in err) == (2, True), err
