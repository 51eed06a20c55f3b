"""Write the aligned faces of many photographs to a folder, with a table of doubtful ones."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from uol.errors import CallError, UolError
from uol.images.face_cache import FaceCache, align_many
from uol.images.faces import AlignedFace, FaceError
from uol.images.read import Images
from uol.storage.cores import available_cores
from uol.storage.csv_text import csv_text, unguarded_rows
from uol.storage.files import replacing, write_text

TABLE = "faces.csv"


class FaceRow(NamedTuple):
    """A photograph, its aligned face (None if it has none), its problems or the error, and whether it is unreadable."""

    image: str
    face: str | None
    problems: str
    unreadable: bool = False


_COLUMNS = ("image", "face", "problems")


def align_into(
    out: str | os.PathLike[str],
    images: Images,
    names: Sequence[str],
    size: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> list[FaceRow]:
    """Write the aligned face of each image to `out` under its name, and `faces.csv` with a row for each.

    Faces that an earlier run wrote are not aligned again, so that a stopped run can be continued; failures are tried
    again. All faces are PNG files.
    """
    folder = Path(out)
    faces = [Path(name).with_suffix(".png").as_posix() for name in names]
    _check_targets(folder, images, faces)
    rows = {row.image: row for row in _read(folder / TABLE) if row.face and _is_face(folder / row.face, size)}
    missing = [i for i, name in enumerate(names) if name not in rows or rows[name].face != faces[i]]
    kept = len(names) - len(missing)

    def report(done: int, _: int) -> None:
        if progress is not None:
            progress(kept + done, len(names))

    try:
        wanted = [images[i] for i in missing]
        for k, result in align_many(wanted, size, FaceCache(size=size), report, workers=available_cores()):
            i = missing[k]
            if isinstance(result, AlignedFace):
                with replacing(folder / faces[i]) as temporary:
                    Image.fromarray(result.image).save(temporary, format="PNG")
                rows[names[i]] = FaceRow(names[i], faces[i], "; ".join(result.problems))
            else:
                rows[names[i]] = FaceRow(names[i], None, str(result), not isinstance(result, FaceError))
    finally:  # a stopped run writes the rows that it has, and those of other photographs whose faces are here
        found = [rows.pop(name) for name in names if name in rows]
        write_text(folder / TABLE, csv_text(_COLUMNS, (row[: len(_COLUMNS)] for row in [*found, *rows.values()])))
    return found


def _check_targets(folder: Path, images: Images, faces: Sequence[str]) -> None:
    seen: set[str] = set()
    for image, face in zip(images, faces, strict=True):
        if face in seen:
            raise UolError(f"two photographs would become {folder / face}; rename one of them")
        seen.add(face)
        if isinstance(image, str | os.PathLike) and (folder / face).resolve() == Path(image).resolve():
            raise CallError(f"{folder / face} is a photograph and would be overwritten; choose another folder")


def _read(table: Path) -> list[FaceRow]:
    """The rows of an earlier run; none if there is no table. A table that no run wrote is refused."""
    if not table.exists() or not table.stat().st_size:
        return []
    try:
        heading, *lines = unguarded_rows(csv.reader(io.StringIO(table.read_text(encoding="utf-8"))))
        if tuple(heading) != _COLUMNS:
            raise ValueError(heading)
        return [FaceRow(image, face or None, problems) for image, face, problems in lines]
    except (OSError, ValueError, csv.Error) as error:
        raise CallError(f"{table}: not a table of aligned faces, and would be lost; choose another folder") from error


def _is_face(path: Path, size: int) -> bool:
    try:
        with Image.open(path) as image:
            return image.size == (size, size)
    except Exception:  # decoders raise many kinds
        return False
