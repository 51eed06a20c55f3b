"""Model folders: the same scores after a round trip, and one line for what is missing or damaged."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from uol.errors import CallError, UolError
from uol.scoring.config import read_config
from uol.scoring.scorer import Scorer


@pytest.fixture
def copy(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "copy")


def test_round_trip(trained, model_folder, drawn):
    assert sorted(path.name for path in model_folder.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "references.safetensors",
    ]  # fmt: skip
    assert Scorer.from_pretrained(model_folder).score(drawn.images[:9]) == trained.scorer.score(drawn.images[:9])


def test_the_card_says_what_the_scores_mean(model_folder):
    card = (model_folder / "README.md").read_text(encoding="utf-8")
    assert "measures nothing about a person" in card
    assert "scale of\n1 to 5" in card


def test_no_image_is_kept(model_folder, trained):
    references = load_file(model_folder / "references.safetensors")
    assert set(references) == {"mean", "log_variance", "score"}
    assert references["mean"].shape == (len(trained.scorer.references), 16)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "references.safetensors"])
def test_missing_and_damaged_files_are_named(copy, name):
    (copy / name).write_bytes(b"\x00damaged")
    with pytest.raises(UolError, match=name) as caught:
        Scorer.from_pretrained(copy)
    assert "\n" not in str(caught.value)
    (copy / name).unlink()
    with pytest.raises(UolError, match=f"{name} is missing"):
        Scorer.from_pretrained(copy)


def test_files_that_do_not_fit_each_other(copy):
    config = json.loads((copy / "config.json").read_text())
    config["model"]["dimensions"] = 8
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UolError, match=r"model.safetensors: does not fit"):
        Scorer.from_pretrained(copy)
    config["model"]["dimensions"] = 16
    (copy / "config.json").write_text(json.dumps(config))
    save_file(
        {"mean": torch.zeros(3, 4), "log_variance": torch.zeros(3, 4), "score": torch.zeros(3)},
        copy / "references.safetensors",
    )
    with pytest.raises(UolError, match="do not fit a space of 16"):
        Scorer.from_pretrained(copy)
    config["format"] = 99
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UolError, match="newer uol"):
        Scorer.from_pretrained(copy)


def test_no_folder():
    with pytest.raises(CallError, match="no such model folder"):
        Scorer.from_pretrained("nowhere")


def test_a_folder_with_other_files_is_never_replaced(trained, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    with pytest.raises(CallError, match="other files in it"):
        trained.scorer.save_pretrained(tmp_path / "photos")
    assert (tmp_path / "photos" / "a.jpg").read_text() == "precious"
    for _ in range(2):  # an older model is replaced
        trained.scorer.save_pretrained(tmp_path / "model")


def test_senseless_settings_are_refused(copy):
    whole = (copy / "config.json").read_text()
    for part, name, value in (("bradley_terry", "k", -1.0), ("panel", "high", 0.0), ("model", "backbone", "vgg-16")):
        config = json.loads(whole)
        config[part][name] = value
        (copy / "config.json").write_text(json.dumps(config))
        with pytest.raises(UolError, match=r"config.json") as caught:
            Scorer.from_pretrained(copy)
        assert caught.value.exit_code == 1


def test_a_folder_that_names_the_border_of_faces_still_loads(copy):
    before = read_config(copy)
    config = json.loads((copy / "config.json").read_text())
    config["model"]["border"] = "edge"
    (copy / "config.json").write_text(json.dumps(config))
    assert read_config(copy) == before


def test_a_folder_from_before_division_was_a_choice_divides(copy):
    config = json.loads((copy / "config.json").read_text())
    assert config["model"].pop("normalise") == "mean-std"
    (copy / "config.json").write_text(json.dumps(config))
    assert read_config(copy).model.normalise == "mean-std"


def test_half_the_size_and_nearly_the_same_scores(trained, drawn, tmp_path):
    trained.scorer.save_pretrained(tmp_path / "full")
    trained.scorer.save_pretrained(tmp_path / "half", half=True)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    full, half = (Scorer.from_pretrained(tmp_path / name) for name in ("full", "half"))
    for one, two in zip(full.score(drawn.images[:20]), half.score(drawn.images[:20]), strict=True):
        assert one.value == pytest.approx(two.value, abs=0.02)
    assert half.references.scores.tolist() == full.references.scores.tolist()


def test_other_projects_folders_are_not_replaced(trained, tmp_path):
    for name, files in (("notes", ["README.md"]), ("theirs", ["config.json", "model.safetensors"])):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text('{"architectures": []}')
        with pytest.raises(CallError, match="a folder with other files in it"):
            trained.scorer.save_pretrained(tmp_path / name)
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == sorted(files)


def test_a_link_to_a_model_folder_stays_a_link(trained, tmp_path):
    trained.scorer.save_pretrained(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    trained.scorer.save_pretrained(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
