"""What the raters said of test images reaches no prediction of any method, here or on other data sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol import methods
from uol.ratings.rated_images import RatedImages, Split
from uol.runs.folder import RunFolder
from uol.runs.train_and_test import Origin, train_and_test
from uol.runs.transfer import judge_elsewhere
from uol.training.packed import PackedImages

SPLIT = Split(np.arange(32), np.arange(32, 48))


def mixed(rated: RatedImages, part: np.ndarray, seed: int | None) -> RatedImages:
    """Everything that was said of some of the images, in another order among them."""
    rows = np.arange(len(rated))
    if seed is not None:
        rows[part] = np.random.default_rng(seed).permutation(part)
    return replace(
        rated, scores=rated.scores[rows], variances=rated.variances[rows], counts=rated.counts[rows],
        histograms=rated.histograms[rows], ratings=None,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", methods.names())
def test_shuffled_test_labels_change_no_prediction(drawn, method, tmp_path):
    rated = drawn.subset(np.arange(48))
    recipe = quick_recipe(method=method, epochs=1, validate_every=1)
    found = {}
    for name, seed in (("as they are", None), ("shuffled", 0)):
        packed = PackedImages.pack(mixed(rated, SPLIT.test, seed), recipe.model)
        other = replace(packed, rated=replace(packed.rated, name="other"))
        result = train_and_test(
            packed, "default", SPLIT, recipe, tmp_path / name, Origin("quick", {}),
            afterwards=lambda m, other=other, name=name: judge_elsewhere(m, other, "whole", RunFolder(tmp_path / name)),
        )  # fmt: skip
        found[name] = result, pd.read_csv(tmp_path / name / "predictions.csv"), other_values(tmp_path / name)
    (one, first, there), (two, second, also) = found.values()
    assert not np.array_equal(first["score"], second["score"])
    for column in ("value", "low", "high", "dispersion"):
        assert np.array_equal(first[column], second[column], equal_nan=True), column
    assert np.array_equal(there, also)
    assert one.metrics.mae != two.metrics.mae


def other_values(folder):
    return pd.read_csv(folder / "evaluations" / "other.csv")["value"].to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("method", methods.names())
def test_shuffled_training_labels_do(drawn, method, tmp_path):
    """So short a training still learns from labels: that test labels change nothing says something."""
    recipe = quick_recipe(method=method, epochs=1)
    values = []
    for name, seed in (("as they are", None), ("shuffled", 0)):
        packed = PackedImages.pack(mixed(drawn.subset(np.arange(48)), SPLIT.train, seed), recipe.model)
        train_and_test(packed, "default", SPLIT, recipe, tmp_path / name, Origin("quick", {}))
        values.append(pd.read_csv(tmp_path / name / "predictions.csv")["value"])
    assert not np.array_equal(*values)
