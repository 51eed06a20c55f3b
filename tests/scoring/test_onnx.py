"""OnnxScorer: a Scorer's answers without torch, and one line for what is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import astuple

import numpy as np
import pytest

from quick import forget_digests, noise, quick_recipe, untrained
from uol.errors import CallError, UolError
from uol.order.config import ScoringConfig
from uol.scoring import released
from uol.scoring.config import PanelConfig
from uol.scoring.folder import load_scorer, save_anchored
from uol.scoring.onnx import OnnxScorer
from uol.scoring.onnx_export import export_onnx
from uol.training.packed import PackedImages

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


def figures(scores):
    return np.array([astuple(score) for score in scores])


def test_the_whole_contract_works_without_the_network(trained, asked, packed_quick, drawn_b):
    scorer, pixels = trained.scorer, packed_quick.centre[:6]
    assert asked.members == [asked]
    assert values(asked.score_exactly(pixels)) == pytest.approx(values(scorer.score_exactly(pixels)), abs=1e-5)
    some = asked.embed_pixels(pixels).rows(np.arange(2))
    assert values(asked.score_embedded(some)) == pytest.approx(values(scorer.score_exactly(pixels[:2])), abs=1e-5)
    assert values(asked.leave_one_out()) == pytest.approx(values(scorer.leave_one_out()), abs=1e-4)
    assert asked.to("cpu") is asked
    with pytest.raises(CallError, match="--runtime torch"):
        asked.to("cuda")


def test_an_anchored_model_is_the_same_by_either_engine_and_after_saving(trained, asked, drawn_b, exported, tmp_path):
    anchored, expected = asked.anchor(drawn_b), trained.scorer.anchor(drawn_b)
    assert anchored.panel == expected.panel == PanelConfig.of(drawn_b.name, drawn_b.scale)
    assert anchored.bradley_terry == pytest.approx(expected.bradley_terry, rel=1e-3)
    assert anchored.calibration.model_dump() == pytest.approx(expected.calibration.model_dump(), rel=1e-3)
    scores = figures(expected.score(drawn_b.images[:12]))
    np.testing.assert_allclose(figures(anchored.score(drawn_b.images[:12])), scores, atol=1e-4)
    np.testing.assert_allclose(figures(anchored.leave_one_out()), figures(expected.leave_one_out()), atol=1e-4)
    pair = drawn_b.images[:2]
    assert anchored.compare(*pair) == pytest.approx(expected.compare(*pair), abs=1e-4)
    assert values(asked.score(pair)) == values(OnnxScorer(exported).score(pair))  # the original is as it was

    save_anchored(anchored, tmp_path / "new", exported)
    for again in (OnnxScorer(tmp_path / "new"), load_scorer(tmp_path / "new")):
        assert (again.panel, again.scoring, again.calibration) == (
            anchored.panel, anchored.scoring, anchored.calibration,
        )  # fmt: skip
        np.testing.assert_allclose(figures(again.score(drawn_b.images[:12])), scores, atol=1e-4)
    assert (tmp_path / "new" / "model.safetensors").read_bytes() == (exported / "model.safetensors").read_bytes()
    twice = OnnxScorer(tmp_path / "new").anchor(drawn_b)
    np.testing.assert_allclose(figures(twice.score(drawn_b.images[:12])), scores, atol=1e-4)
    twice.save_pretrained(tmp_path / "twice")
    np.testing.assert_allclose(figures(OnnxScorer(tmp_path / "twice").score(drawn_b.images[:12])), scores, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_the_graph_of_an_anchored_model_gives_gaussians_alone_and_fits_its_network(asked, drawn_b, tmp_path):
    onnx = pytest.importorskip("onnx")
    asked.anchor(drawn_b).save_pretrained(tmp_path / "new")
    graph = onnx.load(tmp_path / "new" / "model.onnx")  # with its weights, from their places in the files
    onnx.checker.check_model(graph)
    assert [output.name for output in graph.graph.output] == ["mean", "log_variance"]
    assert not [weight.name for weight in graph.graph.initializer if "reference" in weight.name]
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    for group, name, value in (("scoring", "mirror", True), ("model", "normalise", "mean")):
        other = forget_digests(shutil.copytree(tmp_path / "new", tmp_path / name))
        (other / "config.json").write_text(json.dumps(config | {group: config[group] | {name: value}}))
        with pytest.raises(UolError, match="made for other settings, references or weights"):
            OnnxScorer(other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scoring", "model"),
    [
        ({"mirror": True, "zooms": (1.0, 0.9, 1.1)}, {}),
        ({"both_directions": False}, {"uncertain": False}),
        ({"outcomes": "hard"}, {}),
        ({"histogram_share": 0.7}, {"levels": 5}),
    ],
)
def test_arrays_give_what_the_graph_and_torch_give(tmp_path, scoring, model, drawn_b):
    scorer = untrained(ScoringConfig(**scoring), **model)
    export_onnx(scorer, tmp_path / "model")
    asked, pixels = OnnxScorer(tmp_path / "model", threads=1), noise(6, seed=2)
    expected = figures(scorer.score_exactly(pixels))
    np.testing.assert_allclose(figures(asked.score_exactly(pixels)), expected, atol=1e-4)
    np.testing.assert_allclose(figures(asked.score_pixels(pixels)), expected, atol=1e-4)
    levels = asked.levels(asked.embed_pixels(pixels))
    assert (levels is None) == ("levels" not in model)
    ours, theirs = (engine.anchor(drawn_b) for engine in (asked, scorer))
    np.testing.assert_allclose(figures(ours.score_pixels(pixels)), figures(theirs.score_pixels(pixels)), atol=1e-4)
    assert ours.scoring == theirs.scoring


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * ("vgg16" in name)) for name in released.names()]
)
def test_models_that_ship_compare_on_arrays_as_their_graph_scores(name):
    asked = OnnxScorer(released.find_model(name))
    pixels = noise(1, asked.config.crop, 3)
    np.testing.assert_allclose(figures(asked.score_exactly(pixels)), figures(asked.score_pixels(pixels)), atol=1e-4)


def test_without_weights_nothing_is_half_written(exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "light")
    light = OnnxScorer(folder, threads=1)
    with pytest.raises(CallError, match="weights as they are stored"):
        light.save_pretrained(tmp_path / "out", half=True)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UolError, match=r"light: not a whole model folder: model.safetensors is missing"):
        light.save_pretrained(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_what_is_missing_or_damaged_is_one_line(model_folder, exported, tmp_path, monkeypatch):
    remedy = "uol export MODEL --out FOLDER writes it"
    with pytest.raises(UolError, match=f"model.onnx: no such graph; {remedy}"):
        OnnxScorer(model_folder)
    for name, content in (("model.onnx", b"nonsense"), ("model.safetensors", b""), ("model.safetensors", None)):
        broken = tmp_path / f"{name} {content}"
        forget_digests(shutil.copytree(exported, broken))
        (broken / name).unlink() if content is None else (broken / name).write_bytes(content)
        with pytest.raises(
            UolError, match=f"model.onnx: damaged, or made for other settings, references or weights; {remedy}"
        ) as told:
            OnnxScorer(broken)
        assert "\n" not in str(told.value)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UolError, match="pip install onnxruntime"):
        OnnxScorer(exported)


@pytest.mark.parametrize("name", ["config.json", "model.onnx", "model.safetensors", "references.safetensors"])
def test_one_flipped_bit_is_noticed(exported, tmp_path, name):
    copy = shutil.copytree(exported, tmp_path / "copy")
    content = bytearray((copy / name).read_bytes())
    content[-9] ^= 4
    (copy / name).write_bytes(content)
    with pytest.raises(UolError, match=name):
        OnnxScorer(copy)


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_a_graph_reads_weights_from_its_folder_alone(exported, tmp_path):
    copy = forget_digests(shutil.copytree(exported, tmp_path / "folder" / "copy"))
    shutil.copy(copy / "model.safetensors", tmp_path / "stolen.safetensors")
    graph = (copy / "model.onnx").read_bytes()
    (copy / "model.onnx").write_bytes(graph.replace(b"model.safetensors", b"../../stolen.s123"))
    with pytest.raises(UolError, match=r"reads weights from '../../stolen.s123'"):
        OnnxScorer(copy)


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_a_graph_made_for_another_model_is_refused(exported, tmp_path):
    changed = tmp_path / "changed"
    forget_digests(shutil.copytree(exported, changed))
    text = (changed / "config.json").read_text()
    (changed / "config.json").write_text(text.replace('"slope":', '"slope" :', 1).replace('"k": ', '"k": 1', 1))
    with pytest.raises(UolError, match="made for other settings, references or weights"):
        OnnxScorer(changed)


def test_scores_are_plain_numbers_within_the_panels_scale(asked, drawn):
    for score in asked.score(drawn.images):
        assert 1 <= score.low <= score.value <= score.high <= 5
        assert all(type(number) is float and np.isfinite(number) for number in vars(score).values())
