"""Tables of groups with the reliability of their ratings, which results keep for each data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uol.experiments.groups import groups_by_row
from uol.experiments.kept_predictions import read_kept
from uol.experiments.leave_one_out import LEAVE_ONE_OUT
from uol.experiments.leave_one_out_tables import left_out_means
from uol.experiments.recomputing import with_data
from uol.experiments.rows import RELIABILITY, WHO, Cells, Source, View
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.reports.formats import format_interval
from uol.runs.ceilings import Ceiling, DatasetReliability, ceilings, reliability_by_group
from uol.runs.groups import groups_of
from uol.runs.result import read_result, result_files, write_result
from uol.storage.files import write_json

COLUMNS = {"group": "group", "images": "images", "pc": "PC", "interval_pc": "95 % of PC", "reliability": "reliability",
           "ceiling": "ceiling", "corrected": "PC / ceiling", "pc_others": "PC of others",
           "corrected_others": "PC / ceiling of others", "corrected_gap": "gap of both",
           "interval_gap": "95 % of that gap", "expected": "PC if as good as on others",
           "explained": "of the gap in PC, by reliability"}  # fmt: skip


def ceiling_cells(found: Ceiling) -> Cells:
    """A row's cells of one group."""
    mean = found.mean
    explained = None if found.explained is None else f"{found.explained:.0%}"
    return {
        "group": mean.group, "images": mean.images, "pc": mean.pc, "interval_pc": format_interval(mean.interval),
        "reliability": found.reliability, "ceiling": found.ceiling, "corrected": found.corrected,
        "pc_others": mean.pc_others, "corrected_others": found.corrected_others,
        "corrected_gap": found.corrected_gap,
        "interval_gap": format_interval(found.corrected_interval, signed=True),
        "expected": found.expected, "explained": explained,
    }  # fmt: skip


def ceilings_table(source: Source) -> View:
    """Every group of every row with the reliability of its ratings."""
    if source.left_out:
        return _of_left_out(source)
    rows: list[Cells] = [
        {**dict[str, Any](row.who), "tested_on": row.tested_on, **ceiling_cells(one)}
        for row in groups_by_row(source.results, tested_on=source.tested_on)
        for one in ceilings(row.means, source.reliability_of(row.tested_on))
    ]
    return View(rows, WHO | {"tested_on": "tested on"} | COLUMNS)


def _of_left_out(source: Source) -> View:
    rows: list[Cells] = [
        {"left_out": one.left_out, "recipe": one.recipe, "read_on": panel, **ceiling_cells(found)}
        for one in source.left_out
        for panel in one.readings
        for found in ceilings(left_out_means(one, panel), source.reliability_of(one.left_out))
    ]
    return View(rows, {"left_out": "left out", "recipe": "recipe", "read_on": "read on"} | COLUMNS)


def keep_reliability(results: Path, rated: RatedImages, known: Mapping[str, DatasetReliability]) -> None:
    """Compute the reliability of a data set's means by group, and keep it with the results."""
    found = {**known, rated.name: reliability_by_group(rated)}
    write_json(results / RELIABILITY, {name: found[name].model_dump() for name in sorted(found)})


def fill_in_panels(results: Path, rated: RatedImages) -> list[Path]:
    """Fill in figures by group on a panel that trained networks, from predictions kept with results that have none."""
    changed = []
    folders = [folder for folder in sorted(results.glob("*/")) if folder.name != LEAVE_ONE_OUT]
    for path in (path for folder in folders for path in result_files(folder)):
        result = read_result(path)
        figures, table = (result.beside or {}).get(rated.name), read_kept(path, rated.name)
        if result.beside is None or figures is None or figures.groups is not None or table is None:
            continue
        (panel,) = (one for one in result.provenance.panels or () if one.name == rated.name)
        if panel.fingerprint != rated.fingerprint:
            continue
        groups = groups_of(with_data(table, rated, Scale(*panel.scale)))
        beside = {**result.beside, rated.name: figures.model_copy(update={"groups": groups})}
        write_result(path, result.model_copy(update={"beside": beside}))
        changed.append(path)
    return changed


def reliability_problems(known: Mapping[str, DatasetReliability], data: Mapping[str, RatedImages]) -> Sequence[str]:
    """Which data sets have another reliability than the one that is kept."""
    return [
        f"{RELIABILITY}: {name} has another reliability; uol experiment reliability --data {name} computes it"
        for name, rated in data.items()
        if name in known and known[name] != reliability_by_group(rated)
    ]
