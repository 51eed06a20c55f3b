"""Readings: another scorer of the same network is what training would have made of it with those settings."""

from __future__ import annotations

import numpy as np
import pytest

from quick import quick_recipe
from uol.errors import UolError
from uol.experiments.rescoring import Consistency, Rescored
from uol.order.consistency import estimate_by_consistency
from uol.order.references import choose_balanced_references
from uol.runs.folder import RunFolder
from uol.runs.run import hold_out, run
from uol.runs.train_and_test import Origin, train_and_test
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages


@pytest.fixture(scope="module")
def trained(drawn, tmp_path_factory):
    """A run, the images that it trained and calibrated with, and those it was tested on."""
    folder, recipe = tmp_path_factory.mktemp("readings") / "run", quick_recipe(epochs=2)
    packed, split = PackedImages.pack(drawn, recipe.model), drawn.splits["default"]
    train_and_test(packed, "default", split, recipe, folder, Origin("quick", {}))
    return folder, packed.subset(split.train), packed.subset(split.test)


def test_the_same_settings_give_the_same_predictions(trained):
    folder, training, test = trained
    again = Rescored(RunFolder(folder), quick_recipe(), training).predict(test.centre)
    before = Scorer.from_pretrained(folder / "model").score_exactly(test.centre)
    for name in ("value", "low", "high", "dispersion"):
        assert np.allclose(getattr(again, name), [getattr(score, name) for score in before], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"scoring.outcomes": "hard"},
        {"scoring.both_directions": False},
        {"scoring.mirror": True},
        {"scoring.samples": 8},
        {"references_per_bin": 1},
    ],
    ids=str,
)
def test_other_settings_are_those_training_would_have_ended_with(trained, changes):
    """The slow way: train with these settings from the start, which change nothing before the last epoch is over."""
    folder, training, test = trained
    recipe = quick_recipe(epochs=2).with_changes(changes)
    found = Rescored(RunFolder(folder), recipe, training).predict(test.centre)
    wanted = run(training, recipe).predict(test.centre)
    for one, two in zip(found, wanted, strict=True):
        assert np.allclose(one, two, atol=1e-5)
    plain = Rescored(RunFolder(folder), quick_recipe(), training).predict(test.centre)
    assert not np.allclose(found.value, plain.value, atol=1e-5)


def test_references_are_training_images_that_were_not_held_out(trained):
    folder, training, _ = trained
    recipe = quick_recipe(references_per_bin=1000)
    scorer = Rescored(RunFolder(folder), recipe, training).scorer
    assert sorted(scorer.references.scores) == sorted(hold_out(training, recipe)[0].rated.scores)


def test_maximum_consistency_may_have_balanced_references(trained):
    folder, training, test = trained
    recipe = quick_recipe(references_per_bin=2, bin_width=0.5)
    found = Consistency(RunFolder(folder), recipe, training).predict(test.centre).value
    kept, _ = hold_out(training, recipe)
    rows = choose_balanced_references(kept.rated.scores, 0.5, 2)
    scorer = Scorer.from_pretrained(folder / "model")
    outcomes = scorer.outcomes(scorer.embed_pixels(test.centre), scorer.embed_pixels(kept.subset(rows).centre))
    wanted = estimate_by_consistency(outcomes.argmax(-1), kept.rated.scores[rows], 0.2, (1, 5))
    assert np.allclose(found, wanted)


def test_a_run_without_its_model_cannot_be_read(tmp_path, trained):
    for read in (
        lambda: Consistency(RunFolder(tmp_path), quick_recipe()),
        lambda: Rescored(RunFolder(tmp_path), quick_recipe(), trained[1]),
    ):
        with pytest.raises(UolError, match="its model folder is gone"):
            read()
