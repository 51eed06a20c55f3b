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
from uol.training.batches import Feed, PackedImages, plan_epoch
from uol.training.groups import balanced_batches, group_numbers

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
    numbers = group_numbers(replace(drawn, groups=told), "group_balance: 1")
    assert len(set(numbers)) == 4
    assert (numbers.reshape(20, 4) == numbers[:4]).all()
    one = group_numbers(replace(drawn, groups=told[["sex"]]), "group_balance: 1")
    assert len(set(one)) == 3  # F and f are one, and what is not told is one


@pytest.mark.parametrize("setting", [{"group_balance": 0.5}])
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


def test_a_run_by_groups_is_not_resumed_with_others(drawn, tmp_path):
    recipe = quick_recipe(pairs="all", group_balance=1, epochs=1)
    told = replace(drawn, groups=pd.DataFrame({"gender": ["f", "m"] * 40}))
    run(PackedImages.pack(told, recipe.model), recipe, tmp_path / "run")
    run(PackedImages.pack(told, recipe.model), recipe, tmp_path / "run")
    other = replace(drawn, groups=pd.DataFrame({"gender": ["f", "m", "m", "m"] * 20}))
    with pytest.raises(CallError, match="on other images"):
        run(PackedImages.pack(other, recipe.model), recipe, tmp_path / "run")
