"""Histograms of several panels: a head for each, learnt from that panel's batches alone, stored without copies."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from quick import noise, quick_recipe
from uol.methods.uol import Uol
from uol.runs.run import run
from uol.scoring.base import BaseScorer
from uol.scoring.config import PanelConfig
from uol.scoring.onnx_export import export_onnx
from uol.scoring.released import open_model
from uol.scoring.scorer import Scorer
from uol.training.batches import fixed_batches
from uol.training.packed import PackedImages
from uol.training.panels import join
from uol.training.teachers import Teachers

RECIPE = quick_recipe(histogram_weight=0.5, epochs=1).with_changes({"model.levels": 10})
PIXELS = noise(5, seed=8)


@pytest.fixture(scope="module")
def three(drawn, drawn_b):
    """Panels of five levels, of ten, and of unknown histograms."""
    unknown = replace(drawn, name="unknown", histograms=None, levels=None)
    return join([PackedImages.pack(rated, RECIPE.model) for rated in (drawn, drawn_b, unknown)])


@pytest.fixture(scope="module")
def method(three):
    return run(three, RECIPE, accelerator="cpu")


@pytest.fixture(scope="module")
def folder(method, tmp_path_factory):
    place = tmp_path_factory.mktemp("heads") / "model"
    method.scorer.save_pretrained(place)
    return place


def batches_of(three, panel):
    found = fixed_batches(three, RECIPE, torch.device("cpu"))
    return next(batch for batch in found if (batch.panel == panel).all())


@pytest.mark.parametrize(("panel", "levels"), [(0, 5), (1, 10)])
def test_a_panels_head_learns_from_the_first_levels_of_its_batches(three, panel, levels):
    torch.manual_seed(0)
    method = Uol(RECIPE, three.rated.scale, 10, 3)
    method.prepare_for(three)
    method.eval()
    batch = batches_of(three, panel)
    losses = method(batch)
    head = method.level_heads[panel]
    logits = head(method.model(batch.images).mean)[:, :levels]
    expected = -(batch.histogram[:, :levels] * logits.log_softmax(-1)).sum(-1).mean()
    assert losses["histogram"].item() == pytest.approx(expected.item(), rel=1e-5)
    losses["total"].backward()
    for number, one in enumerate(method.level_heads):
        assert bool(one.weight.grad.any()) == (number == panel)
    assert not head.weight.grad[levels:].any()


def test_a_panel_without_histograms_trains_without_that_loss(three):
    method = Uol(RECIPE, three.rated.scale, 10, 3)
    method.prepare_for(three)
    losses = method(batches_of(three, 2))
    assert losses["histogram"].item() == 0
    losses["total"].backward()
    assert not any(head.weight.grad.any() for head in method.level_heads)
    assert method.model.mean.weight.grad.isfinite().all()


@pytest.mark.slow
@torch.inference_mode()
def test_each_panel_scores_with_its_head(method):
    scale, ten, unknown = method.scorers
    assert [scorer.levels_used for scorer in method.scorers] == [5, 10, 0]
    assert not unknown.uses_histogram
    gaussians = ten.embed_pixels(PIXELS)
    shares = method.level_heads[1](gaussians.mean).softmax(-1).numpy()
    assert ten.level_means(gaussians) == pytest.approx(shares @ np.linspace(1, 10, 10), rel=1e-5)
    gaussians = scale.embed_pixels(PIXELS)
    shares = method.level_heads[0](gaussians.mean)[:, :5].softmax(-1).numpy()
    assert scale.level_means(gaussians) == pytest.approx(shares @ np.linspace(1, 5, 5), rel=1e-5)
    assert unknown.levels(gaussians) is None


@pytest.mark.slow
def test_a_folder_has_each_head_once(method, folder):
    assert json.loads((folder / "config.json").read_text())["panel"] == {
        "name": "synthetic-a", "low": 1.0, "high": 5.0, "levels": 5,
    }  # fmt: skip
    for number, name, levels in ((1, "synthetic-b", None), (2, "unknown", 0)):
        stated = json.loads((folder / "panels" / name / "config.json").read_text())["panel"]
        assert stated.get("levels") == levels
        own = load_file(folder / "panels" / name / "network.safetensors")
        assert np.array_equal(own["levels.weight"], method.level_heads[number].weight.detach().numpy())
        assert not any(key.startswith(("comparator", "mean", "log_variance")) for key in own)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["torch", "half", "onnx"])
def test_folders_and_graphs_answer_as_the_trained_network(method, tmp_path, runtime):
    folder = tmp_path / "model"
    if runtime == "onnx":
        pytest.importorskip("onnxruntime")
        export_onnx(method.scorer, folder)
    else:
        method.scorer.save_pretrained(folder, half=runtime == "half")
    loaded = open_model(folder, "onnx" if runtime == "onnx" else "torch", "cpu")
    near = {"abs": 0.05} if runtime == "half" else {"abs": 1e-3}
    together = loaded.score_panels(PIXELS)
    for scorer in method.scorers:
        name, unit = scorer.panel.name, scorer.panel.scale.unit
        expected = [score.value / unit for score in scorer.score_pixels(PIXELS)]
        assert [score.value / unit for score in together[name]] == pytest.approx(expected, **near)
        alone = loaded.on_panel(name)
        assert alone.panel == scorer.panel
        assert [score.value / unit for score in alone.score_pixels(PIXELS)] == pytest.approx(expected, **near)
        alone.save_pretrained(tmp_path / name)
        again = BaseScorer.from_pretrained(tmp_path / name)
        assert [score.value / unit for score in again.score_pixels(PIXELS)] == pytest.approx(expected, **near)


@pytest.mark.slow
def test_panels_that_differ_in_the_head_alone_share_the_network(drawn, drawn_b):
    plain = RECIPE.with_changes({"model.backbone": "test_vit", "model.resize": 160, "model.crop": 160, "batch_size": 8})
    panels = join([PackedImages.pack(rated.subset(np.arange(16)), plain.model) for rated in (drawn, drawn_b)])
    first, second = run(panels, plain, accelerator="cpu").scorers
    assert set(first.other_panels["synthetic-b"].tensors) == {"levels.weight", "levels.bias"}
    other = first.on_panel("synthetic-b")
    assert other.model.backbone is first.model.backbone
    assert torch.equal(other.model.levels.weight, second.model.levels.weight)
    assert not torch.equal(other.model.levels.weight, first.model.levels.weight)


def test_a_model_of_one_panel_states_no_levels(trained, tmp_path):
    trained.scorer.save_pretrained(tmp_path / "model")
    assert set(json.loads((tmp_path / "model" / "config.json").read_text())["panel"]) == {"name", "low", "high"}


@pytest.mark.slow
def test_teachers_judge_each_panel_with_its_norms_and_its_head(three, method, folder):
    recipe = RECIPE.with_changes({"teachers": [str(folder)], "teacher_weight": 0.25})
    pupil = Uol(recipe, three.rated.scale, 10, 3).eval()
    pupil.prepare_for(three)
    for panel, scorer in enumerate(method.scorers):
        batch = batches_of(three, panel)
        answers = pupil._teachers.judge(batch.images, batch.first, batch.second, batch.panel)
        places = scorer.model(batch.images / 255).mean
        there, back = scorer.model.comparator, (batch.second, batch.first)
        logits = there.pairs(places[None], batch.first, batch.second)[0] + there.pairs(places[None], *back)[0].flip(-1)
        assert torch.allclose(answers.order, (logits / 2).softmax(-1), atol=1e-5)
        if scorer.levels_used:
            shares = scorer.model.levels(places)[:, : scorer.levels_used].softmax(-1)
            assert torch.allclose(answers.histogram[:, : scorer.levels_used], shares, atol=1e-5)
            assert not answers.histogram[:, scorer.levels_used :].any()
        else:
            assert answers.histogram.isnan().all()
            mixed = pupil._with_teachers(batch, pupil._teachers).histogram
            assert torch.equal(mixed.isnan(), batch.histogram.isnan())


@pytest.mark.slow
def test_histograms_of_a_panel_are_taught_by_the_teachers_that_know_it(drawn, drawn_b, folder, tmp_path):
    five = quick_recipe(histogram_weight=0.5, epochs=1).with_changes({"model.levels": 5})
    one = run(PackedImages.pack(drawn, five.model), five, accelerator="cpu").scorer
    one.save_pretrained(tmp_path / "one")
    several = Scorer.from_pretrained(folder)
    teachers = Teachers.load([str(folder), str(tmp_path / "one")], RECIPE.model)
    panels = [PanelConfig.of(drawn.name, drawn.scale, 5), PanelConfig.of(drawn_b.name, drawn_b.scale, 10)]
    teachers.prepare_for([*panels, PanelConfig.of("else", drawn.scale, 5)])
    images, rows = torch.rand(3, 3, 32, 32), (torch.arange(2), torch.arange(1, 3))
    said = [
        several.model.levels(several.model(images).mean)[:, :5].softmax(-1),
        one.model.levels(one.model(images).mean).softmax(-1),
    ]
    both = teachers.judge(images, *rows, torch.zeros(3, dtype=torch.int64)).histogram
    assert torch.allclose(both[:, :5], sum(said) / 2, atol=1e-5)
    ten = several.on_panel(drawn_b.name).model
    alone = teachers.judge(images, *rows, torch.ones(3, dtype=torch.int64)).histogram
    assert torch.allclose(alone, ten.levels(ten(images).mean).softmax(-1), atol=1e-5)
    third = teachers.judge(images, *rows, torch.full((3,), 2))
    assert third.histogram.isnan().all()
    assert third.order.isfinite().all()


@pytest.mark.slow
def test_a_pupil_that_begins_as_its_teacher_has_all_its_heads(three, method, folder):
    recipe = RECIPE.with_changes({"teachers": [str(folder)], "start": "teacher"})
    pupil = Uol(recipe, three.rated.scale, 10, 3)
    pupil.prepare_for(three)
    for ours, theirs in zip(pupil.level_heads, method.level_heads, strict=True):
        assert torch.equal(ours.weight, theirs.weight)
        assert torch.equal(ours.bias, theirs.bias)


@pytest.mark.slow
def test_distilling_several_panels_is_resumed_exactly(three, folder, tmp_path):
    recipe = RECIPE.with_changes({"teachers": [str(folder)], "epochs": 2})

    def kill(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(three, recipe, tmp_path / "run", kill, accelerator="cpu")
    again = run(three, recipe, tmp_path / "run", accelerator="cpu")
    whole = run(three, recipe, accelerator="cpu")
    for one, two in zip(again.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(one, two)
