"""The folder or prefix that a bulk job writes: parts of rows, the list of its inputs, and what the job is.

`part-0000012.parquet` has the rows of one part of the inputs, written in one step: it is there whole, or not at all.
Doing a part twice replaces the file by the same rows. Therefore every image has exactly one set of rows, whichever
worker or driver died on the way. `_job.json` is written when the list of inputs is complete.
"""

from __future__ import annotations

import io
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from uol.errors import CallError, UolError
from uol.scale.addresses import delete, fetch, joined, locate, names_in, write_whole
from uol.scale.sources import Columns, Part, TableFile, parts_of
from uol.storage.files import plain

NOT_FETCHED = "not fetched"  # the kind of error that another attempt may mend

_JOB = "_job.json"
_INPUTS = "_inputs"
_ATTEMPTS = "_attempts"
_COUNTS = b"uol"  # the key in the metadata of a part's file
_PART = re.compile(r"part-(\d{7})\.parquet")
_AT_ONCE = 16


class Counts(NamedTuple):
    """What a part, or a job, came to."""

    images: int = 0
    rows: int = 0
    errors: Mapping[str, int] = {}

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        errors = Counter(self.errors) + Counter(other.errors)
        return Counts(self.images + other.images, self.rows + other.rows, dict(errors))


class Plan(NamedTuple):
    """A job: what was asked for, its files of inputs, and how they are divided."""

    asked: Mapping[str, Any]
    files: list[TableFile]
    columns: Columns
    part_size: int

    @property
    def parts(self) -> list[Part]:
        """The parts of the job, always the same."""
        return parts_of(self.files, self.part_size)


class JobFolder:
    """Reads and writes the folder of a job."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.inputs = joined(address, _INPUTS)
        self._attempts = joined(address, _ATTEMPTS)

    def read_plan(self) -> Plan | None:
        """The job that is in the folder; None if there is none. Refuses a folder with other files."""
        found = names_in(self.address)
        if _JOB not in found:
            foreign = [name for name in found if not name.startswith((".", "_"))]
            if foreign:
                raise CallError(f"{self.address}: not empty, and no job of uol score ({foreign[0]}); choose another")
            return None
        try:
            stored = json.loads(fetch(joined(self.address, _JOB)))
            files = [TableFile(**file) for file in stored["files"]]
            return Plan(stored["asked"], files, Columns(**stored["columns"]), int(stored["part_size"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UolError(f"{joined(self.address, _JOB)}: damaged; use --replace to begin again ({error})") from error

    def write_plan(self, plan: Plan) -> None:
        """Keep the job: from now on it can be resumed."""
        stored = plan._asdict() | {"files": [file._asdict() for file in plan.files], "columns": plan.columns._asdict()}
        write_whole(joined(self.address, _JOB), json.dumps(plain(stored)).encode())

    def clear(self) -> None:
        """Delete an earlier job, its description first: what is left of a job half deleted is no job."""
        found = names_in(self.address)
        delete(joined(self.address, name) for name in sorted(found) if name == _JOB)
        delete(joined(self.address, name) for name in found if _PART.fullmatch(name))
        for folder in (self.inputs, self._attempts):
            delete(joined(folder, name) for name in names_in(folder))

    def finished(self) -> dict[int, Counts]:
        """The parts that are there, with what each came to; a damaged one is not."""
        numbers = {int(match[1]): name for name in names_in(self.address) if (match := _PART.fullmatch(name))}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            counts = pool.map(lambda name: _read_counts(joined(self.address, name)), numbers.values())
            return {number: found for number, found in zip(numbers, counts, strict=True) if found is not None}

    def begin_part(self, part: Part) -> int:
        """Note that a part was begun; how often it was before without being finished."""
        before = self._attempts_at(part)
        write_whole(joined(self._attempts, f"{part.name}-{secrets.token_hex(4)}"), b"begun")
        return len(before)

    def write_part(self, part: Part, rows: Iterable[Mapping[str, Any]], counts: Counts) -> None:
        """Write the rows of a part in one step."""
        write_whole(joined(self.address, part.name), _as_parquet(list(rows), counts))
        delete(joined(self._attempts, name) for name in self._attempts_at(part))

    def _attempts_at(self, part: Part) -> list[str]:
        return [name for name in names_in(self._attempts) if name.startswith(part.name)]


def _schema() -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    numbers = ("face_left", "face_top", "face_width", "face_height", "confidence")
    return pa.schema([
        ("key", pa.string()), ("face", pa.int32()), *((name, pa.float64()) for name in numbers),
        ("problems", pa.string()), *((name, pa.float64()) for name in ("value", "low", "high", "dispersion")),
        ("panel", pa.string()), ("error", pa.string()), ("error_kind", pa.string()),
    ])  # fmt: skip


def _as_parquet(rows: list[Mapping[str, Any]], counts: Counts) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    schema = _schema().with_metadata({_COUNTS: json.dumps(counts._asdict()).encode()})
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema), buffer, compression="zstd")
    return buffer.getvalue()


def _read_counts(address: str) -> Counts | None:
    from pyarrow import parquet

    system, path = locate(address)
    try:
        with system.open(path, "rb") as file:
            return Counts(**json.loads(parquet.read_schema(file).metadata[_COUNTS]))
    except (OSError, ValueError, TypeError, KeyError):  # pyarrow's errors are ValueErrors and OSErrors
        return None
