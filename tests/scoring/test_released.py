"""Models by name: those that ship, any folder, and what is said where there is none."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from quick import untrained
from uol.errors import CallError
from uol.scoring import released
from uol.scoring.ensemble import EnsembleScorer
from uol.scoring.released import choose_device, find_model, fingerprint, member_folders, names, open_model
from uol.scoring.scorer import Scorer


@pytest.fixture
def shelf(tmp_path, model_folder, monkeypatch):
    """Two models that ship."""
    for name in ("a-model", released.DEFAULT):
        shutil.copytree(model_folder, tmp_path / name)
    monkeypatch.setattr(released, "_FOLDER", tmp_path)
    return tmp_path


def test_models_that_ship_are_found_by_name_the_default_first(shelf):
    assert names() == [released.DEFAULT, "a-model"]
    assert find_model("a-model") == shelf / "a-model"
    assert Scorer.from_pretrained("a-model").panel.name == Scorer.from_pretrained(shelf / "a-model").panel.name


def test_what_is_not_there_is_named_with_what_is(shelf, monkeypatch, tmp_path):
    with pytest.raises(CallError, match="no-such: no such model folder, nor a model that ships .*a-model"):
        find_model("no-such")
    monkeypatch.setattr(released, "_FOLDER", tmp_path / "empty")
    with pytest.raises(CallError, match="none ships"):
        find_model(released.DEFAULT)


def test_of_a_folder_of_runs_one_is_to_be_named(model_folder, tmp_path):
    for fold in ("fold-1", "fold-2"):
        shutil.copytree(model_folder, tmp_path / "runs" / fold / "model")
    with pytest.raises(CallError, match="runs: a folder of 2 runs; name one of them, such as .*runs/fold-1$"):
        find_model(tmp_path / "runs")
    assert find_model(tmp_path / "runs" / "fold-2") == tmp_path / "runs" / "fold-2" / "model"


def test_fingerprints_follow_what_makes_a_score(shelf):
    before = fingerprint(shelf / "a-model")
    assert before == fingerprint(shelf / released.DEFAULT)
    config = json.loads((shelf / "a-model" / "config.json").read_text())
    config["panel"]["high"] += 1
    (shelf / "a-model" / "config.json").write_text(json.dumps(config))
    assert fingerprint(shelf / "a-model") != before


def test_without_a_graph_torch_answers(shelf):
    assert isinstance(open_model("a-model"), Scorer)


def test_a_device_that_is_not_there(shelf, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    with pytest.raises(CallError, match="finds no GPU"):
        open_model("a-model", device="cuda")
    with pytest.raises(CallError, match="--runtime torch"):
        open_model("a-model", runtime="onnx", device="cuda")


def test_a_gpu_is_taken_where_there_is_one_and_it_is_not_ruled_out(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(device) for device in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]


ALONE = [name for name in names() if not member_folders(find_model(name))]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_graphs_of_models_that_ship_are_of_their_present_settings(name):
    pytest.importorskip("onnxruntime")
    from uol.scoring.onnx import OnnxScorer

    model = open_model(name, runtime="onnx")
    assert isinstance(model, OnnxScorer)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, model.config.crop, model.config.crop), np.uint8)
    exact = Scorer.from_pretrained(name)
    assert [one.value for one in model.score_pixels(pixels)] == pytest.approx(
        [one.value for one in exact.score_pixels(pixels)], abs=1e-3
    )
    assert model.compare_pixels(*pixels) == pytest.approx(exact.compare_pixels(*pixels), abs=1e-3)


def test_an_empty_name_is_no_model():
    with pytest.raises(CallError, match="the name of the model is empty"):
        find_model("")


def test_a_card_that_cannot_be_read_does_not_keep_a_model_from_answering(tmp_path):
    untrained().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_bytes(b"\xff\xfe no text")
    assert open_model(tmp_path / "model", "torch", "cpu").former_card == ""


def test_an_ensemble_of_models_that_ship_is_saved_with_the_terms_of_each(tmp_path):
    members = [open_model("uol-fast", "torch", "cpu", "scut-fbp5500"), open_model("uol-fast-scut5500", "torch", "cpu")]
    together = EnsembleScorer(members)
    together.save_pretrained(tmp_path / "model")
    again = open_model(tmp_path / "model", "torch", "cpu")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert card.count("whose terms hold for it too") == 2
    assert "One Million Impressions" in card
    again.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text(encoding="utf-8").count("whose terms hold for it too") == 2
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 224, 224), np.uint8)
    expected = [score.value for score in together.score_pixels(torch.from_numpy(pixels))]
    assert [score.value for score in again.score_pixels(torch.from_numpy(pixels))] == pytest.approx(expected, abs=1e-3)


def test_an_ensemble_of_graphs_is_refused():
    pytest.importorskip("onnxruntime")
    with pytest.raises(CallError, match='open each with runtime="torch"'):
        EnsembleScorer([open_model("uol-fast", "onnx"), open_model("uol-fast", "onnx")])


@pytest.mark.parametrize(("word", "value"), [("runtime", "tf"), ("device", "gpu"), ("device", "cuda:1")])
def test_words_that_say_nothing_are_refused(word, value):
    with pytest.raises(CallError, match=f"{word} must be auto, .*, not '{value}'"):
        open_model("uol-fast", **{word: value})


def test_a_model_that_is_not_calibrated_says_that_its_intervals_do_not_hold():
    members = [open_model("uol-fast", "torch", "cpu"), open_model("uol-fast", "torch", "cpu")]
    together, shown = EnsembleScorer(members), [np.zeros((64, 64, 3), np.uint8)]
    with pytest.warns(UserWarning, match="intervals: far too narrow, because this model is not calibrated"):
        together.score(shown, errors="return")
    for calibrated in (*members, together.for_new_panel(), members[0].on_panel("omi")):
        assert len(calibrated.score(shown, errors="return")) == 1  # without a warning


@pytest.mark.parametrize("members", [None, "uol-fast", ()])
def test_members_of_an_ensemble_are_a_list(members):
    with pytest.raises(CallError, match="an ensemble requires a list of at least 2 members"):
        EnsembleScorer(members)


def test_what_is_no_rating_does_not_anchor():
    with pytest.raises(CallError, match="anchoring requires rated images, as uol.load gives them, not 'photos'"):
        open_model("uol-fast", "torch", "cpu").anchor("photos")
