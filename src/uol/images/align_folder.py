"""Write the aligned faces of many photographs to a folder, with a table of doubtful ones."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from PIL import Image

from uol.errors import CallError, ImageError, UolError
from uol.images.face_cache import FaceCache, align_many
from uol.images.faces import AlignedFace, FaceError
from uol.images.read import ImageLike, Images
from uol.storage.cores import available_cores
from uol.storage.csv_text import csv_text, unguarded_rows
from uol.storage.files import replacing, write_text

TABLE = "faces.csv"


class FaceRow(NamedTuple):
    """A photograph, its aligned face (None if it has none), its problems or the error, and whether it is unreadable.

    A photograph is unreadable, too, if no file can have the name of its face.
    """

    image: str
    face: str | None
    problems: str
    unreadable: bool = False


_COLUMNS = ("image", "face", "problems", "digest")
_Rows: TypeAlias = dict[str, tuple[FaceRow, str]]
"""Rows by their images, each with a digest of the photograph's content; without one, its face is aligned again."""


def align_into(
    out: str | os.PathLike[str],
    images: Images,
    names: Sequence[str],
    size: int = 256,
    progress: Callable[[int, int], None] | None = None,
    reading: Callable[[int, int], None] | None = None,
) -> list[FaceRow]:
    """Write the aligned face of each image to `out` under its name, and `faces.csv` with a row for each.

    Faces that an earlier run wrote of the same content are not aligned again, so that a stopped run can be continued;
    failures are tried again. Rows of other photographs stay while their faces do, of any size. All faces are PNG files.

    `reading(done, total)` is called as photographs are read to see whether they changed, then `progress(done, total)`.
    """
    folder = Path(out)
    faces = [Path(name).with_suffix(".png").as_posix() for name in names]
    _check_targets(folder, images, faces)
    known = _read(folder / TABLE)
    cache = FaceCache(size=size)
    digests = _digests(cache, images, reading)
    rows = {name: (row, kept) for name, (row, kept) in known.items() if _face_size(folder, row)}
    missing = [
        i for i, name in enumerate(names)
        if not digests[i] or name not in rows or rows[name][1] != digests[i] or rows[name][0].face != faces[i]
        or _face_size(folder, rows[name][0]) != (size, size)
    ]  # fmt: skip
    written = {faces[i] for i in missing}
    if any(row.face in written for row, _ in rows.values()):  # a killed run leaves faces of other photographs
        rows = {name: (row, "" if row.face in written else kept) for name, (row, kept) in rows.items()}
        _write(folder / TABLE, rows.values())

    def report(done: int, _: int) -> None:
        if progress is not None:
            progress(len(names) - len(missing) + done, len(names))

    found: list[tuple[FaceRow, str]] = []
    try:
        wanted = [images[i] for i in missing]
        for k, result in align_many(wanted, size, cache, report, workers=available_cores()):
            i = missing[k]
            row = _keep(folder, names[i], faces[i], result)
            if row.face is None and names[i] in rows:
                (folder / faces[i]).unlink(missing_ok=True)  # of the photograph that had this name before
            rows[names[i]] = row, digests[i]
    finally:  # a stopped run writes the rows that it has, and those of other photographs whose faces are here
        found = [rows.pop(name) for name in names if name in rows]
        taken = {row.face for row, _ in found}
        _write(folder / TABLE, [*found, *(other for other in rows.values() if other[0].face not in taken)])
    return [row for row, _ in found]


def _keep(folder: Path, name: str, face: str, result: AlignedFace | ImageError) -> FaceRow:
    """Write the face of a photograph if it has one; its row."""
    if not isinstance(result, AlignedFace):
        return FaceRow(name, None, str(result), not isinstance(result, FaceError))
    try:
        with replacing(folder / face) as temporary:
            Image.fromarray(result.image).save(temporary, format="PNG")
    except UolError as error:
        if getattr(error.__cause__, "errno", None) != errno.ENAMETOOLONG:
            raise
        return FaceRow(name, None, str(error), unreadable=True)
    return FaceRow(name, face, "; ".join(result.problems))


def _digests(cache: FaceCache, images: Images, reading: Callable[[int, int], None] | None) -> list[str]:
    found = []
    pool = ThreadPoolExecutor(available_cores())
    try:
        for digest in pool.map(partial(_digest, cache), images):
            found.append(digest)
            if reading is not None:
                reading(len(found), len(images))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C must not wait for all photographs
    return found


def _digest(cache: FaceCache, image: ImageLike) -> str:
    """A digest of what a face depends on: the content of its photograph, the size and the way of aligning.

    It is empty if the photograph cannot be read.
    """
    try:
        return cache.place(image).name
    except ImageError:
        return ""


def _check_targets(folder: Path, images: Images, faces: Sequence[str]) -> None:
    seen: set[str] = set()
    for image, face in zip(images, faces, strict=True):
        if face in seen:
            raise UolError(f"two photographs would become {folder / face}; rename one of them")
        seen.add(face)
        if isinstance(image, str | os.PathLike) and (folder / face).resolve() == Path(image).resolve():
            raise CallError(f"{folder / face} is a photograph and would be overwritten; choose another folder")


def _read(table: Path) -> _Rows:
    """The faces of an earlier run; none if there is no table. A table that no run wrote is refused."""
    if not table.exists() or not table.stat().st_size:
        return {}
    try:
        text = table.read_bytes().decode("utf-8", "surrogateescape")  # as `write_text` writes it
        heading, *lines = unguarded_rows(csv.reader(io.StringIO(text, newline="")))
        if tuple(heading) not in (_COLUMNS, _COLUMNS[:-1]) or any(len(line) != len(heading) for line in lines):
            raise ValueError(heading)
        return {line[0]: (FaceRow(line[0], line[1] or None, line[2]), "".join(line[3:])) for line in lines}
    except (OSError, ValueError, csv.Error) as error:
        raise CallError(f"{table}: not a table of aligned faces, and would be lost; choose another folder") from error


def _write(table: Path, rows: Iterable[tuple[FaceRow, str]]) -> None:
    write_text(table, csv_text(_COLUMNS, ((row.image, row.face, row.problems, digest) for row, digest in rows)))


def _face_size(folder: Path, row: FaceRow) -> tuple[int, int] | None:
    """The size of the face that a row names; None if it is gone or broken."""
    if not row.face:
        return None
    try:
        with Image.open(folder / row.face) as image:
            return image.size
    except Exception:  # decoders raise many kinds
        return None
