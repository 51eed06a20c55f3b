"""OnnxScorer: a Scorer's answers without torch, and one line for what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.scoring.onnx import OnnxScorer
from uol.scoring.onnx_export import export_onnx
from uol.scoring.scorer import Scorer
from uol.training.batches import PackedImages

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="session")
def exported(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_onnx(trained.scorer, folder)
    return folder


@pytest.fixture(scope="module")
def packed_quick(drawn):
    return PackedImages.pack(drawn, quick_recipe().model)


@pytest.fixture(scope="session")
def asked(exported):
    return OnnxScorer(exported, threads=1)


def values(scores):
    return [score.value for score in scores]


def test_images_of_any_kind_are_scored_as_by_a_scorer(trained, asked, drawn, image_files):
    paths = sorted(image_files.iterdir())
    expected = values(trained.scorer.score(paths))
    assert values(asked.score(paths)) == pytest.approx(expected, abs=1e-4)
    assert values(asked.score(drawn.images[:10], batch_size=3)) == pytest.approx(expected, abs=1e-4)
    assert values(asked.score(str(paths[3]))) == pytest.approx(expected[3:4], abs=1e-4)


def test_comparisons_and_ranks_are_those_of_a_scorer(trained, asked, drawn):
    pair = drawn.images[0], drawn.images[1]
    assert asked.compare(*pair) == pytest.approx(trained.scorer.compare(*pair), abs=1e-5)
    ours, theirs = asked.rank(drawn.images[:12]), trained.scorer.rank(drawn.images[:12])
    assert [(place.rank, place.index, place.tied) for place in ours] == [
        (place.rank, place.index, place.tied) for place in theirs
    ]


def test_framed_pixels_give_the_same_as_images(trained, asked, drawn):
    pixels = asked.framed(drawn.images[:20])
    assert values(asked.score_pixels(pixels)) == values(asked.score(drawn.images[:20]))
    assert values(trained.scorer.score_pixels(pixels)) == values(trained.scorer.score(drawn.images[:20]))
    assert trained.scorer.compare_pixels(pixels[0], pixels[1]) == trained.scorer.compare(*drawn.images[:2])
    assert asked.score_pixels(pixels[:0]) == []
    with pytest.raises(CallError, match="framed images must be uint8"):
        asked.score_pixels(pixels[:, :, :16])
    with pytest.raises(CallError, match="no images were given"):
        asked.score([])


def test_it_knows_what_the_folder_says(trained, asked):
    scorer = trained.scorer
    assert (asked.config, asked.panel, asked.scoring) == (scorer.config, scorer.panel, scorer.scoring)
    assert asked.calibration == scorer.calibration


def test_the_whole_contract_works_through_the_network_of_the_folder(trained, asked, packed_quick, drawn_b, tmp_path):
    scorer, pixels = trained.scorer, packed_quick.centre[:6]
    (network,) = asked.members
    assert isinstance(network, Scorer)
    assert values(asked.score_exactly(pixels)) == pytest.approx(values(scorer.score_exactly(pixels)), abs=1e-5)
    some = asked.embed_pixels(pixels).rows(torch.arange(2))
    assert values(asked.score_embedded(some)) == pytest.approx(values(scorer.score_exactly(pixels[:2])), abs=1e-5)
    anchored, expected = asked.anchor(drawn_b), scorer.anchor(drawn_b)
    assert anchored.panel == expected.panel
    assert values(anchored.leave_one_out()) == pytest.approx(values(expected.leave_one_out()), abs=1e-4)
    assert values(asked.leave_one_out()) == pytest.approx(values(scorer.leave_one_out()), abs=1e-4)
    asked.save_pretrained(tmp_path / "saved")
    saved = Scorer.from_pretrained(tmp_path / "saved")
    assert values(saved.score_exactly(pixels)) == pytest.approx(values(scorer.score_exactly(pixels)), abs=1e-5)
    assert asked.to("cpu") is asked
    with pytest.raises(CallError, match="--runtime torch"):
        asked.to("cuda")


def test_without_torch_or_weights_what_needs_them_is_one_line(exported, drawn_b, tmp_path, monkeypatch):
    folder = shutil.copytree(exported, tmp_path / "light")
    light = OnnxScorer(folder, threads=1)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        with pytest.raises(UolError, match="only scores and comparisons work without torch") as caught:
            light.anchor(drawn_b)
        assert "\n" not in str(caught.value)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UolError, match=r"light: not a whole model folder: model.safetensors is missing"):
        light.save_pretrained(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_heavy_is_imported(exported, image_files):
    heavy = ["torch", "timm", "pandas", "scipy", "matplotlib", "onnx", "lightning"]
    code = (
        "import sys; from uol.scoring.onnx import OnnxScorer; "
        f"print(OnnxScorer({str(exported)!r}).score({str(next(image_files.iterdir()))!r})[0].value); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    value, imported = done.stdout.splitlines()
    assert 1 <= float(value) <= 5
    assert imported == "[]"


def test_what_is_missing_or_damaged_is_one_line(model_folder, exported, tmp_path, monkeypatch):
    remedy = "uol export MODEL --out FOLDER writes it"
    with pytest.raises(UolError, match=f"model.onnx: no such graph; {remedy}"):
        OnnxScorer(model_folder)
    for name, content in (("model.onnx", b"nonsense"), ("model.safetensors", b""), ("model.safetensors", None)):
        broken = tmp_path / f"{name} {content}"
        shutil.copytree(exported, broken)
        (broken / name).unlink() if content is None else (broken / name).write_bytes(content)
        with pytest.raises(
            UolError, match=f"model.onnx: damaged, or made for other settings, references or weights; {remedy}"
        ) as told:
            OnnxScorer(broken)
        assert "\n" not in str(told.value)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UolError, match=r"pip install 'uol\[onnx\]'"):
        OnnxScorer(exported)


def test_a_graph_made_for_another_model_is_refused(exported, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(exported, changed)
    text = (changed / "config.json").read_text()
    (changed / "config.json").write_text(text.replace('"slope":', '"slope" :', 1).replace('"k": ', '"k": 1', 1))
    with pytest.raises(UolError, match="made for other settings, references or weights"):
        OnnxScorer(changed)


def test_scores_are_plain_numbers_within_the_panels_scale(asked, drawn):
    for score in asked.score(drawn.images):
        assert 1 <= score.low <= score.value <= score.high <= 5
        assert all(type(number) is float and np.isfinite(number) for number in vars(score).values())
