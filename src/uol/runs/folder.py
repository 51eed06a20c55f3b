"""A run on disk: the name of every file in it, what reads and writes them, and the lock that one run at a time holds.

RUN/recipe.yaml, checkpoint.safetensors, metrics.csv, log.txt    written while it trains
RUN/model/                                                       the trained model with all its panels, if there is one
RUN/predictions.csv, held-out.csv                                of test images, and of images held out to calibrate
RUN/panels/NAME/predictions.csv                                  of other panels that trained the same network
RUN/evaluations/NAME.json, NAME.csv                              figures and predictions on other data sets
RUN/result.json                                                  written last; or, without test images,
RUN/provenance.json
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from uol.errors import CallError, UolError
from uol.runs.evaluation import DIGITS
from uol.runs.result import Result, read_result, write_result
from uol.scoring.panels import panel_names
from uol.storage import provenance
from uol.storage.csv_text import frame_text
from uol.storage.files import write_json, write_text
from uol.storage.locks import holding

_PANELS, _EVALUATIONS, _MODEL = "panels", "evaluations", "model"


class RunFolder:
    """The folder of one run, or of one of its panels; the files need not exist."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.yaml"
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.metrics = self.path / "metrics.csv"
        self.log_file = self.path / "log.txt"
        self.model = self.path / _MODEL
        self.predictions = self.path / "predictions.csv"
        self.held_out = self.path / "held-out.csv"
        self.evaluations = self.path / _EVALUATIONS
        self.panels = self.path / _PANELS
        self.result = self.path / "result.json"
        self.provenance = self.path / "provenance.json"
        self._lock = self.path / ".lock"

    @classmethod
    def of_model(cls, folder: Path) -> RunFolder:
        """The run of a model folder, RUN/model or RUN/panels/NAME/model; any other folder is taken for a run."""
        run = cls(folder.parent if folder.name == _MODEL else folder)
        above = run.path.resolve().parent
        return cls(above.parent) if above.name == _PANELS and not run.begun else run

    def __str__(self) -> str:
        return str(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunFolder) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def begun(self) -> bool:
        """Whether training has begun here, or a result was put here."""
        return self.recipe.is_file() or self.finished

    @property
    def finished(self) -> bool:
        """Whether it has a result."""
        return self.result.is_file()

    def panel(self, name: str) -> RunFolder:
        """What is kept of another panel that trained the same network: predictions and evaluations."""
        return RunFolder(self.panels / name)

    def find_model(self, panel: str) -> tuple[Path, str | None] | None:
        """The model folder that knows a panel after the first, and the panel's name in it; None if there is none.

        Runs of earlier versions have another model folder for each panel, RUN/panels/NAME/model.
        """
        if panel in panel_names(self.model):
            return self.model, panel
        earlier = self.panel(panel).model
        return (earlier, None) if earlier.is_dir() else None

    def evaluation(self, data: str) -> Path:
        """Figures on another data set."""
        return self.evaluations / f"{data}.json"

    def evaluation_table(self, data: str) -> Path:
        """Predictions on another data set."""
        return self.evaluations / f"{data}.csv"

    def evaluation_files(self) -> list[Path]:
        """The figures on all other data sets, by name."""
        return sorted(self.evaluations.glob("*.json"))

    def read_result(self) -> Result:
        """The run's result, checked."""
        return read_result(self.result)

    def write_result(self, result: Result) -> None:
        """Write the result, which says that the run has finished."""
        write_result(self.result, result)

    def write_predictions(self, table: pd.DataFrame) -> None:
        """Write predictions of the test images."""
        _write_table(self.predictions, table)

    def write_held_out(self, table: pd.DataFrame) -> None:
        """Write predictions of the images that were held out to calibrate."""
        _write_table(self.held_out, table)

    def write_evaluation(self, data: str, table: pd.DataFrame, figures: Mapping[str, object]) -> None:
        """Write predictions and figures on another data set."""
        _write_table(self.evaluation_table(data), table)
        write_json(self.evaluation(data), figures)

    def remove_evaluations(self) -> None:
        """Remove all figures on other data sets, before another network takes this one's place."""
        try:
            shutil.rmtree(self.evaluations)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UolError(f"cannot remove {self.evaluations}: {error.strerror or error}") from error

    def log(self, event: str) -> None:
        """Add a line with the time to the log."""
        with contextlib.suppress(OSError):  # whatever hinders it is reported where it matters
            self.path.mkdir(parents=True, exist_ok=True)
            with open(self.log_file, "a", encoding="utf-8") as file:
                file.write(f"{provenance.now()} {' '.join(event.split())}\n")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one writing process, or refuse if another holds it; held twice by one, it counts once.

        The system releases the lock when the process ends, however it ends.
        """
        made = _missing(self.path)
        busy = f"{self.path}: another command is writing this folder; wait for it to end or choose another folder"
        with contextlib.ExitStack() as held:
            held.callback(_remove_empty, made)  # a refused call leaves no empty folders
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                held.enter_context(holding(self._lock, busy, again=True))
            except OSError as error:
                raise UolError(f"cannot write {self.path}: {error.strerror or error}") from error
            yield

    def check_unlocked(self) -> None:
        """Refuse a folder that another process is writing, before work that takes long."""
        if self._lock.exists():
            with self.locked():
                pass

    def check_free(self) -> None:
        """Refuse a folder with files that are no run's, such as photographs, unless a run has begun in it."""
        if self.begun or not self.path.is_dir():
            return
        own = {path.name for path in vars(self).values()} | {"report.html"}
        for entry in sorted(self.path.iterdir()):
            if entry.name not in own and not entry.name.startswith(".") and not RunFolder(entry).begun:
                raise CallError(f"{self.path}: a folder with other files in it ({entry.name}); choose another folder")


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def run_folders(folder: Path) -> list[RunFolder]:
    """The run in a folder, or the runs in its subfolders, fold-2 before fold-10."""
    if not folder.is_dir():
        raise CallError(f"{folder}: no such run folder")
    run = RunFolder(folder)
    inside = [RunFolder(entry) for entry in sorted(folder.iterdir(), key=_natural) if RunFolder(entry).begun]
    if run.begun:
        if inside:
            raise CallError(f"{folder}: a run with other runs in it ({inside[0].name}, …); name one of them")
        return [run]
    if not inside:
        raise CallError(
            f"{folder}: not a run folder (no {run.recipe.name} in it or in its subfolders); uol train makes one"
        )
    return inside


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (0, word) for word in re.split(r"(\d+)", path.name)]


def _missing(folder: Path) -> list[Path]:
    """The folder and those above it that do not exist yet, the innermost first."""
    return [] if folder.exists() else [folder, *_missing(folder.parent)]


def _write_table(path: Path, table: pd.DataFrame) -> None:
    write_text(path, frame_text(table, DIGITS))
