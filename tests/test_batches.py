"""Epoch plans and batches: reproducible, and the same images, crops and mirrors as a slow reading gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol.order import order_of
from uol.training.batches import PackedImages, epoch_batches, plan_epoch, steps_per_epoch

CPU = torch.device("cpu")


def test_plans_follow_seed_and_epoch(drawn):
    recipe = quick_recipe()
    same, again = plan_epoch(drawn, recipe, 3), plan_epoch(drawn, recipe, 3)
    assert np.array_equal(same.images, again.images)
    assert np.array_equal(same.pairs.second, again.pairs.second)
    assert not np.array_equal(same.images, plan_epoch(drawn, recipe, 4).images)
    assert not np.array_equal(same.images, plan_epoch(drawn, quick_recipe(seed=1), 3).images)


def test_every_image_is_in_an_epoch_at_most_once(drawn):
    plan = plan_epoch(drawn, quick_recipe(), 0)
    assert plan.images.shape == (5, 16)
    assert len(np.unique(plan.images)) == 80
    assert steps_per_epoch(79, quick_recipe()) == 4


@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_set_smaller_than_a_batch(drawn, n):
    plan = plan_epoch(drawn.subset(np.arange(n)), quick_recipe(), 0)
    assert plan.images.shape == (1, n)


def test_batches_equal_a_slow_reading(drawn):
    recipe = quick_recipe(
        random_crop=True,
        model={"backbone": "test_byobnet", "resize": 32, "crop": 24, "dimensions": 16, "hidden": 16},
    )
    data = PackedImages.pack(drawn, recipe)
    plan = plan_epoch(drawn, recipe, 0)
    assert plan.flip.any()
    assert not plan.flip.all()
    for b, batch in enumerate(epoch_batches(data, plan, CPU)):
        for m, i in enumerate(plan.images[b]):
            row, column = plan.corner[b, m]
            expected = np.asarray(drawn.images[i])[row : row + 24, column : column + 24]
            expected = expected[:, ::-1] if plan.flip[b, m] else expected
            assert np.array_equal(batch.images[m].numpy().transpose(1, 2, 0), expected)
        assert np.allclose(batch.scores, drawn.scores[plan.images[b]])
        assert np.allclose(batch.rating_variance, drawn.variances[plan.images[b]])
        used = batch.pair_weight.bool()
        labels = order_of(batch.scores[batch.first[used]], batch.scores[batch.second[used]], recipe.threshold)
        assert np.array_equal(labels, batch.order[used])


def test_the_centre_is_what_a_crop_without_chance_shows(drawn):
    recipe = quick_recipe(
        flip=False, model={"backbone": "test_byobnet", "resize": 32, "crop": 24, "dimensions": 16, "hidden": 16}
    )
    data = PackedImages.pack(drawn, recipe)
    plan = plan_epoch(drawn, recipe, 0)
    batch = next(iter(epoch_batches(data, plan, CPU)))
    assert torch.equal(batch.images, data.centre[torch.from_numpy(plan.images[0])])
    assert data.subset(np.array([4, 2])).centre.shape == (2, 3, 24, 24)
