"""Rows of a long job in one file: stored as they come, complete at the end, and resumed by the same job.

In JSON a face is one value, {box, confidence, problems}; tables have columns for its box and its problems.

While the job runs, each row goes to a journal in the same folder (`.NAME.rows`, one JSON line each). A killed job
leaves the journal, and the same job resumes from it. When the job ends, or is interrupted, the file is written in one
step.
"""

from __future__ import annotations

import csv
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeAlias

from uol.errors import CallError, UolError, counted
from uol.scoring.rows import FIGURES, ScoreRow
from uol.storage.csv_text import FRAME_SUFFIXES, csv_text, heading, unguarded, write_frame
from uol.storage.files import check_output, plain, write_text
from uol.storage.locks import holding

Row: TypeAlias = Mapping[str, object]  # a ScoreRow, or one with more columns

BOX = ("face_left", "face_top", "face_width", "face_height")
PROBLEMS = "problems"
SUFFIXES = (".csv", ".json", ".jsonl", ".parquet")
_NAMES = {"rank", "tied", "image", "face", *BOX, PROBLEMS, *FIGURES, "error", "panels"}  # columns of all jobs
_FIRST_ROW = 1 << 16  # characters, far more than a row has


class RowFile:
    """The rows of a job, file by file: `add` stores the rows of one input, `rows` returns all in order.

    `job` names the model and the options: the journal of another job is not resumed. An input that changed since is
    scored again.
    """

    def __init__(self, path: Path, job: Mapping[str, Any], columns: Sequence[str]) -> None:
        check_output(path, SUFFIXES)
        self.path = path
        self.journal = path.with_name(f".{path.name}.rows")
        self._job = plain(dict(job))
        self._columns = columns
        self._mine = True  # whether `path` is free, or has this job's unfinished output
        self._done: dict[str, list[ScoreRow]] = {}
        self._states: dict[str, str] = {}
        self._file: IO[str] | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as held:  # released if this fails
            held.enter_context(self._locked())
            self._begin()
            self._held = held.pop_all()
        return self

    @contextmanager
    def _locked(self) -> Iterator[None]:
        busy = f"{self.path}: another command is writing this file; wait for it to end or choose another name"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with holding(self.path.with_name(f".{self.path.name}.lock"), busy):
                yield
        except OSError as error:
            raise UolError(f"cannot write {self.path}: {error.strerror or error}") from error

    def _begin(self) -> None:
        """Read what an earlier job left, and start the journal with it; rows of another job are dropped."""
        self._done, self._states = self._resumed()
        self._mine = bool(self._done) or not self.path.exists()
        try:
            write_text(self.journal, "".join([_line(self._job), *map(self._entry, self._done)]))
            self._file = open(self.journal, "a", encoding="utf-8")  # noqa: SIM115 (closed by __exit__)
        except (OSError, UolError) as error:
            reason = getattr(error.__cause__ or error, "strerror", None) or error
            raise UolError(f"cannot write {self.path}: {reason}") from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._file is not None
        with self._held:
            self._file.close()
            if kind is None or (issubclass(kind, KeyboardInterrupt) and self._mine):
                write_rows(self.path, self.rows, self._columns)
            if kind is None:
                self.journal.unlink(missing_ok=True)

    def missing(self, inputs: Sequence[Path]) -> list[Path]:
        """The inputs without rows, or changed since; drops the rows of those and of files that are no inputs."""
        kept = [str(path) for path in inputs if self._states.get(str(path)) == _state(path)]
        self._done = {key: self._done[key] for key in kept}
        return [path for path in inputs if str(path) not in self._done]

    def add(self, path: Path, rows: list[ScoreRow]) -> None:
        """Store the rows of one input."""
        assert self._file is not None
        key = str(path)
        self._done[key], self._states[key] = rows, _state(path)
        try:
            self._file.write(self._entry(key))
            self._file.flush()
        except OSError as error:
            raise UolError(f"cannot write {self.path}: {error.strerror or error}") from error

    def order(self, inputs: Sequence[Path]) -> None:
        """Put the rows in the order of the inputs, and drop those of others."""
        self._done = {str(path): self._done[str(path)] for path in inputs if str(path) in self._done}

    @property
    def rows(self) -> list[ScoreRow]:
        """All rows so far."""
        return [row for rows in self._done.values() for row in rows]

    def _entry(self, key: str) -> str:
        return _line({"input": key, "state": self._states[key], "rows": self._done[key]})

    def _resumed(self) -> tuple[dict[str, list[ScoreRow]], dict[str, str]]:
        done: dict[str, list[ScoreRow]] = {}
        states: dict[str, str] = {}
        try:
            lines = self.journal.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError):
            return done, states
        try:
            if json.loads(lines[0]) != self._job:
                if dropped := len(lines) - 2:
                    others = f"{counted(dropped, 'image')} of an unfinished job with another model or other options"
                    warnings.warn(f"{self.path}: dropped {others}; it starts again with the first image", stacklevel=2)
                return done, states
            for line in lines[1:-1]:  # a last line without a newline was cut off in writing
                entry = json.loads(line)
                done[entry["input"]], states[entry["input"]] = entry["rows"], entry["state"]
        except (ValueError, KeyError, TypeError, RecursionError):
            pass  # the lines before are good
        return done, states


def check_scores_file(path: Path, inputs: Sequence[Path], replace: bool) -> None:
    """Refuse a target that is an input, has no format, or, unless `replace` is set, that `uol` did not write.

    Rows of other images are replaced with a warning: the file is written at the end, and Ctrl-C keeps it.
    """
    check_output(path, SUFFIXES, inputs)
    if path.exists() and path.stat().st_size and not replace and not _has_scores(path):
        raise CallError(f"{path}: exists, and is no table of scores; choose another name, or use --replace")
    if path.exists() and not replace and (lost := _images(path) - _names(path, inputs)):
        warnings.warn(f"{path}: rows of {counted(len(lost), 'other image')} in it will be replaced", stacklevel=2)


def _has_scores(path: Path) -> bool:
    """Whether a file has the columns of scored or ranked rows, and no others."""
    try:
        names = set(_column_names(path))
    except (OSError, ValueError):
        return False
    own = {name for name in names if name in _NAMES or name.partition("_")[0] in FIGURES}
    return {"image", "face", "error"} <= names == own


def _column_names(path: Path) -> Iterable[str]:
    if path.suffix.lower() in FRAME_SUFFIXES:
        return heading(path)
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        start = file.read(_FIRST_ROW)
    row, _ = json.JSONDecoder().raw_decode(start, start.index("{"))
    return dict(row)


def _names(path: Path, inputs: Sequence[Path]) -> set[str]:
    """The names of images as a file has them: Parquet has no others than valid text."""
    names = {str(name) for name in inputs}
    valid = path.suffix.lower() == ".parquet"
    return {name.encode("utf-8", "replace").decode() for name in names} if valid else names


def _images(path: Path) -> set[str]:
    """The images of a file with rows of scores; none if it is damaged."""
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            import pandas as pd

            return set(pd.read_parquet(path, columns=["image"])["image"])
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            if kind == ".csv":
                return {str(unguarded(row["image"])) for row in csv.DictReader(file)}
            return {row["image"] for row in (json.load(file) if kind == ".json" else map(json.loads, file))}
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return set()


def write_rows(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Write rows to a file in the format of its name."""
    check_output(path, SUFFIXES)
    kind = path.suffix.lower()
    if kind == ".parquet":
        _write_parquet(path, rows, columns)
    elif kind == ".csv":
        write_text(path, as_csv(rows, columns))
    elif kind == ".jsonl":
        write_text(path, "".join(map(_line, rows)))
    else:
        write_text(path, json.dumps(plain(list(rows)), indent=2, allow_nan=False) + "\n")


def as_csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Rows as CSV; unknown values are empty."""
    return csv_text(columns, ([flat(cell(row, name)) for name in columns] for row in rows))


def cell(row: Row, name: str) -> Any:
    """A table's cell: the row's value, a figure of one panel, a side of its face's box, or the problems of the face.

    Problems are separated by semicolons; a face without any has an empty text, a row without a face has none.
    """
    if name in row:
        return row[name]
    if name not in {*BOX, PROBLEMS}:
        figure, _, panel = name.partition("_")
        panels: Any = row.get("panels", {})
        return panels.get(panel, {}).get(figure)
    face: Any = row.get("face")
    if face is None:
        return None
    return float(face["box"][BOX.index(name)]) if name in BOX else "; ".join(face.get("problems", ()))


def flat(value: Any) -> Any:
    """A cell's value: of a face, its box as four numbers."""
    if isinstance(value, Mapping):
        return " ".join(f"{side:g}" for side in value["box"])
    return f"{value:.6g}" if isinstance(value, float) else value


def _write_parquet(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    import pandas as pd

    table = pd.DataFrame([{name: _cell(cell(row, name)) for name in columns} for row in rows], columns=list(columns))
    numbers = [name for name in columns if name in BOX or name.partition("_")[0] in FIGURES]
    table = table.astype(dict.fromkeys(numbers, "float64"))  # also where no image could be scored, or none has a face
    write_frame(path, table)


def _cell(value: Any) -> Any:
    value = flat(value) if isinstance(value, Mapping) else value
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _line(value: Any) -> str:
    try:  # ASCII: a name may hold bytes that are no text
        return json.dumps(value, allow_nan=False) + "\n"
    except (TypeError, ValueError):  # numpy's numbers, NaN or an infinity: seldom, and slow to look for
        return json.dumps(plain(value), allow_nan=False) + "\n"


def _state(path: Path) -> str:
    """A file's length and time of change."""
    try:
        state = os.stat(path)
        return f"{state.st_size} {state.st_mtime_ns}"
    except OSError:
        return "missing"
