"""Every method on the one interface: finite predictions inside the scale, intervals that contain the value."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.errors import CallError, UolError
from uol.methods.uol import Uol
from uol.training.batches import PackedImages, epoch_batches, plan_epoch
from uol.training.run import run


@pytest.mark.parametrize("name", methods.names())
def test_predictions(drawn, name):
    recipe = quick_recipe(method=name)
    method = run(PackedImages.pack(drawn, recipe), recipe, accelerator="cpu")
    predictions = method.predict(PackedImages.pack(drawn, recipe).centre)
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
    data = PackedImages.pack(drawn, recipe)
    losses = method(next(iter(epoch_batches(data, plan_epoch(drawn, recipe, 0), torch.device("cpu")))))
    losses["total"].backward()
    assert all(parameter.grad is not None for parameter in method.parameters())


def test_unknown_methods_and_untrained_scorers(drawn):
    with pytest.raises(CallError, match="no method called 'oul'"):
        methods.find("oul")
    with pytest.raises(UolError, match="not trained yet"):
        Uol(quick_recipe(), drawn.scale).scorer  # noqa: B018
