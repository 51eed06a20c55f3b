"""Taking the results of runs into the folder that tables are made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from uol.errors import CallError, UolError
from uol.runs.folder import is_run, run_folders
from uol.runs.groups import with_others
from uol.runs.predictions import completed
from uol.runs.result import (
    Makeup,
    Result,
    Transfer,
    check_repeatable,
    check_together,
    read_result,
    result_files,
    write_result,
)
from uol.storage.validation import first_problem

Part = TypeVar("Part", bound=BaseModel)


class Added(NamedTuple):
    """A result's file, and what happened to it: added, replaced or unchanged."""

    path: Path
    what: str


def finished_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """The runs of a folder that have a result, and those that have none yet."""
    runs = _runs(folder)
    done = [run for run in runs if (run / "result.json").is_file()]
    if not done:
        raise CallError(f"{folder}: no result.json in it or in its folds; finish the run with uol train")
    return done, [run for run in runs if run not in done]


def _runs(folder: Path) -> list[Path]:
    """The runs of a folder, or those of the rows of a plan in it."""
    inside = sorted(entry for entry in folder.glob("*/") if not entry.name.startswith("."))
    rows = [entry for entry in inside if any(map(is_run, entry.glob("*/")))]
    if not rows or is_run(folder) or any(map(is_run, inside)):
        return run_folders(folder)
    return [run for row in rows for run in run_folders(row)]


def read_run(run: Path) -> Result:
    """A run's result with what its evaluations say of other data sets, and with replicates from its predictions."""
    result = read_result(run / "result.json")
    changes: dict[str, Any] = {"transfer": dict(result.transfer)}
    for path in sorted((run / "evaluations").glob("*.json")):
        values = _read(path)
        if "accuracy" in values:
            changes["makeup"] = _checked(Makeup, path, values)
        elif not values.get("unrated") and path.stem not in {result.trained_on, *result.learnt}:  # else no transfer
            changes["transfer"][path.stem] = _evaluation(path, values)
    return completed(result.model_copy(update=changes), run)


def add(folder: Path, results: Path, replace: bool = False, recipe: str | None = None) -> list[Added]:
    """Check the results of a run, or of its folds, with those in the folder, then write all of them or none.

    `recipe` names their row, where the settings are not those of the recipe as it is now.
    """
    plan: dict[Path, Result] = {}
    added: list[Added] = []
    for run in finished_in(folder)[0]:
        result = read_run(run)
        if recipe is not None:
            result = _checked(Result, run / "result.json", result.model_dump() | {"recipe": recipe})
        check_repeatable(run / "result.json", result)
        path = results / result.experiment / result.file_name
        if path in plan:
            raise UolError(f"{run / 'result.json'}: another fold of {folder} has the same method, recipe, split, seed")
        old = read_result(path) if path.is_file() else None
        plan[path] = result if old is None else _merged(path, old, result, replace)
        added.append(Added(path, "added" if old is None else "unchanged" if plan[path] == old else "replaced"))
    _check_with_others(plan)
    for path, what in added:
        if what != "unchanged":
            write_result(path, plan[path])
    return added


def _merged(path: Path, old: Result, new: Result, replace: bool) -> Result:
    """The new result in place of the old one; without `replace` it may only add what the old one has not."""
    if old.identity != new.identity:
        raise UolError(f"{path}: the name is taken by another method and recipe; rename the recipe")
    if replace:
        return new
    # What follows from the predictions stays as it was: another machine's may differ in the last digit.
    derived = {name: getattr(old, name) or getattr(new, name) for name in ("spread", "replicates")}
    groups = with_others(old.groups or new.groups or {}, new.groups or {}) or new.groups
    kept = derived | {"groups": groups, "makeup": new.makeup or old.makeup}
    both = new.model_copy(update={"transfer": old.transfer | new.transfer, **kept})
    changed = not all(_agree(figures, both.transfer[name]) for name, figures in old.transfer.items())
    changed = changed or old.makeup not in (None, kept["makeup"])
    if changed or old.model_copy(update={"transfer": both.transfer, **kept}) != both:
        raise UolError(f"{path}: a different result is there; --replace puts the new one in its place")
    return both


def bare(figures: Transfer) -> Transfer:
    """Figures on another data set without what older results have not: replicates, groups, the ratings' fingerprint."""
    return figures.model_copy(update={"replicates": None, "groups": None, "fingerprint": None})


def _agree(old: Transfer, new: Transfer) -> bool:
    """Whether figures on another data set are the same, of the same ratings as far as both say which."""
    known = None not in (old.fingerprint, new.fingerprint)
    return bare(old) == bare(new) and not (known and old.fingerprint != new.fingerprint)


def _check_with_others(plan: Mapping[Path, Result]) -> None:
    for folder in {path.parent for path in plan}:
        others = {path: read_result(path) for path in result_files(folder) if path not in plan}
        check_together(others | {path: result for path, result in plan.items() if path.parent == folder})


def _evaluation(path: Path, values: dict[str, Any]) -> Transfer:
    found = _checked(Transfer, path, values)
    if found.split is not None:
        raise UolError(f"{path}: figures on the split {found.split} alone; tables show whole data sets")
    return found


def _checked(kind: type[Part], path: Path, values: dict[str, Any]) -> Part:
    try:
        return kind.model_validate({key: values[key] for key in kind.model_fields if key in values})
    except ValidationError as error:
        raise UolError(f"{path}: {first_problem(error)}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UolError(f"{path}: not readable as JSON") from error
    if not isinstance(values, dict):
        raise UolError(f"{path}: not readable as an evaluation")
    return values
