"""The tables that a person reads."""

from __future__ import annotations

import pytest

from measured import elsewhere, five_folds, groups, keep_predictions, measured, whole_row
from uol.cli.experiment import KINDS as OFFERED
from uol.errors import CallError, UolError
from uol.experiments.document import block
from uol.experiments.figures import groups_of_rows
from uol.experiments.kept_predictions import kept_path
from uol.experiments.plans import PLANS
from uol.experiments.rows import Source, find_source, table_names
from uol.experiments.summary_tables import CHOSEN_ON
from uol.experiments.tables import KINDS, OLD_NAMES, view
from uol.ratings.metrics import share_interval
from uol.runs.result import write_result


def test_the_command_offers_every_table():
    assert set(OFFERED) <= set(KINDS)
    with pytest.raises(CallError, match="main, alone, published, headline, brief, figures"):
        view("best", Source())


# Of something else than folds, or of kept predictions.
ELSEWHERE = ("anchoring", "coverage", "means", "gains", "settings", "duplicates", "headline")


@pytest.mark.parametrize("kind", [*(kind for kind in KINDS if kind not in ELSEWHERE), *OLD_NAMES])
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
    assert row["interval"] == "{:.4f}–{:.4f}".format(*share_interval(80 / 107, 107))
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
    assert [row["told"] for row in rows] == [
        "PC 0.0500 below all others",
        "gap unknown: add the run again with --replace",
    ]
    told["male"]["others"] = {"images": 600, "pc": 0.801}
    rows = view("gaps", Source([measured(groups=told)])).rows
    assert [row["told"] for row in rows] == ["largest gap: PC 0.0500 below all others", "no gap shown"]


def keep(results, folder):
    for result in results:
        write_result(folder / result.experiment / result.file_name, result)


def test_a_data_set_that_trained_nothing_shows_who_was_tested_there(tmp_path):
    keep([*whole_row(), *whole_row("ldl", 0.85), *five_folds(recipe="untested")], tmp_path)
    source = find_source(tmp_path, "mebeauty")
    rows, columns = view("main", source)
    assert [(row["method"], row["recipe"], row["models"]) for row in rows] == [("ldl", "paper", 5), ("uol", "paper", 5)]
    assert [row["pc"] for row in rows] == [pytest.approx(0.55), pytest.approx(0.6)]
    assert (rows[1]["mae"], rows[1]["rmse"]) == (0.25, 0.5)
    assert [rows[1][f"paper_{key}"] for key in ("pc", "mae", "rmse")] == [0.5532, 0.5230, 0.6489]
    assert [rows[0][f"paper_{key}"] for key in ("pc", "mae", "rmse")] == [0.5338, None, None]
    assert {"pc", "mae", "rmse", "paper_pc", "paper_mae", "paper_rmse"} <= columns.keys()
    assert {row["tested_on"] for row in view("groups", source).rows} == {"mebeauty"}
    assert view("folds", source).rows == []  # those are figures on the data set that trained


def test_a_published_test_without_ours_shows_the_papers_alone(tmp_path):
    rows = view("main", find_source(tmp_path, "hot-or-not")).rows
    (row,) = [row for row in rows if row["method"] == "cnn-er"]
    assert [row[f"paper_{key}"] for key in ("pc", "mae", "rmse")] == [0.3513, 0.5269, 0.6653]
    assert len(rows) == 11


def test_the_archive_is_no_table(tmp_path):
    keep(five_folds(), tmp_path / "archive")
    keep(five_folds(recipe="strong"), tmp_path)
    (tmp_path / "archive" / "stray.json").write_text("{}")
    assert table_names(tmp_path) == ["scut-fbp5500"]
    assert [row["recipe"] for row in view("alone", find_source(tmp_path, "scut-fbp5500")).rows] == ["strong"]
    with pytest.raises(CallError, match="no table called 'archive'"):
        find_source(tmp_path, "archive")
    assert find_source(tmp_path / "archive", "scut-fbp5500").results == five_folds()


def test_some_rows_alone():
    source = Source([*whole_row(recipe="matched"), *whole_row("ldl", recipe="matched"), *five_folds()])
    assert [row["method"] for row in view("main", source.only(["matched"])).rows] == ["ldl", "uol"]
    assert [row["recipe"] for row in view("main", source.only(["uol-matched", "paper"])).rows] == ["matched", "paper"]
    assert source.only([]) is source
    with pytest.raises(CallError, match="no results of strong"):
        source.only(["strong"])


def test_the_headline_says_what_each_recipe_was_chosen_on(tmp_path):
    results = [result for name in ("distilled", "fast", "mine", "paper") for result in whole_row(recipe=name)]
    keep_predictions(tmp_path, results)
    rows, columns = view("headline", Source(results, folder=tmp_path))
    assert [row["what"].split(":")[0] for row in rows] == ["published", "`paper`", "`fast`", "`distilled`"]
    assert (rows[0]["pc"], rows[0]["transfer_mebeauty"]) == (0.9240, 0.5532)
    assert [row["chosen_on"] for row in rows[1:]] == [CHOSEN_ON[name] for name in ("paper", "fast", "distilled")]
    assert list(columns)[-1] == "chosen_on"


def test_a_row_without_all_its_predictions_is_no_headline(tmp_path):
    results = [result for name in ("paper", "fast") for result in whole_row(recipe=name)]
    source = Source(results, folder=tmp_path)
    keep_predictions(tmp_path, results)
    assert view("earlier", source).rows == []
    assert "All rows have their predictions." in block("earlier", source)
    for lost in ("", "mebeauty"):
        keep_predictions(tmp_path, results)
        kept_path(tmp_path / results[-1].file_name, lost).unlink()
        names = [[row["what"].split(":")[0] for row in view(kind, source).rows] for kind in ("headline", "earlier")]
        assert names == [["published", "`paper`"], ["`fast`"]]
    assert view("headline", source).columns == view("earlier", source).columns
    assert "No row has all its predictions." in block("headline", source.only(["fast"]))


def test_figures_of_several_panels_name_the_panel_that_was_tested():
    panels = {"experiment": "scut-fbp5500+mebeauty", "trained_on": "scut-fbp5500+mebeauty"}
    results = whole_row(**panels) + whole_row("ldl", 0.89, **panels)
    assert {row["trained_on"] for row in view("groups", Source(results)).rows} == {"scut-fbp5500+mebeauty"}
    for kind in ("groups", "gaps", "ceilings"):
        tested = {row["tested_on"] for row in view(kind, Source(results)).rows}
        assert "scut-fbp5500" in tested, kind
        assert "scut-fbp5500+mebeauty" not in tested, kind
    assert {row["tested_on"] for row in view("differences", Source(results)).rows} == {"scut-fbp5500", "mebeauty"}


def test_groups_are_drawn_with_their_intervals():
    results = [*whole_row(), *whole_row("ldl", 0.85)]
    drawn = groups_of_rows(Source(results), "title")
    here, there = drawn.axes
    assert [ax.get_title(loc="left") for ax in drawn.axes] == ["tested on scut-fbp5500", "tested on mebeauty"]
    assert [label.get_text() for label in here.get_yticklabels()] == ["female", "male"]
    dots = sorted(line.get_xdata()[0] for line in here.lines if line.get_marker() == "o" and len(line.get_xdata()))
    assert dots == pytest.approx([0.75, 0.8, 0.85, 0.9])
    intervals = [line for line in there.lines if len(line.get_xdata()) == 2]
    assert len(intervals) == 4
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["ldl (paper)", "uol (paper)"]
    with pytest.raises(UolError, match="no result has figures by group"):
        groups_of_rows(Source(five_folds()), "title")
