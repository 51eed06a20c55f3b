"""Runs: what is held out, what a run folder keeps, and what cannot be trained on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.run import hold_out, run
from uol.training.packed import PackedImages


def trained_on(rated, recipe, *arguments, **options):
    return run(PackedImages.pack(rated, recipe.model), recipe, *arguments, **options)


def test_held_out_images_do_not_train(drawn):
    packed = PackedImages.pack(drawn, quick_recipe().model)
    training, held_out = hold_out(packed, quick_recipe(held_out=0.25))
    assert held_out is not None
    assert (len(training), len(held_out)) == (60, 20)
    assert not set(training.rated.names) & set(held_out.rated.names)
    everything, nothing = hold_out(packed, quick_recipe(held_out=0))
    assert len(everything) == 80
    assert nothing is None


@pytest.mark.slow
def test_a_run_folder_keeps_recipe_losses_and_checkpoint_and_resumes(drawn, tmp_path):
    recipe = quick_recipe(epochs=3)

    def kill(report):
        if report.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained_on(drawn, recipe, tmp_path / "run", kill, "cpu")
    resumed = trained_on(drawn, recipe, tmp_path / "run", accelerator="cpu")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors",
        "metrics.csv",
        "recipe.yaml",
    ]
    losses = pd.read_csv(tmp_path / "run" / "metrics.csv")
    assert losses["epoch"].tolist() == [1, 2, 3]
    assert {"total", "order", "ordinal", "dispersion", "learning_rate", "seconds"} <= set(losses.columns)
    whole = trained_on(drawn, recipe, accelerator="cpu")
    pixels = PackedImages.pack(drawn, recipe.model).centre
    assert np.array_equal(resumed.predict(pixels).value, whole.predict(pixels).value)


@pytest.mark.slow
def test_another_recipe_does_not_overwrite_a_run(drawn, tmp_path):
    trained_on(drawn, quick_recipe(epochs=1), tmp_path / "run", accelerator="cpu")
    with pytest.raises(CallError, match="other settings .epochs: 1, now 2."):
        trained_on(
            drawn,
            quick_recipe(epochs=2),
            tmp_path / "run",
            accelerator="cpu",
        )


def test_what_cannot_be_trained_on(drawn):
    with pytest.raises(UolError, match="too few to train on"):
        trained_on(drawn.subset([0]), quick_recipe())
    flat = RatedImages("flat", drawn.images, drawn.names, np.full(80, 3.0), Scale(1, 5))
    with pytest.raises(UolError, match="no order to learn"):
        trained_on(flat, quick_recipe())
    unrated = RatedImages("unrated", drawn.images, drawn.names, np.full(80, np.nan), Scale(1, 5))
    with pytest.raises(UolError, match="nobody rated"):
        trained_on(unrated, quick_recipe())


@pytest.mark.slow
def test_unknown_variances_are_no_obstacle(drawn):
    plain = RatedImages("plain", drawn.images, drawn.names, drawn.scores, drawn.scale)
    predictions = trained_on(plain, quick_recipe(), accelerator="cpu").predict(
        PackedImages.pack(plain, quick_recipe().model).centre
    )
    assert np.isfinite(predictions.value).all()
    assert np.isnan(predictions.dispersion).all()  # nothing is known of how raters differ


@pytest.mark.slow
def test_test_labels_cannot_reach_training(drawn):
    """Training sees only its subset: shuffling the scores of all other images changes nothing."""
    split = drawn.splits["default"]
    shuffled = drawn.scores.copy()
    shuffled[split.test] = np.random.default_rng(0).permutation(shuffled[split.test])
    other = RatedImages(
        drawn.name, drawn.images, drawn.names, shuffled, drawn.scale, drawn.variances, drawn.counts, splits=drawn.splits
    )
    pixels = PackedImages.pack(drawn, quick_recipe().model).centre
    first, second = (
        trained_on(rated.subset(split.train), quick_recipe(), accelerator="cpu").predict(pixels)
        for rated in (drawn, other)
    )
    assert np.array_equal(first.value, second.value)


@pytest.mark.slow
def test_a_run_is_not_resumed_on_other_images(drawn, tmp_path):
    """Or else images that trained it would test it."""
    recipe = quick_recipe(epochs=1)
    trained_on(drawn.subset(np.arange(60)), recipe, tmp_path / "run", accelerator="cpu")
    with pytest.raises(CallError, match="holds a run on other images"):
        trained_on(drawn.subset(np.arange(20, 80)), recipe, tmp_path / "run", accelerator="cpu")


def test_two_images_at_least_are_held_out(drawn):
    packed = PackedImages.pack(drawn.subset(np.arange(10)), quick_recipe().model)
    held_out = hold_out(packed, quick_recipe(held_out=0.05))[1]
    assert held_out is not None
    assert len(held_out) == 2
