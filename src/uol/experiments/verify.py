"""Compute figures again from kept predictions, and compare them with results, tables and documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from uol.errors import UolError
from uol.experiments.ceiling_tables import reliability_problems
from uol.experiments.comparing import differences
from uol.experiments.document import rendered
from uol.experiments.kept_predictions import FOLDER, Tables, kept_path, read_kept
from uol.experiments.leave_one_out import LEAVE_ONE_OUT, read_left_out
from uol.experiments.leave_one_out_tables import difference, pairs_of, pc_interval
from uol.experiments.recomputing import recomputed, with_data
from uol.experiments.rows import ARCHIVE, elsewhere_rows, make_rows, read_reliability
from uol.experiments.verification import Verification
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.runs.result import Result, read_result, result_files


def verify(
    results: Path, documents: Mapping[Path, str] | None = None, data: Mapping[str, RatedImages] | None = None
) -> Verification:
    """Verify every result that has predictions, the rows made from them, and the documents.

    `documents` have the folder, within that of the results, that their tables are made from. `data` are data sets by
    name: with them scores, figures by group and the correlation of dispersions are verified too.
    """
    done = Verification(checked_with=sorted(data or {}))
    for folder in sorted({path.parent for path in results.glob("*/*.json")}):
        if folder.name == LEAVE_ONE_OUT:
            _verify_left_out(done, folder, data or {})
        elif folder.name != ARCHIVE:
            _verify_folder(done, folder, data or {})
    done.without += sorted(f"{ARCHIVE}/{path.stem}" for path in results.glob(f"{ARCHIVE}/*/*.json"))
    done.problems += reliability_problems(read_reliability(results), data or {})
    for document, part in (documents or {}).items():
        done.documents.append(str(document))
        if rendered(document, results / part) != document.read_text(encoding="utf-8"):
            done.problems.append(f"{document}: its tables are not those of the results; uol experiment docs makes them")
    return done


def _verify_folder(done: Verification, folder: Path, data: Mapping[str, RatedImages]) -> None:
    """The results of an experiment, then the means, intervals and paired differences of its rows."""
    known = {kept_path(path) for path in result_files(folder)}
    stored = {path: read_result(path) for path in result_files(folder)}
    again = {path: _verify_result(done, path, result, data) for path, result in stored.items()}
    owners = {path.stem for path in stored}
    for path in sorted(folder.glob(f"{FOLDER}/*.csv.gz")):
        name = path.name.removesuffix(".csv.gz")
        if path not in known and name.rpartition("-on-")[0] not in owners:
            done.problems.append(f"{path}: predictions without a result")
    if all(again[path] is stored[path] for path in stored):
        return
    made: list[Callable[[Sequence[Result]], Sequence[Mapping[str, Any]]]] = [make_rows, elsewhere_rows, differences]
    for make in made:
        for before, after in zip(make(list(stored.values())), make(list(again.values())), strict=True):
            words = ("method", "recipe", "tested_on", "against", "figure")
            row = " ".join(str(before[key]) for key in words if key in before)
            done.compare(f"{folder.name}: row {row}", before, after)


def _verify_result(done: Verification, path: Path, result: Result, data: Mapping[str, RatedImages]) -> Result:
    """Compare a result with its predictions; the result as they make it, or the very same where there are none."""
    where, made = f"{path.parent.name}/{path.stem}", result.provenance
    panels = {panel.name: panel for panel in made.panels or ()}
    asked: dict[str, tuple[str, Scale, str | None]] = {
        "": (made.data.name, Scale(*made.data.scale), made.data.fingerprint)
    }
    asked |= {name: (name, Scale(*made.data.scale), figures.fingerprint) for name, figures in result.transfer.items()}
    asked |= {name: (name, Scale(*panels[name].scale), panels[name].fingerprint) for name in result.beside or {}}
    tables = _read_tables(done, path, where, asked, data)
    if not tables:
        return result
    again = recomputed(result, tables)
    left = {"provenance"}
    done.compare(where, result.model_dump(exclude=left), again.model_dump(exclude=left))
    return again


def _verify_left_out(done: Verification, folder: Path, data: Mapping[str, RatedImages]) -> None:
    """Results of panels left out, and their paired differences."""
    stored, again = read_left_out(folder), []
    for one in stored:
        path = folder / one.file_name
        where = f"{folder.name}/{path.stem}"
        asked = {
            panel: (one.left_out, one.scale(panel), figures.fingerprint) for panel, figures in one.readings.items()
        }
        again.append(one.recomputed(_read_tables(done, path, where, asked, data)))
        for panel, figures in one.readings.items():
            fresh = again[-1].readings[panel]
            done.compare(f"{where} on {panel}", figures.model_dump(), fresh.model_dump())
            done.compare(f"{where} on {panel}", pc_interval(figures), pc_interval(fresh), "interval")
    for (one, two, panel), (new, old, _) in zip(pairs_of(stored), pairs_of(again), strict=True):
        before, after = (difference(a.readings[panel], b.readings[panel]) for a, b in ((one, two), (new, old)))
        done.compare(f"{folder.name}: {one.file_name} − {two.file_name}, read on {panel}", before, after)


def _read_tables(
    done: Verification,
    path: Path,
    where: str,
    asked: Mapping[str, tuple[str, Scale, str | None]],
    data: Mapping[str, RatedImages],
) -> Tables:
    """The predictions kept of a result; of what is asked, the data set, the scale and the fingerprint of ratings.

    Scores are compared with the data set, where it is given, and what it says is added to the table.
    """
    found: Tables = {}
    for name, (of, scale, fingerprint) in asked.items():
        if (table := read_kept(path, name)) is not None:
            found[name] = _checked(done, f"{where}{name and f' on {name}'}", table, data.get(of), scale, fingerprint)
    done.tables += len(found)
    (done.verified if len(found) == len(asked) else done.partly if found else done.without).append(where)
    return found


def _checked(
    done: Verification, where: str, table: pd.DataFrame, rated: RatedImages | None, scale: Scale, ratings: str | None
) -> pd.DataFrame:
    if rated is None:
        return table
    if ratings not in (None, rated.fingerprint):
        done.problems.append(f"{where}: the ratings of {rated.name} are not those that were tested on")
        return table
    try:
        complete = with_data(table, rated, scale)
    except UolError as error:
        done.problems.append(f"{where}: {error}")
        return table
    done.compare(where, list(table["score"]), list(complete["score"]), "score")
    return complete.assign(score=table["score"])
