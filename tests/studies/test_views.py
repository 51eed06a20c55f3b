"""The tables that a person reads."""

from __future__ import annotations

import pytest

from measured import elsewhere, five_folds, groups, measured, whole_row
from uol.cli.experiment import Kind
from uol.errors import CallError
from uol.runs.protocols import wilson
from uol.studies.plans import PLANS
from uol.studies.sources import Source
from uol.studies.views import KINDS, view


def test_the_command_offers_every_table():
    assert [kind.value for kind in Kind] == list(KINDS)
    with pytest.raises(CallError, match="main, alone, brief, figures, folds"):
        view("best", Source())


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_has_values(kind):
    results = [*whole_row(), *whole_row("ldl", 0.89), measured(seed=1)]
    rows, columns = view(kind, Source(results))
    assert rows
    assert all(key in row for row in rows for key in columns)
    assert view(kind, Source()).rows == []


def test_differences_are_ours_minus_the_papers():
    (row,) = view("main", Source(five_folds())).rows
    assert row["difference_pc"] == pytest.approx(0.92 - 0.9240)
    assert row["difference_rmse"] == pytest.approx(0.5 - 0.2633)
    (row,) = view("main", Source(five_folds(method="mine"))).rows
    assert row["paper_pc"] is row["difference_pc"] is None


def test_transfer_says_how_many_models_it_is_from():
    results = [measured("fold-1", transfer={"mebeauty": elsewhere(0.6)}), measured("fold-2")]
    (row,) = view("transfer", Source(results)).rows
    assert (row["tested_on"], row["models"], row["pc"], row["paper_pc"]) == ("mebeauty", 1, 0.6, 0.5532)
    assert row["difference_pc"] is None  # one network is not comparable with the paper's mean of five
    folds = [measured(f"fold-{k}", transfer={"mebeauty": elsewhere(0.6)}) for k in range(1, 6)]
    (row,) = view("transfer", Source(folds)).rows
    assert row["difference_pc"] == pytest.approx(0.6 - 0.5532)


def test_a_split_is_shown_where_rows_differ_in_it():
    assert "split" not in view("main", Source(five_folds())).columns
    assert "split" in view("main", Source([measured("60-40")])).columns


def test_intervals_stand_beside_means():
    (row,) = view("main", Source(whole_row())).rows
    low, high = (float(end) for end in row["interval_pc"].split("–"))
    assert 0.885 < low < 0.9 < high < 0.915
    assert view("main", Source(five_folds())).rows[0]["interval_pc"] is None


def test_a_plans_rows_stand_in_its_order():
    plan = PLANS["losses"]
    results = [r for row in reversed(plan.rows) for r in whole_row(recipe=row.recipe)]
    rows = view("main", Source(results, plan)).rows
    assert [row["recipe"] for row in rows] == ["matched-order", "matched-hinge", "matched-dispersion", "matched"]
    assert [row["paper_pc"] for row in rows] == [None, None, None, 0.9240]
    rows = view("transfer", Source(results, plan)).rows
    assert [row["paper_pc"] for row in rows] == [0.5457, 0.5463, 0.5397, 0.5532]


def test_the_brief_table_leaves_plans_to_their_own():
    results = [*five_folds(), *whole_row(recipe="matched")]
    assert [row["what"] for row in view("brief", Source(results)).rows] == ["uol, as published", "uol, recipe `paper`"]
    assert len(view("brief", Source(results[5:], PLANS["modules"])).rows) == 2
    results = [*five_folds(recipe="strong"), *five_folds(recipe="half"), *five_folds(recipe="strong-plain")]
    assert [row["what"] for row in view("brief", Source(results)).rows] == ["uol, as published", "uol, recipe `strong`"]


def test_the_brief_table_has_the_first_training_of_a_recipe():
    names = ("paper", "paper-again", "paper-third", "other-again")
    results = [result for name in names for result in five_folds(recipe=name)]
    told = [row["what"] for row in view("brief", Source(results)).rows]
    assert told == ["uol, as published", "uol, recipe `other-again`", "uol, recipe `paper`"]


def test_makeup_and_range():
    (row,) = view("makeup", Source(whole_row())).rows
    assert (row["accuracy"], row["pairs"], row["answer"]) == (pytest.approx(80 / 107), 107, "with make-up")
    assert row["interval"] == "{:.4f}–{:.4f}".format(*wilson(80 / 107, 107))
    assert row["paper_accuracy"] == 0.9231
    (row,) = view("range", Source(whole_row())).rows
    assert (row["least"], row["most"], row["covered"]) == (1.5, 4.5, pytest.approx(3 / 3.75))


def test_gaps_have_the_worst_group_first_and_say_so():
    told = groups()
    told["female"]["others"] = {"images": 500, "pc": 0.8}
    told["male"]["others"] = {"images": 600, "pc": 0.9}
    rows = view("gaps", Source([measured(f"fold-{k}", groups=told) for k in (1, 2, 3)])).rows
    assert [row["group"] for row in rows] == ["male", "female"]
    assert [row["difference"] for row in rows] == [pytest.approx(-0.1), pytest.approx(0.1)]
    assert rows[0]["told"] == "largest gap: PC 0.1000 below all others"
    assert rows[1]["told"] == "PC 0.1000 above all others"
    assert rows[0]["interval"].startswith("-0.1")
    assert (rows[0]["bias"], rows[0]["images"]) == (pytest.approx(-0.05), 1500)


def test_no_group_is_called_the_worst_while_a_gap_is_unknown():
    told = groups()
    told["female"]["others"] = {"images": 500, "pc": 0.95}
    rows = view("gaps", Source([measured(groups=told)])).rows
    assert [row["told"] for row in rows] == ["PC 0.0500 below all others", "gap unknown: add the run again"]
    told["male"]["others"] = {"images": 600, "pc": 0.801}
    rows = view("gaps", Source([measured(groups=told)])).rows
    assert [row["told"] for row in rows] == ["largest gap: PC 0.0500 below all others", "no gap shown"]
