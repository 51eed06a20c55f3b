"""Taking the results of runs into the folder that tables are made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from uol.errors import CallError, UolError
from uol.experiments.kept_predictions import Added, Tables, keep_tables, run_tables
from uol.experiments.recomputing import recomputed
from uol.experiments.verification import agree
from uol.runs.folder import RunFolder, run_folders
from uol.runs.read_run import read_run
from uol.runs.result import PanelFigures, Result, Transfer, read_result, result_files, write_result
from uol.runs.result_checks import check_repeatable, check_together
from uol.storage.validation import check_values

Panels = Mapping[str, PanelFigures] | None


def finished_in(folder: Path) -> tuple[list[RunFolder], list[RunFolder]]:
    """The runs of a folder that have a result, and those that have none yet."""
    runs = _runs(folder)
    done = [run for run in runs if run.finished]
    if not done:
        raise CallError(f"{folder}: no {runs[0].result.name} in it or in its folds; finish the run with uol train")
    return done, [run for run in runs if run not in done]


def _runs(folder: Path) -> list[RunFolder]:
    """The runs of a folder, or those of the rows of a plan in it."""
    inside = sorted(entry for entry in folder.glob("*/") if not entry.name.startswith("."))
    rows = [entry for entry in inside if any(RunFolder(run).begun for run in entry.glob("*/"))]
    if not rows or any(RunFolder(run).begun for run in (folder, *inside)):
        return run_folders(folder)
    return [run for row in rows for run in run_folders(row)]


def add(folder: Path, results: Path, replace: bool = False, recipe: str | None = None) -> list[Added]:
    """Check the results of a run, or of its folds, with those in the folder, then write all of them or none.

    Their predictions are kept with them.

    `recipe` names their row, where the settings are not those of the recipe as it is now.
    """
    plan: dict[Path, Result] = {}
    tables: dict[Path, Tables] = {}
    added: list[Added] = []
    for run in finished_in(folder)[0]:
        result = read_run(run)
        if recipe is not None:
            result = check_values(Result, result.model_dump() | {"recipe": recipe}, run.result)
        check_repeatable(run.result, result.provenance)
        path = results / result.experiment / result.file_name
        if path in plan:
            raise UolError(f"{run.result}: another fold of {folder} has the same method, recipe, split, seed")
        old = read_result(path) if path.is_file() else None
        tables[path] = run_tables(run, result)
        if old is None or not agree(old.metrics, result.metrics):
            result = _following(result, tables[path])
        plan[path] = _following(result if old is None else _merged(path, old, result, replace), tables[path])
        added.append(Added(path, "added" if old is None else "unchanged" if plan[path] == old else "replaced"))
    _check_with_others(plan)
    for path, what in added:
        if what != "unchanged":
            write_result(path, plan[path])
        keep_tables(path, tables[path], replace=what == "added" or (replace and what == "replaced"))
    return added


def _merged(path: Path, old: Result, new: Result, replace: bool) -> Result:
    """The new result in place of the old one; without `replace` it may only add what the old one has not."""
    if old.identity != new.identity:
        raise UolError(f"{path}: the name is taken by another method and recipe; rename the recipe")
    if replace:
        return new
    # What follows from the predictions stays as it was: another machine's may differ in the last digit.
    derived = {name: getattr(old, name) or getattr(new, name) for name in ("spread", "replicates", "groups")}
    kept = derived | {"makeup": new.makeup or old.makeup, "beside": _with_groups(new.beside, old.beside)}
    both = new.model_copy(update={"transfer": old.transfer | new.transfer, **kept})
    changed = not all(_agree(figures, both.transfer[name]) for name, figures in old.transfer.items())
    changed = changed or old.makeup not in (None, kept["makeup"])
    changed = changed or old.provenance != both.provenance
    filled = kept | {"beside": _with_groups(old.beside, new.beside)}
    if changed or not agree(old.model_copy(update={"transfer": both.transfer, **filled}), both):
        raise UolError(f"{path}: a different result is there; --replace puts the new one in its place")
    return both


def _with_groups(figures: Panels, other: Panels) -> Panels:
    """Figures on other panels that trained a network, with another's groups where they have none."""
    if figures is None or other is None:
        return figures
    given = {name: other[name].groups if name in other else None for name in figures}
    return {name: one.model_copy(update={"groups": one.groups or given[name]}) for name, one in figures.items()}


def _following(result: Result, tables: Tables) -> Result:
    """The result with the figures of its stored predictions: earlier versions computed them before rounding."""
    again = recomputed(result, tables)
    return result if agree(result, again) else again


def bare(figures: Transfer) -> Transfer:
    """Figures on another data set without what older results have not: replicates, groups, the ratings' fingerprint."""
    return figures.model_copy(update={"replicates": None, "groups": None, "fingerprint": None})


def _agree(old: Transfer, new: Transfer) -> bool:
    """Whether figures on another data set are the same, of the same ratings as far as both say which."""
    known = None not in (old.fingerprint, new.fingerprint)
    return agree(bare(old), bare(new)) and not (known and old.fingerprint != new.fingerprint)


def _check_with_others(plan: Mapping[Path, Result]) -> None:
    for folder in {path.parent for path in plan}:
        others = {path: read_result(path) for path in result_files(folder) if path not in plan}
        check_together(others | {path: result for path, result in plan.items() if path.parent == folder})
