"""Epoch plans and batches: reproducible, and the same images, crops and mirrors as a slow reading gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from quick import quick_recipe
from uol.order.order import order_of
from uol.ratings.rated_images import RatedImages
from uol.training.batches import Feed, fixed_batches, plan_epoch, steps_per_epoch
from uol.training.packed import PackedImages

CPU = torch.device("cpu")


def test_plans_follow_seed_and_epoch(drawn):
    recipe = quick_recipe()
    same, again = plan_epoch(drawn, recipe, 3), plan_epoch(drawn, recipe, 3)
    assert np.array_equal(same.images, again.images)
    assert np.array_equal(same.second, again.second)
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


def batches(data, recipe, resident=None):
    feed = Feed(data, recipe, CPU, resident)
    plan = plan_epoch(data.rated, recipe, 0)
    feed.load(plan)
    made = []
    for step in range(len(plan.images)):
        feed.stage(step)
        made.append(feed.batch())
        feed.position += 1
    return plan, made


def test_batches_equal_a_slow_reading(drawn):
    recipe = quick_recipe(augmentation={"flip": False})
    plan, made = batches(PackedImages.pack(drawn, recipe.model), recipe)
    for b, batch in enumerate(made):
        chosen = plan.images[b]
        assert np.array_equal(batch.images.numpy().transpose(0, 2, 3, 1), np.asarray(drawn.images)[chosen])
        assert np.allclose(batch.scores, drawn.scores[chosen])
        assert np.allclose(batch.rating_variance, drawn.variances[chosen])
        assert np.allclose(batch.histogram, drawn.histograms[chosen] / drawn.counts[chosen][:, None])
        used = batch.pair_weight.bool()
        labels = order_of(drawn.scores[chosen][batch.first[used]], drawn.scores[chosen][batch.second[used]], 0.2)
        assert np.array_equal(batch.target[used].argmax(-1), labels)
        assert set(batch.target.unique().tolist()) == {0.0, 1.0}


def test_all_pairs_are_weighted_and_soft_targets_follow_the_standard_errors(drawn):
    recipe = quick_recipe(pairs="all", order_target="soft")
    plan, made = batches(PackedImages.pack(drawn, recipe.model), recipe)
    batch, chosen = made[0], plan.images[0]
    assert {(int(i), int(j)) for i, j in zip(batch.first, batch.second, strict=True)} == {
        (i, j) for i in range(16) for j in range(16) if i != j
    }
    for p in range(0, 240, 7):
        i, j = chosen[batch.first[p]], chosen[batch.second[p]]
        error = np.sqrt(drawn.variances[i] / drawn.counts[i] + drawn.variances[j] / drawn.counts[j])
        above = norm.cdf((drawn.scores[i] - drawn.scores[j] - 0.2) / error)
        assert float(batch.target[p, 2]) == pytest.approx(above, abs=1e-3)
    similar = np.abs(batch.scores[batch.first] - batch.scores[batch.second]) <= 0.2001
    assert float(batch.pair_weight[similar].sum()) == pytest.approx(1 / 3, rel=1e-5)
    assert float(batch.pair_weight.sum()) == pytest.approx(1, rel=1e-5)


def test_soft_targets_are_hard_where_nothing_is_known_of_the_ratings(drawn):
    plain = RatedImages("plain", drawn.images, drawn.names, drawn.scores, drawn.scale)
    recipe = quick_recipe(pairs="all", order_target="soft")
    _, made = batches(PackedImages.pack(plain, recipe.model), recipe)
    assert set(made[0].target.unique().tolist()) == {0.0, 1.0}
    assert made[0].histogram.shape == (16, 0)


def test_blended_images_are_rated_as_their_parts_are(drawn, monkeypatch):
    recipe = quick_recipe(pairs="all", order_target="soft", augmentation={"flip": False, "mix": 0.5})
    share = torch.ones(recipe.batch_size)
    share[3], share[6] = 0.5, 0.8
    monkeypatch.setattr("uol.training.batches.draw_blend_shares", lambda count, how, device: share)
    packed = PackedImages.pack(drawn, recipe.model)
    plan, (mixed, *_) = batches(packed, recipe)
    _, (whole, *_) = batches(packed, recipe.with_changes({"augmentation.mix": 0.0}))
    for name in ("scores", "rating_variance", "histogram", "attributes", "images"):
        got, parts = getattr(mixed, name), getattr(whole, name)
        parts = parts / 255 if name == "images" else parts
        assert torch.allclose(got[6], 0.8 * parts[6] + 0.2 * parts[5])
        assert torch.equal(got[5], parts[5])
    chosen = plan.images[0]
    error = drawn.variances[chosen] / drawn.counts[chosen]
    pairs = list(zip(mixed.first.tolist(), mixed.second.tolist(), strict=True))
    spread = np.sqrt(0.25 * (error[3] + error[2]) + 0.64 * error[6] + 0.04 * error[5])
    above = norm.cdf((float(mixed.scores[3] - mixed.scores[6]) - recipe.threshold) / spread)
    assert float(mixed.target[pairs.index((3, 6)), 2]) == pytest.approx(above, abs=1e-3)
    for k in range(recipe.batch_size):
        used = {int(mixed.anchor[k]), int(mixed.near[k]), int(mixed.far[k])}
        assert float(mixed.triplet_weight[k]) == (0.0 if used & {3, 6} else float(whole.triplet_weight[k]))


def test_attributes_equal_a_slow_reading(drawn):
    gender = ["male", "Female", "", None] * 20
    ethnicity = ["Caucasian", "asian", "caucasian", "black", " Asian", "indian", np.nan, "asian"] * 10
    groups = pd.DataFrame({"ethnicity": ethnicity, "skin": drawn.groups["skin"], "gender": gender})
    recipe = quick_recipe()
    data = PackedImages.pack(replace(drawn, groups=groups), recipe.model)
    for number, row in enumerate(data.attributes.tolist()):
        assert row == [(1, -1, 0, 0)[number % 4], (1, -1, 1, 0, -1, 0, 0, -1)[number % 8]]
    plan, made = batches(data, recipe)
    for b, batch in enumerate(made):
        assert batch.attributes.dtype == torch.float32
        assert torch.equal(batch.attributes, data.attributes[plan.images[b]])
    rated = replace(drawn, groups=groups[["gender"]])
    assert (PackedImages.pack(rated, recipe.model).attributes[:, 1] == 0).all()
    for without in (drawn, replace(drawn, groups=pd.DataFrame())):
        assert torch.equal(PackedImages.pack(without, recipe.model).attributes, torch.zeros(80, 2))


def test_an_attribute_means_the_same_in_every_subset_and_set(drawn):
    groups = pd.DataFrame({"gender": ["f", "m"] * 40, "race": ["white", "asian"] * 40})
    data = PackedImages.pack(replace(drawn, groups=groups), quick_recipe().model)
    assert data.attributes.tolist() == [[-1, 1], [1, -1]] * 40
    assert data.subset(np.arange(1, 80, 2)).attributes.tolist() == [[1, -1]] * 40


def test_pixels_that_do_not_fit_on_the_device_come_batch_by_batch(drawn):
    recipe = quick_recipe(augmentation={"flip": False})
    data = PackedImages.pack(drawn, recipe.model)
    for one, other in zip(batches(data, recipe, True)[1], batches(data, recipe, False)[1], strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.target, other.target)


def test_a_second_epoch_lies_in_the_same_memory(drawn):
    """A recorded step reads the buffers of the first epoch: later plans must be copied into them."""
    recipe = quick_recipe(augmentation={"flip": False})
    data = PackedImages.pack(drawn, recipe.model)
    feed = Feed(data, recipe, CPU)
    feed.load(plan_epoch(drawn, recipe, 0))
    places = {name: tensor.data_ptr() for name, tensor in feed._plan.items()}
    plan = plan_epoch(drawn, recipe, 1)
    feed.position += 3
    feed.load(plan)
    assert places == {name: tensor.data_ptr() for name, tensor in feed._plan.items()}
    assert np.allclose(feed.batch().scores, drawn.scores[plan.images[0]])


def test_fixed_batches_are_always_the_same(drawn):
    recipe = quick_recipe(seed=5)
    data = PackedImages.pack(drawn, recipe.model)
    one, other = fixed_batches(data, recipe, CPU), fixed_batches(data, quick_recipe(seed=9), CPU)
    assert len(one) == 5
    assert all(
        torch.equal(a.images, b.images) and torch.equal(a.first, b.first) for a, b in zip(one, other, strict=True)
    )


def test_the_centre_is_what_a_crop_without_chance_shows(drawn):
    recipe = quick_recipe(
        augmentation={"flip": False},
        model={"backbone": "test_byobnet", "resize": 32, "crop": 24, "dimensions": 16, "hidden": 16},
    )
    data = PackedImages.pack(drawn, recipe.model)
    plan, made = batches(data, recipe)
    assert torch.equal(made[0].images, data.centre[torch.from_numpy(plan.images[0])])
    assert data.subset(np.array([4, 2])).centre.shape == (2, 3, 24, 24)
