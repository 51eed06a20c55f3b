"""Every method on the one interface: finite predictions inside the scale, intervals that contain the value."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.errors import CallError, UolError
from uol.losses import nearest_level
from uol.methods.comboloss import ComboLoss
from uol.methods.ldl import Ldl
from uol.methods.uol import Uol
from uol.training.batches import PackedImages, fixed_batches
from uol.training.run import run

POSITIONS = {
    "backbone": "test_byobnet", "resize": 32, "crop": 32, "dimensions": 16, "hidden": 16, "pooling": "positions",
}  # fmt: skip


@pytest.mark.parametrize("name", methods.names())
def test_predictions(drawn, name):
    recipe = quick_recipe(method=name)
    method = run(PackedImages.pack(drawn, recipe.model), recipe, accelerator="cpu")
    predictions = method.predict(PackedImages.pack(drawn, recipe.model).centre)
    low, high = drawn.scale
    assert len(predictions.value) == 80
    assert ((low <= predictions.low) & (predictions.low <= predictions.value)).all()
    assert ((predictions.value <= predictions.high) & (predictions.high <= high)).all()
    assert np.isfinite(predictions.value).all()
    if name in ("uol", "ldl", "uncertain-regression"):
        assert np.ptp(predictions.dispersion) > 0
    elif name == "order-learning":
        assert np.ptp(predictions.dispersion) == pytest.approx(0)
    else:
        assert np.isnan(predictions.dispersion).all()


@pytest.mark.parametrize("name", methods.names())
def test_losses_have_a_total_and_gradients(drawn, name):
    recipe = quick_recipe(method=name)
    method = methods.find(name)(recipe, drawn.scale, levels=5)
    data = PackedImages.pack(drawn, recipe.model)
    losses = method(fixed_batches(data, recipe, torch.device("cpu"))[0])
    losses["total"].backward()
    assert all(parameter.grad is not None for parameter in method.parameters())


def test_unknown_methods_and_untrained_scorers(drawn):
    with pytest.raises(CallError, match="no method called 'oul'"):
        methods.find("oul")
    with pytest.raises(UolError, match="not trained yet"):
        Uol(quick_recipe(), drawn.scale).scorer  # noqa: B018


def test_helpers_add_their_losses_and_are_not_in_the_model(drawn):
    recipe = quick_recipe(score_weight=2.0, histogram_weight=0.5, frozen=1, model=POSITIONS)
    data = PackedImages.pack(drawn, recipe.model)
    batch = fixed_batches(data, recipe, torch.device("cpu"))[0]
    method = Uol(recipe, drawn.scale, levels=5)
    torch.manual_seed(0)
    losses = method(batch)
    torch.manual_seed(0)
    plain = method.order_losses(method.model(batch.images), batch)
    features = method.model.features(batch.images)
    score = ((method.score_head(features)[:, 0] - batch.scores) ** 2).mean()
    shares = -(method.histogram_head(features).log_softmax(-1) * batch.histogram).sum(-1).mean()
    assert torch.allclose(losses["total"], plain["total"] + 2 * score + 0.5 * shares)
    assert not any("head" in key for key in method.model.state_dict() if key.startswith(("score", "histogram")))


def test_without_histograms_there_is_no_histogram_helper(drawn):
    assert Uol(quick_recipe(histogram_weight=0.5), drawn.scale).histogram_head is None


def test_frozen_convolutions_keep_their_weights(drawn):
    recipe = quick_recipe(frozen=2, epochs=1)
    packed = PackedImages.pack(drawn, recipe.model)
    torch.manual_seed(recipe.seed)
    before = [p.clone() for p in Uol(recipe, drawn.scale).model.backbone.parameters()]
    after = list(run(packed, recipe, accelerator="cpu").model.backbone.parameters())
    same = [torch.equal(a, b) for a, b in zip(before, after, strict=True)]
    assert any(same)
    assert not all(same)
    assert [p.requires_grad for p in after].count(False) >= 2
    with pytest.raises(CallError, match="convolutions; 99 of them cannot be frozen"):
        Uol(quick_recipe(frozen=99), drawn.scale)


def test_regression_pools_and_mirrors_as_the_recipe_says(drawn):
    recipe = quick_recipe(method="regression", model=POSITIONS, scoring={"mirror": True})
    packed = PackedImages.pack(drawn, recipe.model)
    method = run(packed, recipe, accelerator="cpu")
    assert method.head.in_features == 2 * method.model.backbone.width
    pixels = packed.centre
    assert np.allclose(method.predict(pixels).value, method.predict(pixels.flip(-1)).value, atol=1e-5)


@pytest.mark.parametrize("name", methods.names())
def test_losses_fall_and_a_checkpoint_brings_the_same_predictions_back(drawn, tmp_path, name):
    recipe = quick_recipe(method=name, epochs=6)
    packed = PackedImages.pack(drawn, recipe.model)
    reports = []
    first = run(packed, recipe, tmp_path / "run", reports.append, accelerator="cpu").predict(packed.centre)
    assert reports[-1].losses["total"] < reports[0].losses["total"]
    again = run(packed, recipe, tmp_path / "run", reports.append, accelerator="cpu").predict(packed.centre)
    assert len(reports) == 6  # nothing was trained again
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one, two, equal_nan=True)


@pytest.mark.parametrize("name", methods.names())
def test_another_panels_scale(drawn_b, name):
    recipe = quick_recipe(method=name, epochs=6)
    packed = PackedImages.pack(drawn_b, recipe.model)
    predictions = run(packed, recipe, accelerator="cpu").predict(packed.centre)
    assert ((predictions.value >= 1) & (predictions.value <= 10)).all()
    assert np.abs(predictions.value - drawn_b.scores).mean() < 3
    assert ((predictions.low <= predictions.value) & (predictions.value <= predictions.high)).all()


@pytest.mark.parametrize("name", methods.names())
def test_losses_are_of_32_bits_where_products_are_of_16(drawn, name):
    recipe = quick_recipe(method=name)
    method = methods.find(name)(recipe, drawn.scale, levels=5)
    batch = fixed_batches(PackedImages.pack(drawn, recipe.model), recipe, torch.device("cpu"))[0]
    with torch.autocast("cpu", torch.bfloat16):
        losses = method(batch)
    assert all(loss.dtype == torch.float32 and torch.isfinite(loss) for loss in losses.values())


@pytest.mark.parametrize("name", ["ldl", "uncertain-regression"])
def test_dispersion_is_that_of_the_panel_where_known(drawn, name):
    recipe = quick_recipe(method=name)
    packed = PackedImages.pack(drawn, recipe.model)
    told = run(packed, recipe, accelerator="cpu").predict(packed.centre).dispersion
    assert np.median(told) == pytest.approx(np.median(np.sqrt(drawn.variances)), rel=0.25)
    unknown = PackedImages.pack(replace(drawn, variances=np.full(80, np.nan)), recipe.model)
    assert np.isnan(run(unknown, recipe, accelerator="cpu").predict(packed.centre).dispersion).all()


def test_ldl_without_histograms_is_refused_in_one_line(drawn):
    recipe = quick_recipe(method="ldl")
    packed = PackedImages.pack(replace(drawn, histograms=None), recipe.model)
    with pytest.raises(CallError, match="method ldl learns histograms of ratings: give data with") as refused:
        run(packed, recipe, accelerator="cpu")
    assert "\n" not in str(refused.value)


def test_ldl_predicts_the_mean_of_its_distribution(drawn_b):
    method = Ldl(quick_recipe(), drawn_b.scale, levels=10).eval()
    pixels = PackedImages.pack(drawn_b, quick_recipe().model).centre[:8]
    with torch.inference_mode():
        shares = method.head(method.model.features(pixels)).softmax(-1).double().numpy()
    levels = np.arange(1, 11)
    mean = shares @ levels
    assert np.allclose(method.predict(pixels).value, mean, atol=1e-5)
    spread = np.sqrt((shares * (levels - mean[:, None]) ** 2).sum(-1)) / drawn_b.scale.unit
    assert np.allclose(method.values(pixels)[1], spread, atol=1e-5)


def test_comboloss_weighs_the_classes_of_the_training_images(drawn):
    recipe = quick_recipe(method="comboloss", epochs=1)
    method = run(PackedImages.pack(drawn, recipe.model), recipe, accelerator="cpu")
    assert isinstance(method, ComboLoss)
    fresh = ComboLoss(recipe, drawn.scale)
    assert fresh.class_weight.tolist() == [1] * 5
    fresh.prepare_for(PackedImages.pack(drawn, recipe.model))
    count = np.bincount(nearest_level(torch.from_numpy(drawn.scores), drawn.scale, 5), minlength=5)
    assert fresh.class_weight.tolist() == pytest.approx(list(80 / 5 / np.maximum(count, 1)))
    assert not torch.equal(method.class_weight, fresh.class_weight)  # the held-out images are not among its own


def test_the_guides_method_works(drawn, monkeypatch):
    guide = (Path(__file__).parents[1] / "docs" / "guide.md").read_text(encoding="utf-8")
    code, line = re.findall(r"```python\n(.*?)```", guide[guide.index("## Add a method") :], re.S)
    module = types.ModuleType("uol.methods.absolute")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "uol.methods.absolute", module)
    for name, place in eval(f"{{{line}}}").items():
        monkeypatch.setitem(methods._METHODS, name, place)
    recipe = quick_recipe(method="absolute")
    packed = PackedImages.pack(drawn, recipe.model)
    predictions = run(packed, recipe, accelerator="cpu").predict(packed.centre)
    assert ((predictions.low <= predictions.value) & (predictions.value <= predictions.high)).all()
