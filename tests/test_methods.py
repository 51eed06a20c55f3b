"""Every method on the one interface: finite predictions inside the scale, intervals that contain the value."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.errors import CallError, UolError
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
    if name == "uol":
        assert np.ptp(predictions.dispersion) > 0
    elif name == "order-learning":
        assert np.ptp(predictions.dispersion) == pytest.approx(0)
    else:
        assert np.isnan(predictions.dispersion).all()


@pytest.mark.parametrize("name", methods.names())
def test_losses_have_a_total_and_gradients(drawn, name):
    recipe = quick_recipe(method=name)
    method = methods.find(name)(recipe, drawn.scale)
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
