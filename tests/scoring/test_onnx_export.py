"""ONNX graphs: the same answers as PyTorch whatever the model, weights carried once, whole folders or none."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from quick import forget_digests, noise, untrained
from uol.errors import CallError, UolError
from uol.order import bradley_terry
from uol.order.bradley_terry import BradleyTerry
from uol.order.calibration import Calibration
from uol.order.config import ScoringConfig
from uol.scoring.network import read_outcomes
from uol.scoring.onnx import OnnxScorer
from uol.scoring.onnx_export import TOLERANCE, _traced, export_onnx, write_graphs
from uol.scoring.onnx_modules import ScoringGraph, _write_padding_as_numbers
from uol.scoring.scorer import Scorer

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

FIGURES = ("value", "low", "high", "dispersion", "standard_error")


def figures(scores):
    return np.array([[getattr(score, name) for name in FIGURES] for score in scores])


def assert_same_answers(scorer, folder, sizes=(1, 3, 40)):
    graphs = OnnxScorer(folder, threads=1)
    pixels = noise(max(sizes), scorer.config.crop, 2)
    pixels[-1], pixels[0] = 255, 0
    expected = figures(scorer.score_pixels(pixels))
    for size in sizes:
        np.testing.assert_allclose(figures(graphs.score_pixels(pixels[-size:])), expected[-size:], atol=1e-4, rtol=1e-4)
    for first, second in ((0, 1), (2, -1), (1, 0)):
        pair = pixels[first], pixels[second]
        assert graphs.compare_pixels(*pair) == pytest.approx(scorer.compare_pixels(*pair), abs=1e-5)
    return expected


@pytest.mark.slow
def test_images_less_the_mean_alone(tmp_path):
    scorer = untrained(normalise="mean")
    assert export_onnx(scorer, tmp_path / "model") < TOLERANCE
    assert_same_answers(scorer, tmp_path / "model", sizes=(3,))
    usual = untrained()
    assert not np.allclose(figures(usual.score_pixels(noise(3))), figures(scorer.score_pixels(noise(3))), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scoring", "model"),
    [
        ({}, {}),
        ({"mirror": True}, {"pooling": "positions"}),
        ({"both_directions": False}, {"uncertain": False}),
        ({"outcomes": "hard", "mirror": True}, {"backbone": "test_resnet"}),
        ({"mirror": True}, {"uncertain": False, "backbone": "test_vit", "crop": 160}),
        ({}, {"backbone": "test_vit", "pooling": "positions"}),
        ({}, {"backbone": "tf_efficientnet_lite0", "pooling": "positions", "crop": 64}),
        ({}, {"backbone": "vgg11", "pooling": "positions"}),
        ({"histogram_share": 0.7, "mirror": True}, {"levels": 5}),
        ({"histogram_share": 0.0}, {"levels": 10}),
    ],
)
def test_graphs_answer_as_pytorch_does(tmp_path, scoring, model):
    scorer = untrained(ScoringConfig(**scoring), **model)
    assert export_onnx(scorer, tmp_path / "model") < 1e-4
    values = assert_same_answers(scorer, tmp_path / "model")[:, 0]
    assert np.ptp(values) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("crop", [32, 64])
def test_graphs_see_the_views_that_pytorch_sees(tmp_path, crop):
    scoring = ScoringConfig(zooms=(1.0, 0.9, 1.1), mirror=True)
    scorer = untrained(scoring, pooling="positions", crop=crop)
    assert export_onnx(scorer, tmp_path / "model") <= TOLERANCE
    values = assert_same_answers(scorer, tmp_path / "model")[:, 0]
    as_it_is = Scorer(scorer.model, scorer.references, scorer.panel, scorer.bradley_terry, scorer.calibration)
    assert np.abs(figures(as_it_is.score_pixels(noise(40, crop, 2)))[:, 0] - values).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("panel", "bound"), [((0.0, 1.5), 1.5), ((4.5, 6.0), 4.5)])
def test_scores_at_the_panels_bounds(tmp_path, panel, bound):
    scorer = untrained(panel=panel, calibration=Calibration())
    export_onnx(scorer, tmp_path / "model")
    expected = assert_same_answers(scorer, tmp_path / "model", sizes=(3,))
    assert expected[0, 0] == expected[-1, 0] == bound  # black and white


@pytest.mark.parametrize("k", [0.05, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("delta", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("kind", ["probabilities", "hard"])
def test_the_graphs_maximum_is_that_of_bradley_terry(k, delta, kind):
    scorer = untrained(ScoringConfig(outcomes=kind), k=k, delta=delta)
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.5, 5.5, 60)
    model = BradleyTerry(min(k, 30.0), min(delta, 3.0))
    outcomes = bradley_terry.probabilities(truth[:, None] - scorer.references.scores, model)
    outcomes = 0.9 * outcomes + 0.1 * rng.dirichlet(np.ones(3), outcomes.shape[:2])
    outcomes[0], outcomes[1] = [1, 0, 0], [0, 0, 1]  # one loses, one wins every comparison
    expected = bradley_terry.estimate(
        read_outcomes(outcomes, kind), scorer.references.scores, scorer.bradley_terry, (1.0, 5.0)
    )
    value, error = ScoringGraph(scorer).maximum(torch.from_numpy(outcomes))
    np.testing.assert_allclose(value, expected.value, atol=1e-5)
    np.testing.assert_allclose(error, expected.standard_error, rtol=1e-3)


@pytest.mark.slow
def test_weights_are_carried_once_and_the_folder_moves_as_a_whole(trained, model_folder, tmp_path):
    written = tmp_path / "a model"
    export_onnx(trained.scorer, written)
    assert sorted(path.name for path in written.iterdir()) == [
        "README.md", "compare.onnx", "config.json", "manifest.json", "model.onnx", "model.safetensors",
        "references.safetensors",
    ]  # fmt: skip
    for name in ("config.json", "model.safetensors", "references.safetensors"):
        assert (written / name).read_bytes() == (model_folder / name).read_bytes()
    graph = onnx.load(written / "model.onnx", load_external_data=False).graph
    assert all(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in graph.initializer)
    assert (written / "model.onnx").stat().st_size < 200_000
    (tmp_path / "elsewhere, too").mkdir()
    moved = shutil.move(written, tmp_path / "elsewhere, too" / "model")
    assert_same_answers(trained.scorer, moved, sizes=(3,))
    assert_same_answers(Scorer.from_pretrained(moved), moved, sizes=(3,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_float16_weights_are_read_as_they_are_stored(model_folder, tmp_path):
    half = tmp_path / "half"
    forget_digests(shutil.copytree(model_folder, half))
    for name in ("model.safetensors", "references.safetensors"):
        tensors = load_file(half / name)
        halved = {key: tensor.half() if tensor.dtype == torch.float32 else tensor for key, tensor in tensors.items()}
        save_file(halved, half / name)
    scorer = Scorer.from_pretrained(half)
    export_onnx(scorer, tmp_path / "out", source=half)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (half / "model.safetensors").read_bytes()
    assert_same_answers(scorer, tmp_path / "out", sizes=(3,))
    write_graphs(scorer, half)
    assert (half / "model.onnx").read_bytes() == (tmp_path / "out" / "model.onnx").read_bytes()


@pytest.mark.slow
def test_graphs_that_differ_are_not_left_behind(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("uol.scoring.onnx_modules.STEEPEST", 1e-3)
    with pytest.raises(UolError, match="from PyTorch, more than 0.001; nothing was written"):
        export_onnx(trained.scorer, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_samples_are_refused(trained, tmp_path):
    scorer = untrained(ScoringConfig(samples=5))
    with pytest.raises(CallError, match="scores by samples cannot be exported"):
        export_onnx(scorer, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_other_files_are_not_replaced_but_an_older_export_is(trained, tmp_path):
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "notes.txt").write_text("kept")
    with pytest.raises(CallError, match="other files in it"):
        export_onnx(trained.scorer, tmp_path / "busy")
    export_onnx(trained.scorer, tmp_path / "model")
    export_onnx(trained.scorer, tmp_path / "model")


@pytest.mark.slow
def test_the_command(uol, model_folder, tmp_path):
    code, out, err = uol("export", model_folder, "--out", tmp_path / "light", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["largest_difference"] < 1e-4
    assert {entry["file"] for entry in told["files"]} >= {"model.onnx", "compare.onnx", "model.safetensors"}
    code, _, err = uol("export", model_folder, "--out", tmp_path / "light")
    assert (code, "holds a model already" in err) == (2, True)
    code, out, err = uol("export", model_folder, "--out", tmp_path / "light", "--replace")
    assert code == 0
    assert "model.onnx" in out
    assert err.startswith("largest difference from PyTorch: ")
    code, out, err = uol("export", tmp_path / "nothing", "--out", tmp_path / "light")
    assert code == 2
    assert "no such model folder" in err


@pytest.mark.parametrize("side", [16, 17])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, 2), (3, 1)])
def test_tensorflows_padding_is_part_of_the_convolution(side, kernel, stride):
    from timm.layers import create_conv2d

    torch.manual_seed(0)
    layer = create_conv2d(4, 4, kernel, stride=stride, padding="same", depthwise=True, bias=False)
    images = torch.randn(2, 4, side, side)
    expected = layer(images)
    _write_padding_as_numbers(layer)
    assert torch.equal(layer(images), expected)
    nodes = [node.op_type for node in _traced(layer, {"images": images}, ["maps"]).graph.node]
    assert "Pad" not in nodes
    assert nodes.count("Conv") == 1
