"""Groups and the reliability of their ratings: the ceiling by hand, results that keep it, and a run's predictions."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from uol import datasets
from uol.errors import CallError
from uol.experiments.ceiling_tables import ceilings_table, keep_reliability, reliability_problems
from uol.experiments.rows import Source, read_reliability
from uol.ratings.metrics import pearson_gap
from uol.ratings.reliability import split_half
from uol.runs.ceilings import GroupReliability, ceilings, reliability_by_group, run_ceilings
from uol.runs.folder import RunFolder
from uol.runs.groups import group_means, groups_of
from uol.runs.read_run import read_run


def predictions(n=400, noise=(0.3, 1.5), seed=0):
    """Predictions of two groups, of which the second is worse."""
    rng = np.random.default_rng(seed)
    score = rng.normal(3, 0.6, n)
    second = np.arange(n) % 2 == 1
    value = score + rng.normal(0, 1, n) * np.where(second, noise[1], noise[0])
    return pd.DataFrame({"image": [f"{i}" for i in range(n)], "score": score, "value": value,
                         "group": np.where(second, "two", "one")})  # fmt: skip


def test_a_correlation_is_divided_by_the_root_of_the_reliability():
    (one, two) = group_means([groups_of(predictions())], same_images=True)
    known = {
        "one": GroupReliability(images=200, reliability=0.9, others=0.64),
        "two": GroupReliability(images=200, reliability=0.64, others=0.9),
    }
    first, second = ceilings([one, two], known)
    assert second.ceiling == pytest.approx(0.8)
    assert second.corrected == pytest.approx(two.pc / 0.8)
    assert second.corrected_others == pytest.approx(one.pc / math.sqrt(0.9))
    assert second.corrected_gap == pytest.approx(second.corrected - second.corrected_others)
    assert second.expected == pytest.approx(one.pc * 0.8 / math.sqrt(0.9))
    assert second.explained == pytest.approx((one.pc - second.expected) / (one.pc - two.pc))
    assert 0 < second.explained < 1
    assert first.explained is None  # it is not worse
    low, high = second.corrected_interval
    assert low < second.corrected_gap < high < 0


def test_with_the_same_reliability_nothing_is_explained_and_the_interval_is_that_of_the_gap():
    (one, two) = group_means([groups_of(predictions())], same_images=True)
    (found,) = ceilings([two], {"two": GroupReliability(images=200, reliability=1.0, others=1.0)})
    assert found.explained == pytest.approx(0)
    assert found.corrected_interval == pytest.approx(pearson_gap(two.pc, 197, one.pc, 197))
    assert found.corrected_interval == pytest.approx(two.gap_interval)


def test_groups_without_a_known_reliability_have_their_correlation_alone():
    means = group_means([groups_of(predictions())], same_images=True)
    for known in ({}, {"one": GroupReliability(images=9, reliability=None, others=0.5)}):
        for found in ceilings(means, known):
            assert found.mean.pc is not None
            assert found.corrected is found.explained is None


def test_reliability_is_of_the_means_within_each_group(drawn):
    found = reliability_by_group(drawn)
    assert found.fingerprint == drawn.fingerprint
    (column, *_) = drawn.groups.columns
    word = drawn.groups[column].iloc[0]
    inside = np.flatnonzero(drawn.groups[column] == word)
    (name,) = (name for name in found.groups if name in (word, f"{column} {word}"))
    expected = split_half(drawn.ratings.matrix[inside]).spearman_brown
    assert found.groups[name].reliability == pytest.approx(expected, abs=1e-4)
    assert found.groups[name].images == len(inside)
    assert set(found.groups) >= set(groups_of(_table(drawn)))


def _table(rated):
    columns = pd.DataFrame({"image": list(rated.names), "score": rated.scores, "value": rated.scores})
    return pd.concat([columns, rated.groups.reset_index(drop=True)], axis=1)


def test_results_keep_it_and_verification_compares_it(drawn, tmp_path):
    assert read_reliability(tmp_path) == {}
    keep_reliability(tmp_path, drawn, {})
    known = read_reliability(tmp_path)
    assert known == {drawn.name: reliability_by_group(drawn)}
    assert reliability_problems(known, {drawn.name: drawn, "other": replace(drawn, name="other")}) == []
    changed = known[drawn.name].model_copy(update={"fingerprint": "other"})
    (problem,) = reliability_problems({drawn.name: changed}, {drawn.name: drawn})
    assert "has another reliability" in problem


@pytest.mark.slow
def test_groups_of_a_run_and_of_its_result(finished_run, drawn, drawn_b, uol, monkeypatch, tmp_path):
    found = run_ceilings(finished_run, drawn)
    table = pd.read_csv(finished_run / "predictions.csv")
    assert [one.mean.group for one in found] == list(groups_of(table))
    known = reliability_by_group(drawn).groups
    assert [one.reliability for one in found] == [known[one.mean.group].reliability for one in found]
    result = read_run(RunFolder(finished_run))
    rows = ceilings_table(Source([result], reliability={drawn.name: reliability_by_group(drawn)})).rows
    assert [row["corrected"] for row in rows] == pytest.approx([one.corrected for one in found], rel=1e-3)
    with pytest.raises(CallError, match="no predictions on synthetic-b"):
        run_ceilings(finished_run, drawn_b)
    monkeypatch.setattr(datasets, "load", lambda name, *_, **__: drawn)
    code, out, err = uol("experiment", "groups", finished_run, "--data", "synthetic", "--json")
    assert code == 0, err
    assert [row["group"] for row in json.loads(out)] == [one.mean.group for one in found]
    (tmp_path / "results").mkdir()
    code, _, err = uol("experiment", "reliability", "--data", "synthetic", "--results", tmp_path / "results")
    assert code == 0, err
    assert drawn.name in read_reliability(tmp_path / "results")
