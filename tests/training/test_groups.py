"""Groups in training: compared within, seen in balance, and one clear line where a data set does not tell them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quick import quick_recipe
from uol.errors import CallError
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.run import run
from uol.training.batches import Feed, PackedImages, fixed_batches, plan_epoch
from uol.training.groups import balanced_batches, group_numbers
from uol.training.panels import join

CPU = torch.device("cpu")

groups = st.lists(st.sampled_from("aabbbbbc"), min_size=2, max_size=60).map(
    lambda words: np.unique(words, return_inverse=True)[1]
)


def panel(group, name="a", seed=0):
    """Images of which only scores and groups are known."""
    n = len(group)
    scores = np.random.default_rng(seed).integers(60, 300, n) / 60
    told = pd.DataFrame({"gender": [f"g{number}" for number in group]})
    images = np.zeros((n, 32, 32, 3), np.uint8)
    rated = RatedImages(name, images, [str(i) for i in range(n)], scores, Scale(1, 5), groups=told)
    return PackedImages.pack(rated, quick_recipe().model)


def made(data, recipe, epoch=0):
    """All batches of an epoch with the images they hold."""
    plan = plan_epoch(data.rated, recipe, epoch, data.panel, data.groups_for(recipe))
    feed = Feed(data, recipe, CPU)
    feed.load(plan)
    for rows in plan.images:
        yield rows, feed.batch()
        feed.position += 1


def test_a_group_is_gender_and_ethnicity_together(drawn):
    told = pd.DataFrame({"Sex": "x", "sex": ["F", "m ", "f", None] * 20, "race": ["white", "white", "asian", ""] * 20})
    numbers = group_numbers(replace(drawn, groups=told), "pairs_within: group")
    assert len(set(numbers)) == 4
    assert (numbers.reshape(20, 4) == numbers[:4]).all()
    one = group_numbers(replace(drawn, groups=told[["sex"]]), "pairs_within: group")
    assert len(set(one)) == 3  # F and f are one, and what is not told is one


@pytest.mark.parametrize("setting", [{"pairs_within": "group"}, {"group_balance": 0.5}])
def test_data_without_groups_are_refused_in_one_line(drawn, setting):
    recipe = quick_recipe(**setting)
    (name, value) = next(iter(setting.items()))
    line = f"{drawn.name}: {name}: {value} needs groups, and no column tells gender or ethnicity"
    empty = replace(drawn, groups=pd.DataFrame({"gender": ["", None] * 40}))
    for data in (drawn, empty):  # a column that says nothing of anybody is none
        with pytest.raises(CallError, match=f"^{line}$"):
            run(PackedImages.pack(data, recipe.model), recipe)
    with pytest.raises(ValueError, match="groups are wanted"):
        plan_epoch(drawn, recipe, 0)


def test_blended_images_are_of_no_group():
    with pytest.raises(CallError, match=r"pairs_within: group needs augmentation\.mix of 0"):
        quick_recipe(pairs_within="group", augmentation={"mix": 0.2})
    assert quick_recipe(group_balance=1, augmentation={"mix": 0.2}).group_setting == "group_balance: 1"


@given(groups, st.sampled_from(["all", "balanced"]), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_nothing_is_compared_across_groups(group, pairs, epoch):
    recipe = quick_recipe(pairs=pairs, pairs_within="group")
    data = panel(group)
    for rows, batch in made(data, recipe, epoch):
        own = torch.from_numpy(group[rows])
        across = own[batch.first] != own[batch.second]
        assert (batch.pair_weight[across] == 0).all()
        used = batch.triplet_weight > 0
        for other in (batch.near, batch.far):
            assert (own[batch.anchor] == own[other])[used].all()
        counted = batch.pair_weight > 0
        similar = ((batch.scores[batch.first] - batch.scores[batch.second]).abs() <= 0.2001) & counted
        if pairs == "all":
            assert (counted == ~across).all()  # every pair of one group counts
            if similar.any() and (counted & ~similar).any():
                assert float(batch.pair_weight[similar].sum()) == pytest.approx(1 / 3, rel=1e-4)
                assert float(batch.pair_weight.sum()) == pytest.approx(1, rel=1e-4)


def test_within_one_group_nothing_changes(drawn):
    """Where all images are of one group, the rule leaves the plan and all weights as they are."""
    for pairs in ("all", "balanced"):
        data = panel(np.zeros(60, int))
        free, bound = (list(made(data, quick_recipe(pairs=pairs, pairs_within=w))) for w in ("panel", "group"))
        for (rows, one), (same, other) in zip(free, bound, strict=True):
            assert np.array_equal(rows, same)
            assert all(torch.equal(a, b) for a, b in zip(one[6:], other[6:], strict=True))


def test_a_third_of_balanced_pairs_is_similar_within_groups_too():
    group = np.arange(640) % 2
    recipe = quick_recipe(pairs_within="group", batch_size=64, pairs_per_image=4)
    similar = []
    for _, batch in made(panel(group), recipe):
        used = batch.pair_weight > 0
        similar += ((batch.scores[batch.first] - batch.scores[batch.second]).abs() <= 0.2001)[used].tolist()
    assert np.mean(similar) == pytest.approx(1 / 3, abs=0.03)


def test_shapes_stay_the_same_whatever_the_groups():
    """A recorded step has places for all pairs: a batch with fewer leaves places empty."""
    recipe = quick_recipe(pairs="all", pairs_within="group")
    shapes = {
        tuple(tuple(tensor.shape) for tensor in batch)
        for group in (np.arange(60) % 2, np.arange(60) % 7)
        for _, batch in made(panel(group), recipe)
    }
    assert len(shapes) == 1


@given(groups, st.floats(0, 1), st.integers(1, 12), st.data())
@settings(max_examples=150, deadline=None)
def test_batches_have_groups_in_the_wanted_balance(group, balance, batches, data):
    size = data.draw(st.integers(1, len(group)))
    count = np.bincount(group)
    chosen = balanced_batches(group, batches, size, balance, np.random.default_rng(0))
    assert chosen.shape == (batches, size)
    assert all(len(set(row)) == size for row in chosen)  # no image twice in a batch
    share = count ** (1 - balance)
    share = share / share.sum() * size
    places = np.stack([np.bincount(group[row], minlength=len(count)) for row in chosen])
    if (share <= count).all():  # else rare groups have all images in every batch
        assert (np.abs(places - share) < 1 + 1e-6).all()
        assert (np.abs(places.sum(0) - batches * share) < 1 + 1e-6).all()
    else:
        assert any((places[:, number] == count[number]).all() for number in np.flatnonzero(share > count))
    for number in range(len(count)):
        uses = np.bincount(chosen[group[chosen] == number], minlength=len(group))[group == number]
        assert uses.max() - uses.min() <= 1


def test_balance_keeps_the_steps_of_an_epoch_and_follows_the_seed_and_epoch():
    group = np.repeat([0, 1, 2], [80, 30, 10])
    data = panel(group)
    plans = {}
    for balance in (0, 0.5, 1):
        recipe = quick_recipe(group_balance=balance)
        numbers = data.groups_for(recipe)
        plans[balance] = plan_epoch(data.rated, recipe, 0, None, numbers)
        assert np.array_equal(plans[balance].images, plan_epoch(data.rated, recipe, 0, None, numbers).images)
        assert not np.array_equal(plans[balance].images, plan_epoch(data.rated, recipe, 1, None, numbers).images)
    assert {plan.images.shape for plan in plans.values()} == {(7, 16)}
    assert np.array_equal(plans[0].images, plan_epoch(data.rated, quick_recipe(), 0).images)
    assert np.bincount(group[plans[1].images].ravel()).tolist() == pytest.approx([112 / 3] * 3, abs=1)


def test_a_set_smaller_than_a_batch_is_taken_whole():
    group = np.repeat([0, 1], [9, 1])
    recipe = quick_recipe(group_balance=1)
    data = panel(group)
    images = plan_epoch(data.rated, recipe, 0, None, data.groups_for(recipe)).images
    assert sorted(images[0]) == list(range(10))


def test_several_panels_are_compared_and_balanced_each_within_its_own_groups():
    parts = [panel(np.repeat([0, 1], [30, 10])), panel(np.arange(32) % 4, "b", 1)]
    data = join(parts)
    group = np.concatenate([np.repeat([0, 1], [30, 10]), np.arange(32) % 4])
    recipe = quick_recipe(pairs="all", pairs_within="group", group_balance=1)
    seen = []
    for rows, batch in made(data, recipe):
        own = torch.from_numpy(group[rows])
        assert len(set(data.panel[rows])) == 1
        assert ((own[batch.first] == own[batch.second]) == (batch.pair_weight > 0)).all()
        seen.append(tuple(np.bincount(own)))
    assert sorted(seen) == [(4, 4, 4, 4), (4, 4, 4, 4), (8, 8), (8, 8)]
    lacking = replace(parts[1], rated=replace(parts[1].rated, groups=pd.DataFrame()))
    with pytest.raises(CallError, match="^b: pairs_within: group needs groups"):
        join([parts[0], lacking]).groups_for(recipe)


def test_a_loss_is_followed_within_groups_too():
    group = np.arange(48) % 3
    batches = fixed_batches(panel(group), quick_recipe(pairs="all", pairs_within="group", group_balance=1), CPU)
    assert len(batches) == 3
    assert all(0 < (batch.pair_weight > 0).float().mean() < 0.5 for batch in batches)


def test_a_run_by_groups_is_not_resumed_with_others(drawn, tmp_path):
    recipe = quick_recipe(pairs="all", pairs_within="group", group_balance=1, epochs=1)
    told = replace(drawn, groups=pd.DataFrame({"gender": ["f", "m"] * 40}))
    run(PackedImages.pack(told, recipe.model), recipe, tmp_path / "run")
    run(PackedImages.pack(told, recipe.model), recipe, tmp_path / "run")
    other = replace(drawn, groups=pd.DataFrame({"gender": ["f", "m", "m", "m"] * 20}))
    with pytest.raises(CallError, match="on other images"):
        run(PackedImages.pack(other, recipe.model), recipe, tmp_path / "run")
