"""Leave one panel out: networks trained on all images of some panels, tested on all images of another.

Each panel that trained reads the images left out with separate references, so that a run has one reading per panel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from uol.errors import CallError, UolError
from uol.experiments.kept_predictions import Added, Tables, keep_tables
from uol.experiments.recomputing import recomputed_elsewhere
from uol.experiments.verification import agree
from uol.ratings.scale import Scale
from uol.runs.folder import RunFolder
from uol.runs.predictions import check_predictions, fill_in_transfer, read_predictions
from uol.runs.read_run import transfer_of
from uol.runs.result import Data, Name, Provenance, Transfer, write_result
from uol.runs.result_checks import check_repeatable
from uol.storage.validation import Strict, check_values, read_object, read_validated

LEAVE_ONE_OUT = "leave-one-out"  # the folder of these results, and the name of their table


class LeftOut(Strict):
    """Figures on all images of a panel that trained nothing, by the panel that reads them."""

    experiment: Literal["leave-one-out"]
    method: Name
    recipe: Name
    left_out: Name
    seed: int = Field(ge=0)
    readings: dict[Name, Transfer] = Field(min_length=1)
    provenance: Provenance

    @property
    def file_name(self) -> str:
        """The name of its file in the folder of results."""
        return f"{self.method}-{self.recipe}-without-{self.left_out}-seed-{self.seed}.json"

    @property
    def panels(self) -> list[Data]:
        """The panels that trained, the first first."""
        return [*(self.provenance.panels or ())] or [self.provenance.data]

    @property
    def passes(self) -> str:
        """How often an epoch passes over the images of each panel."""
        passes = self.provenance.settings.get("panel_passes") or []
        return " and ".join(f"{share:.2f}" for share in passes) or "1 each"

    def scale(self, read_on: str) -> Scale:
        """The scale of the panel that reads."""
        return next(Scale(*panel.scale) for panel in self.panels if panel.name == read_on)

    def recomputed(self, tables: Tables) -> LeftOut:
        """The same with the figures of predictions, by the panel that reads."""
        readings = {
            panel: recomputed_elsewhere(
                figures, tables.get(panel), self.left_out, self.scale(panel), self.provenance.settings
            )
            for panel, figures in self.readings.items()
        }
        return self.model_copy(update={"readings": readings})


def is_whole_run(folder: Path) -> bool:
    """Whether a folder is a finished run on whole panels, which has no test images and therefore no result."""
    run = RunFolder(folder)
    return run.provenance.is_file() and not run.finished


def add_left_out(folder: Path, results: Path, replace: bool = False, recipe: str | None = None) -> list[Added]:
    """Add what a run on whole panels measured on panels left out, and its predictions; all of it or nothing."""
    run = RunFolder(folder)
    plan: dict[Path, tuple[LeftOut, Tables]] = {}
    added: list[Added] = []
    for read, tables in _read_whole_run(run, recipe):
        again = read.recomputed(tables)
        found = read if agree(read, again) else again  # earlier versions computed figures before numbers were rounded
        path = results / LEAVE_ONE_OUT / found.file_name
        check_repeatable(run.provenance, found.provenance)
        old = read_validated(LeftOut, path) if path.is_file() else None
        if old not in (None, found) and not replace:
            raise UolError(f"{path}: a different result is there; --replace puts the new one in its place")
        plan[path] = found, tables
        added.append(Added(path, "added" if old is None else "unchanged" if old == found else "replaced"))
    if not plan:
        raise CallError(f"{folder}: no evaluation of a panel left out; uol evaluate {folder} --data … makes one")
    for path, what in added:
        if what != "unchanged":
            write_result(path, plan[path][0])
        keep_tables(path, plan[path][1], replace=what != "unchanged")
    return added


def _read_whole_run(run: RunFolder, recipe: str | None) -> list[tuple[LeftOut, Tables]]:
    """One result for each data set that a run was tested on, with its predictions by the panel that reads."""
    values = read_object(run.provenance)
    made = check_values(Provenance, values, run.provenance)
    names = [panel.name for panel in made.panels or ()] or [made.data.name]
    readings: dict[str, dict[str, Transfer]] = {}
    tables: dict[str, Tables] = {}
    for panel in names:
        place = run if panel == names[0] else run.panel(panel)
        for path in place.evaluation_files():
            figures = read_object(path)
            if "accuracy" in figures or figures.get("unrated") or path.stem in made.learnt_from:
                continue
            table = place.evaluation_table(path.stem)
            kept = fill_in_transfer(transfer_of(path, figures), path.stem, table)
            readings.setdefault(path.stem, {})[panel] = kept
            if table.is_file():
                tables.setdefault(path.stem, {})[panel] = read_predictions(table)
                check_predictions(table, tables[path.stem][panel], kept.mae)
    return [
        (
            LeftOut(
                experiment="leave-one-out",
                method=str(made.settings["method"]),
                recipe=recipe or str(values["recipe"]),
                left_out=name,
                seed=int(made.settings["seed"]),
                readings=found,
                provenance=made,
            ),
            tables.get(name, {}),
        )
        for name, found in sorted(readings.items())
    ]


def read_left_out(folder: Path) -> list[LeftOut]:
    """All results of a folder, by the panel left out, the recipe and the seed."""
    found = {path: read_validated(LeftOut, path) for path in sorted(folder.glob("*.json"))}
    for path, one in found.items():
        check_repeatable(path, one.provenance)
        if path.name != one.file_name:
            raise UolError(f"{path}: its name is not {one.file_name}")
    return sorted(found.values(), key=lambda one: (one.left_out, one.method, one.recipe, one.seed))
