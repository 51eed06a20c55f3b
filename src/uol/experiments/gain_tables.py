"""Tables of what each row of a plan gains on the folds that all of its rows have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from uol.experiments.comparing import RowDifference, differences
from uol.experiments.kept_predictions import kept_words
from uol.experiments.plans import PlanRow
from uol.experiments.rows import Cells, Interval, Source, View, mean, used_results
from uol.reports.formats import format_interval
from uol.runs.result import Result

_ELSEWHERE = "mebeauty"


class Gain(NamedTuple):
    """A difference of PC with its 95 % interval; None where unknown."""

    value: float | None
    ends: Interval | None

    @property
    def shown(self) -> bool:
        """Whether the interval is on one side of 0."""
        return self.ends is not None and not self.ends[0] <= 0 <= self.ends[1]


class GainRow(NamedTuple):
    """A row of a plan with its results on common folds, and its gains on their test images and on MEBeauty."""

    row: PlanRow
    used: list[Result]
    own: Gain
    elsewhere: Gain


def gain_rows(source: Source) -> list[GainRow]:
    """The rows of a plan that have results; gains are over its reference, or over the row before."""
    plan = source.plan
    if plan is None or not source.results:
        return []
    found = used_results(source.results, plan)
    common = set.intersection(*({r.split for r in row} for row in found))
    kept = [[r for r in row if r.split in common] for row in found]
    gaps = differences([r for row in kept for r in row], plan) if common else []
    by_row = {(gap["method"], gap["recipe"], gap["tested_on"]): gap for gap in gaps if gap["figure"] == "PC"}
    made = []
    for used in (row for row in kept if row):
        key = used[0].method, used[0].recipe
        own, there = (_gain(by_row, (*key, data)) for data in (plan.trained_on, _ELSEWHERE))
        made.append(GainRow(plan.rows[plan.order(*key)], used, own, there))
    return made


def gains_table(source: Source) -> View:
    """Each row's figures, and its gains in PC, over the row before or the plan's reference.

    Where rows gain over the row before, all steps together follow: as far as predictions are kept, and to the end.
    """
    rows: list[Cells] = []
    found = gain_rows(source)
    for row in found:
        there = [r.transfer[_ELSEWHERE].pc for r in row.used if _ELSEWHERE in r.transfer]
        cells: Cells = {"what": row.row.label, "recipe": row.row.recipe, "folds": len(row.used)}
        cells |= {"pc": mean(r.metrics.pc for r in row.used), "mae": mean(r.metrics.mae for r in row.used)}
        cells |= {"elsewhere": mean(there), "kept": kept_words(row.used, source.folder)}
        rows.append(cells | _gains(row))
    columns = {"what": "", "folds": "folds", "mae": "MAE", "pc": "PC", "gain_pc": "gain", "interval_pc": "95 %",
               "elsewhere": f"PC on {_ELSEWHERE}", "gain_elsewhere": "gain",
               "interval_elsewhere": "95 %", "kept": "predictions kept"}  # fmt: skip
    return View([*rows, *_together(source, found)], columns)


def _together(source: Source, rows: Sequence[GainRow]) -> list[Cells]:
    """The gains of the last row with predictions over the first row, and those of the last row."""
    if source.plan is None or source.plan.reference is not None or not rows or source.plan.order(*rows[0].row.key):
        return []
    kept = [place for place, row in enumerate(rows) if kept_words(row.used, source.folder) == "yes"]
    found: list[Cells] = []
    for place in sorted({kept[-1] if kept and kept[0] == 0 else 0, len(rows) - 1}):
        if place > 1:
            both = [*rows[0].used, *rows[place].used]
            gaps = {gap["tested_on"]: gap for gap in differences(both, source.plan) if gap["figure"] == "PC"}
            last = rows[place]._replace(own=_gain(gaps, source.plan.trained_on), elsewhere=_gain(gaps, _ELSEWHERE))
            steps = source.plan.order(rows[place].row.method, rows[place].row.recipe)  # rows before it may be missing
            which = f"all {steps}" if steps == len(source.plan.rows) - 1 else f"the first {steps}"
            cells: Cells = {"what": f"{which} steps together", "folds": len(last.used)}
            found.append(cells | {"kept": kept_words(both, source.folder)} | _gains(last))
    return [dict.fromkeys(("recipe", "pc", "mae", "elsewhere")) | cells for cells in found]


def _gain(gaps: Mapping[Any, RowDifference], key: Any) -> Gain:
    return Gain(gaps[key]["difference"], gaps[key]["interval"]) if key in gaps else Gain(None, None)


def _gains(row: GainRow) -> Cells:
    cells: Cells = {"gain_pc": row.own.value, "interval_pc": format_interval(row.own.ends, signed=True)}
    cells |= {"gain_elsewhere": row.elsewhere.value}
    return cells | {"interval_elsewhere": format_interval(row.elsewhere.ends, signed=True)}


class Setting(NamedTuple):
    """A setting of a plan's reference, its value there, and what other values gain."""

    name: str
    default: float
    values: list[tuple[float, GainRow]]


def settings_of(source: Source) -> list[Setting]:
    """The settings that the rows of a plan change, one in each, in the plan's order."""
    found: dict[str, Setting] = {}
    plan = source.plan
    reference = None if plan is None else next((row for row in plan.rows if row.key == plan.reference), None)
    if reference is None:
        return []
    for row in gain_rows(source):
        if not (changed := dict(row.row.changes.items() - reference.changes.items())):
            continue
        name = row.row.label.partition(" = ")[0]
        path, value = min(changed.items())
        default = _value(reference.settings({}).model_dump(mode="json"), path)
        found.setdefault(name, Setting(name, default, [])).values.append((value, row))
    return list(found.values())


def settings_table(source: Source) -> View:
    """A row for each setting: what its other values gain, in bold where the interval is on one side of 0."""
    rows: list[Cells] = []
    for name, default, values in settings_of(source):
        row: Cells = {"setting": name, "default": f"{default:g}"}
        row["own"] = "; ".join(f"{value:g}: {_words(one.own)}" for value, one in values)
        row["elsewhere"] = "; ".join(f"{value:g}: {_words(one.elsewhere)}" for value, one in values)
        rows.append(row)
    columns = {"setting": "setting", "default": "here", "own": "gain in PC by other values",
               "elsewhere": f"on {_ELSEWHERE}"}  # fmt: skip
    return View(rows, columns)


def _value(settings: Mapping[str, Any], path: str) -> float:
    for part in path.split("."):
        settings = settings[part]
    return float(settings)  # type: ignore[arg-type]


def _words(gain: Gain) -> str:
    if gain.value is None:
        return "–"
    words = f"{gain.value:+.4f}".replace("-", "−").replace("0.", ".", 1)
    return f"**{words}**" if gain.shown else words
