"""The tables that a person reads."""

from __future__ import annotations

import pytest

from measured import elsewhere, five_folds, measured
from uol.cli.experiment import Kind
from uol.errors import CallError
from uol.experiments.views import KINDS, view


def test_the_command_offers_every_table():
    assert [kind.value for kind in Kind] == list(KINDS)
    with pytest.raises(CallError, match="main, brief, figures, folds"):
        view("best", [])


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_has_values(kind):
    results = [*five_folds(transfer={"mebeauty": elsewhere(0.6)}), measured(seed=1)]
    rows, columns = view(kind, results)
    assert rows
    assert all(key in row for row in rows for key in columns)
    assert view(kind, []).rows == []


def test_differences_are_ours_minus_the_papers():
    (row,) = view("main", five_folds()).rows
    assert row["difference_pc"] == pytest.approx(0.92 - 0.9240)
    assert row["difference_rmse"] == pytest.approx(0.5 - 0.2633)
    (row,) = view("main", five_folds(method="mine")).rows
    assert row["paper_pc"] is row["difference_pc"] is None


def test_transfer_says_how_many_models_it_is_from():
    results = [measured("fold-1", transfer={"mebeauty": elsewhere(0.6)}), measured("fold-2")]
    (row,) = view("transfer", results).rows
    assert (row["tested_on"], row["models"], row["pc"], row["paper_pc"]) == ("mebeauty", 1, 0.6, 0.5532)
    assert row["difference_pc"] == pytest.approx(0.6 - 0.5532)


def test_a_split_is_shown_where_rows_differ_in_it():
    assert "split" not in view("main", five_folds()).columns
    assert "split" in view("main", [measured("60-40")]).columns
