"""Differences between rows are on the same images, and say against what."""

from __future__ import annotations

import numpy as np
import pytest

from measured import measured, replicates, whole_row
from uol.experiments.comparing import differences
from uol.experiments.plans import PLANS


def test_rows_against_the_reference_of_a_plan():
    rows = {"regression": 0.88, "ldl": 0.89, "uol": 0.90}
    results = [r for method, pc in rows.items() for r in whole_row(method, pc, recipe="matched")]
    found = differences(results, PLANS["modules"])
    assert [(row["method"], row["tested_on"], row["figure"]) for row in found] == [
        (method, *figure)
        for method in ("regression", "ldl")
        for figure in (("scut-fbp5500", "PC"), ("scut-fbp5500", "MAE"), ("scut-fbp5500", "RMSE"), ("mebeauty", "PC"))
    ]
    assert {row["against"] for row in found} == {"uol (matched)"}
    assert found[0]["difference"] == pytest.approx(-0.02)
    assert found[0]["interval"] == pytest.approx((-0.02, -0.02))  # replicates that move together
    assert found[0]["p"] == 2 / 21
    assert found[1]["difference"] == 0
    assert found[1]["p"] == 1


def test_without_a_reference_each_row_is_against_the_one_before():
    results = [r for recipe in ("matched-consistency", "matched") for r in whole_row("order-learning", recipe=recipe)]
    found = differences(results, PLANS["scores"])
    assert {(row["recipe"], row["against"]) for row in found} == {("matched-consistency", "order-learning (matched)")}
    assert {row["against"] for row in differences(results)} == {"order-learning (matched)"}


def test_the_mean_of_folds_is_resampled_fold_by_fold():
    one, two = whole_row("uol", 0.9), whole_row("ldl", 0.9)
    two = [r.model_copy(update={"replicates": r.replicates.model_copy(update={"pc": replicates(0.9, k + 7)["pc"]})})
           for k, r in enumerate(two)]  # fmt: skip
    gaps = np.mean([np.subtract(a.replicates.pc, b.replicates.pc) for a, b in zip(one, two, strict=True)], axis=0)
    (row, *_) = [row for row in differences([*two, *one]) if row["method"] == "uol"]
    assert row["interval"] == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])))


def test_rows_are_compared_on_the_folds_that_both_have():
    one, two = whole_row("uol", 0.9), whole_row("ldl", 0.8)
    two[0] = two[0].model_copy(update={"metrics": two[0].metrics.model_copy(update={"pc": 0.7})})
    all_folds, three = (differences([*one, *two[part]])[0] for part in (slice(0, 5), slice(1, 4)))
    assert (all_folds["folds"], three["folds"]) == (5, 3)
    gaps = [row["difference"] if row["method"] == "uol" else -row["difference"] for row in (all_folds, three)]
    assert gaps == pytest.approx([0.12, 0.1])


def test_a_reading_is_compared_with_the_networks_it_was_read_off():
    own = whole_row("uol", 0.9, recipe="strong")

    def read(network):
        made = network.provenance.model_copy(update={"changes": {"network": network.source}})
        return network.model_copy(update={"recipe": "strong-six-views", "provenance": made})

    assert differences([*own, *map(read, own)], PLANS["recipes"])
    again = [r.model_copy(update={"provenance": r.provenance.model_copy(update={"started": "later"})}) for r in own]
    assert differences([*own, *map(read, again)], PLANS["recipes"]) == []


def _rated_as(fingerprint, method):
    """Folds tested on another data set whose ratings have this fingerprint."""
    return [
        r.model_copy(update={"transfer": {
            name: there.model_copy(update={"fingerprint": fingerprint}) for name, there in r.transfer.items()
        }})
        for r in whole_row(method)
    ]  # fmt: skip


def test_other_images_are_not_compared():
    apart = [*whole_row("uol")[:2], *whole_row("ldl")[2:]]
    assert differences(apart) == []
    for told, compared in (("ab", True), ("cd", False), (None, True)):
        rows = [*_rated_as("ab", "uol"), *_rated_as(told, "ldl")]
        assert ("mebeauty" in {row["tested_on"] for row in differences(rows)}) == compared
    bare = [*whole_row("uol"), *(measured(f"fold-{k}", method="ldl") for k in range(1, 6))]
    assert all(row["difference"] is None for row in differences(bare))
