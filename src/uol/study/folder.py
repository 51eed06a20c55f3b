"""A study folder: `study.yaml`, the list of images, the given pairs if any, and (later) the answers."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from uol.errors import CallError, UolError, counted
from uol.storage.csv_text import csv_text, unguarded_rows
from uol.storage.files import why_unread
from uol.storage.settings_text import read_yaml
from uol.storage.validation import first_problem
from uol.study.settings import SIMILAR, StudySettings

SETTINGS = "study.yaml"
IMAGES = "images.csv"
PAIRS = "pairs.csv"
_ID = re.compile(r"[^\x00-\x1f]{1,200}")


@dataclass(frozen=True)
class Study:
    """A study as its folder describes it: settings, the file of each image by id, and the given pairs.

    `people` are the persons of given pairs of photographs with and without make-up, if the table has them.
    """

    path: Path
    settings: StudySettings
    files: Mapping[str, Path]
    given: Sequence[tuple[str, str]] = ()
    people: Sequence[str] = ()

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of all images, in the order of their table."""
        return tuple(self.files)

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each image, from 0, by its id."""
        return {name: place for place, name in enumerate(self.ids)}

    @cached_property
    def known_rounds(self) -> dict[int, list[list[tuple[str, ...]]]]:
        """What the rounds before one have left to say of it, by its number: for the latest one, kept by `trials`."""
        return {}

    @property
    def one_round(self) -> int:
        """The trials that show every image, or every pair, once."""
        images = len(self.ids)
        if self.settings.kind == "pairs":
            return len(self.given) if self.settings.pairs.choice == "given" else math.comb(images, 2)
        return -(-images // self.settings.set_size)

    @property
    def trials(self) -> int:
        """The trials of one participant, without practice, repeats and checks."""
        return self.settings.trials or self.one_round

    @property
    def most_trials(self) -> int:
        """The most different trials that one participant can have; of sets of four, a quarter of all that there are."""
        if self.settings.kind != "best-of-four":
            return self.one_round
        return max(self.one_round, math.comb(len(self.ids), self.settings.set_size) // 4)


def is_study(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder is a study folder."""
    return (Path(folder) / SETTINGS).is_file()


def open_study(folder: str | os.PathLike[str]) -> Study:
    """Read and check a study folder; one line says what is wrong."""
    path = Path(folder)
    if not path.is_dir():
        raise CallError(f"{path}: no such folder; `uol study new` makes a study folder")
    source = path / SETTINGS
    try:
        text = source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CallError(f"{path}: no {SETTINGS} in this folder; `uol study new` makes a study folder") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UolError(f"{source}: cannot be read ({why_unread(error)})") from error
    settings = check_settings(read_yaml(text, str(source)), str(source))
    study = Study(path, settings, _read_images(path, settings), *_read_pairs(path, settings))
    check_study(study)
    return study


def check_settings(values: object, source: str) -> StudySettings:
    """Settings from values that YAML gave; one line says what is wrong."""
    if not isinstance(values, dict):
        raise CallError(f"{source}: not a list of settings (name: value)")
    try:
        return StudySettings.model_validate(values)
    except ValidationError as error:
        raise CallError(f"{source}: {first_problem(error)}") from error


def check_study(study: Study) -> None:
    """Refuse a study that nobody could take part in."""
    where, settings, ids = study.path / SETTINGS, study.settings, set(study.files)
    if len(ids) < settings.set_size:
        raise CallError(f"{where}: {settings.kind} need at least {counted(settings.set_size, 'image')}")
    if study.trials > study.most_trials:
        raise CallError(
            f"{where}: trials: at most {study.most_trials}, not {study.trials}: nobody sees the same trial twice, and "
            f"{counted(len(ids), 'image')} give no more; for second answers to the same trial use repeats"
        )
    if settings.repeats > (study.trials + 1) // 2:
        raise CallError(
            f"{where}: repeats: at most {(study.trials + 1) // 2}, not {settings.repeats}: trials of the first half of "
            f"{study.trials} come again in the second half"
        )
    for number, check in enumerate(settings.checks, 1):
        unknown = [name for name in check.images if name not in ids]
        if unknown:
            raise CallError(f"{where}: checks, number {number}: no image has the id {unknown[0]!r}")
    for pair in study.given:
        unknown = [name for name in pair if name not in ids]
        if unknown:
            raise CallError(f"{study.path / str(settings.pairs.table)}: no image has the id {unknown[0]!r}")
        if pair[0] == pair[1]:
            raise CallError(f"{study.path / str(settings.pairs.table)}: {pair[0]} is compared with itself")
    lost = [file for file in study.files.values() if not file.is_file()]
    if lost:
        raise UolError(f"{lost[0]}: no such file ({counted(len(lost), 'image')} of the study missing)")


def images_text(files: Mapping[str, str]) -> str:
    """The table of images as CSV: id and file of each."""
    return csv_text(("id", "file"), files.items())


def pairs_text(pairs: Sequence[tuple[str, str]], people: Sequence[str] = ()) -> str:
    """The table of given pairs as CSV, with the person of each if known."""
    if people:
        return csv_text(("first", "second", "person"), ((*pair, who) for pair, who in zip(pairs, people, strict=True)))
    return csv_text(("first", "second"), pairs)


def _read_images(path: Path, settings: StudySettings) -> dict[str, Path]:
    """The file of each image by its id."""
    source = path / settings.images.table
    base = path / settings.images.folder
    found: dict[str, Path] = {}
    for line, (name, file) in _read_columns(source, ("id", "file")):
        if not _ID.fullmatch(name) or name == SIMILAR:
            raise CallError(f"{source}, line {line}: {name!r} cannot be the id of an image")
        if name in found:
            raise CallError(f"{source}, line {line}: the id {name} occurs twice")
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise CallError(f"{source}, line {line}: {file} is not inside {base}")
        found[name] = base / file
    return found


def _read_pairs(path: Path, settings: StudySettings) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The given pairs, and the person of each if the table has such a column."""
    if settings.pairs.table is None:
        return (), ()
    source = path / settings.pairs.table
    pairs = tuple((one, other) for _, (one, other) in _read_columns(source, ("first", "second")))
    if not pairs:
        raise CallError(f"{source}: no pairs in this table")
    if len(set(map(frozenset, pairs))) < len(pairs):
        raise CallError(f"{source}: a pair is listed twice; remove one of its rows")
    head = source.read_text(encoding="utf-8-sig").partition("\n")[0]
    people = (who for _, (who,) in _read_columns(source, ("person",))) if "person" in head.split(",") else ()
    return pairs, tuple(people)


def _read_columns(source: Path, columns: tuple[str, ...]) -> list[tuple[int, list[str]]]:
    """Lines and cells of the named columns of a CSV file, which may have others."""
    try:
        text = source.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise CallError(f"{source}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UolError(f"{source}: cannot be read ({why_unread(error)})") from error
    try:
        rows = unguarded_rows(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise UolError(f"{source}: not readable as CSV ({error})") from error
    heads = [head.strip() for head in rows[0]] if rows else []
    missing = [column for column in columns if column not in heads]
    if missing:
        raise CallError(f"{source}: no column {missing[0]} in the first line")
    places = [heads.index(column) for column in columns]
    found = []
    for line, row in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in row):
            continue
        cells = [row[place].strip() if place < len(row) else "" for place in places]
        if "" in cells:
            raise CallError(f"{source}, line {line}: {columns[cells.index('')]} is empty")
        found.append((line, cells))
    return found
