"""Rows against a slow, obvious computation, and what must never be mixed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measured import elsewhere, five_folds, measured
from uol.experiments.rows import in_order, make_rows, seed_spread

KEYS = {"method", "recipe", "folds", "seeds", "pc", "mae", "rmse", "spearman", "trained_on", "ensemble", "paper"}
FIGURES = ("pc", "mae", "rmse", "spearman", "order_accuracy", "coverage", "dispersion_pc")

one_result = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["uol", "mine"]),
        "recipe": st.sampled_from(["paper", "short"]),
        "ensemble": st.sampled_from([1, 3]),
        "split": st.sampled_from(["fold-1", "fold-2", "fold-3", "60-40"]),
        "seed": st.integers(0, 2),
        "pc": st.none() | st.floats(0.8, 0.99),
        "figures": st.fixed_dictionaries(
            {"mae": st.floats(0, 0.4), "rmse": st.floats(0.45, 1), "coverage": st.none() | st.floats(0, 1)}
        ),
        "transfer": st.dictionaries(
            st.sampled_from(["mebeauty", "hot-or-not"]), st.builds(elsewhere, st.none() | st.floats(-1, 1))
        ),
    }
)
many_results = st.lists(
    one_result, unique_by=lambda r: (r["method"], r["recipe"], r["ensemble"], r["split"], r["seed"]), max_size=30
).map(lambda found: [measured(**each) for each in found])


def slow_mean(values):
    return None if not values or None in values else pytest.approx(float(np.mean(values)))


def slow_rows(results):
    """Every possible row by trying all keys and looking at all results."""
    rows = {}
    for method, recipe, ensemble, split in itertools.product(
        ["uol", "mine"], ["paper", "short"], [1, 3], ["folds", "60-40"]
    ):
        best = []
        seeds = 0
        for seed in (0, 1, 2):
            of_seed = [
                r for r in results
                if (r.method, r.recipe, r.ensemble, r.seed) == (method, recipe, ensemble, seed)
                and (r.split.startswith("fold-") if split == "folds" else r.split == split)
            ]  # fmt: skip
            seeds += bool(of_seed)
            if len(of_seed) > len(best):
                best = of_seed
        if best:
            rows[method, recipe, ensemble, split] = (best, seeds)
    return rows


@given(many_results)
def test_rows_are_means_over_folds_of_one_seed(results):
    rows = {(row["method"], row["recipe"], row["ensemble"], row["split"]): row for row in make_rows(results)}
    expected = slow_rows(results)
    assert rows.keys() == expected.keys()
    assert len(rows) == len(make_rows(results))
    for key, (used, seeds) in expected.items():
        row = rows[key]
        assert row["folds"] == (len(used) if key[3] == "folds" else 0)
        assert row["seeds"] == seeds
        assert row["seed"] == used[0].seed
        for name in FIGURES:
            assert row[name] == slow_mean([getattr(r.metrics, name) for r in used])
        pcs = [r.metrics.pc for r in used]
        spread = None if None in pcs or len(pcs) < 2 else pytest.approx(float(np.std(pcs, ddof=1)), abs=1e-12)
        assert row["pc_sd"] == spread
        for name in ("mebeauty", "hot-or-not"):
            there = [r.transfer[name].pc for r in used if name in r.transfer]
            assert row["transfer_folds"].get(name, 0) == len(there)
            assert row["transfer"].get(name) == slow_mean(there)


@given(many_results)
def test_spread_over_seeds(results):
    found = {(s["method"], s["recipe"], s["ensemble"], s["split"]): s for s in seed_spread(results)}
    for key in {(r.method, r.recipe, r.ensemble, r.split) for r in results}:
        rmses = [r.metrics.rmse for r in results if (r.method, r.recipe, r.ensemble, r.split) == key]
        pcs = [r.metrics.pc for r in results if (r.method, r.recipe, r.ensemble, r.split) == key]
        assert (key in found) == (len(rmses) > 1)
        if key in found:
            assert found[key]["seeds"] == len(rmses)
            assert found[key]["pc"]["mean"] == slow_mean(pcs)
            assert found[key]["rmse"]["mean"] == slow_mean(rmses)
            assert found[key]["rmse"]["sd"] == pytest.approx(float(np.std(rmses, ddof=1)), abs=1e-12)
            assert (found[key]["rmse"]["min"], found[key]["rmse"]["max"]) == (min(rmses), max(rmses))


def test_a_full_row():
    (row,) = make_rows(five_folds())
    assert row.keys() >= KEYS
    assert (row["method"], row["recipe"], row["trained_on"]) == ("uol", "paper", "scut-fbp5500")
    assert (row["folds"], row["seeds"], row["seed"], row["ensemble"]) == (5, 1, 0, 1)
    assert row["pc"] == pytest.approx(0.92)
    assert row["pc_sd"] == pytest.approx(np.std([0.90, 0.91, 0.92, 0.93, 0.94], ddof=1))
    assert row["paper"] == {"pc": 0.9240, "mae": 0.1975, "rmse": 0.2633}
    assert make_rows([]) == seed_spread([]) == []


def test_the_lowest_complete_seed_is_used_and_seeds_are_never_mixed():
    (row,) = make_rows([*five_folds(3), *five_folds(2), measured("fold-1", 0, 0.99), measured("fold-1", 1, 0.99)])
    assert (row["seed"], row["seeds"], row["folds"]) == (2, 4, 5)
    assert row["pc"] == pytest.approx(0.92)
    (row,) = make_rows([*five_folds(0)[:4], *five_folds(1)[4:]])
    assert (row["seed"], row["folds"], row["pc"]) == (0, 4, pytest.approx(0.915))


def test_rows_that_are_not_comparable_stay_apart():
    others = [measured("60-40"), measured(ensemble=5), measured(recipe="short"), measured(method="mine")]
    rows = make_rows([*five_folds(), *others])
    assert [(r["method"], r["recipe"], r["ensemble"], r["split"], r["folds"]) for r in rows] == [
        ("uol", "paper", 1, "folds", 5),
        ("uol", "paper", 1, "60-40", 0),
        ("uol", "paper", 5, "folds", 1),
        ("uol", "short", 1, "folds", 1),
        ("mine", "paper", 1, "folds", 1),
    ]
    assert [r["paper"] is None for r in rows] == [False, True, False, False, True]
    assert rows[2]["pc_sd"] is None


def test_folds_are_listed_in_their_order():
    splits = [r.split for r in in_order([measured("fold-10"), measured("fold-2"), measured("fold-1", 1)])]
    assert splits == ["fold-2", "fold-10", "fold-1"]
