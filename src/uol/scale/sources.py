"""What is to be scored: folders, lists, patterns and addresses of images, or Parquet files with images in their rows.

Whatever the source, a worker reads its images from Parquet: a table that the user has, or the list of files that the
job keeps (`_inputs`). Images that a source has got since are added to its end. A part of the job is a run of row groups
in one of these files.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from uol.errors import CallError, UolError, counted
from uol.images.paths import Report, expand_paths, iterate_images
from uol.images.read import SUFFIXES
from uol.scale.addresses import fetch, is_address, joined, locate, reason_of, walk, write_whole

LIST_SUFFIXES = (".txt", ".lst")
PARQUET = ".parquet"
KEY, ADDRESS = "key", "address"  # the columns of a job's list

_KEYS = ("key", "id", "image_id", "name", "filename", "path")
_CONTENTS = ("bytes", "image", "content", "data", "jpg", "jpeg", "png")
_ADDRESSES = ("address", "url", "uri", "path", "image", "file", "filename", "image_url", "image_path")
_GROUPS_IN_A_LIST = 64  # row groups, of one part each, in one file of a job's list
_AT_ONCE = 16  # footers read at the same time


class Columns(NamedTuple):
    """Where a Parquet file has keys and images: `content` holds the bytes of files, `address` where they are.

    Without a key the name of the file and the number of the row serve. `content` may be a struct with fields bytes and
    path, as Hugging Face's data sets have it.
    """

    key: str | None
    content: str | None
    address: str | None

    def names(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys(name for name in self if name is not None))


class TableFile(NamedTuple):
    """A Parquet file: its size, and the rows of each of its row groups."""

    address: str
    size: int
    groups: list[int]


class Part(NamedTuple):
    """A run of row groups of one file: the smallest piece of work that is done, repeated or skipped as a whole."""

    number: int
    address: str
    groups: list[int]
    first_row: int
    images: int

    @property
    def name(self) -> str:
        """The name of the file that its rows go to."""
        return f"part-{self.number:07d}.parquet"


Pairs: TypeAlias = Iterator[tuple[str, str]]


def is_table(names: Sequence[str]) -> bool:
    """Whether the source is Parquet: all its names are, or folders with nothing else to score."""
    tables = [name.lower().endswith(PARQUET) or _has_tables(name) for name in names if name != "-"]
    if any(tables) and not (all(tables) and len(tables) == len(names)):
        raise CallError("Parquet files and images cannot be scored by one command; use one for each")
    return any(tables)


def _has_tables(name: str) -> bool:
    """Whether a folder on disk, or one at an address, has Parquet files directly in it."""
    if not is_address(name):
        if not Path(name).is_dir() or not any(Path(name).glob(f"*{PARQUET}")):
            return False
        image = next((file for file in Path(name).iterdir() if file.suffix.lower() in SUFFIXES), None)
        if image is not None:
            raise CallError(f"{name}: has Parquet files and images ({image.name}); name the files, or another folder")
        return True
    if name.lower().endswith(tuple(SUFFIXES) + LIST_SUFFIXES) or name.startswith("http"):
        return False
    system, path = locate(name)
    try:
        return any(str(one).endswith(PARQUET) for one in system.ls(path, detail=False))
    except (FileNotFoundError, NotADirectoryError):
        return False


# -------------------------------------------------------------------- images


def image_pairs(
    names: Sequence[str], listed: Iterable[str], report: Report, known: Container[bytes] = frozenset()
) -> Pairs:
    """The key and the address of each image, each address once, without those whose marks are known.

    The key of a file is its name as it was given. One folder has no name twice: there is nothing to remember of it.
    """
    unique = len(names) == 1 and not (names[0] == "-" or names[0].lower().endswith(LIST_SUFFIXES))
    seen, repeated = set[bytes](), 0
    for key in chain.from_iterable(_keys(name, listed, len(names) > 1, report) for name in names):
        address = key if is_address(key) else str(Path(key).absolute())
        mark = b"" if unique and not known else mark_of(address)
        if mark in seen:
            repeated += 1
            continue
        if not unique:
            seen.add(mark)
        if mark not in known:
            yield key, address
    if repeated:
        report(f"{counted(repeated, 'repeated name')} passed over: each image is scored once")


def mark_of(address: str) -> bytes:
    """Sixteen bytes that stand for an address: most are longer."""
    return hashlib.blake2b(text(address).encode(), digest_size=16).digest()


def marks_in(files: Sequence[TableFile]) -> set[bytes]:
    """The marks of all addresses in the files of a job's list."""
    from pyarrow import parquet  # type: ignore[import-untyped]

    found: set[bytes] = set()
    for file in files:
        with io.BytesIO(fetch(file.address)) as content:
            for batch in parquet.ParquetFile(content).iter_batches(columns=[ADDRESS]):
                found.update(map(mark_of, batch.column(ADDRESS).to_pylist()))
    return found


def _keys(name: str, listed: Iterable[str], several: bool, report: Report) -> Iterator[str]:
    if name == "-":
        return _lines(listed)
    if name.lower().endswith(LIST_SUFFIXES):
        return _lines(_read_list(name))
    if not is_address(name) and Path(name).is_dir():
        return map(str, iterate_images(name, report))
    if not is_address(name):
        return map(str, expand_paths(["-"], [name], report) if several else expand_paths([name], (), report))
    if name.lower().endswith(tuple(SUFFIXES)):
        return iter([name])
    if name.startswith("http"):
        raise CallError(f"{name}: HTTP has no folders; give a list of addresses (.txt), or Parquet with them")
    return (address for address in walk(name) if address.lower().endswith(tuple(SUFFIXES)))


def _lines(lines: Iterable[str]) -> Iterator[str]:
    cleaned = (line.rstrip("\r\n").removeprefix("\ufeff").strip() for line in lines)
    return (line for line in cleaned if line)


def _read_list(name: str) -> Iterator[str]:
    try:
        return io.TextIOWrapper(io.BytesIO(fetch(name)), "utf-8", "surrogateescape", newline="\n")
    except FileNotFoundError:
        raise CallError(f"{name}: no such list of images") from None
    except Exception as error:
        raise UolError(f"{name}: the list cannot be read ({reason_of(error)})") from error


def write_list(pairs: Pairs, folder: str, part_size: int, before: int = 0) -> list[TableFile]:
    """Keep keys and addresses as Parquet with one row group for each part; memory holds one file of them.

    `before` files are there already.
    """
    import pyarrow as pa
    from pyarrow import parquet

    files: list[TableFile] = []
    while chosen := list(islice(pairs, part_size * _GROUPS_IN_A_LIST)):
        columns = {KEY: [text(key) for key, _ in chosen], ADDRESS: [text(address) for _, address in chosen]}
        buffer = io.BytesIO()
        parquet.write_table(pa.table(columns), buffer, row_group_size=part_size)
        address = joined(folder, f"list-{before + len(files):06d}{PARQUET}")
        write_whole(address, buffer.getvalue())
        whole, rest = divmod(len(chosen), part_size)
        files.append(TableFile(address, buffer.tell(), [part_size] * whole + [rest] * (rest > 0)))
    return files


def text(name: str) -> str:
    """A name that Parquet can hold: bytes that are no text, as file names may have them, become question marks."""
    return name.encode("utf-8", "replace").decode()


# -------------------------------------------------------------------- tables


def table_files(
    names: Sequence[str], asked: Mapping[str, str], columns: Columns | None = None
) -> tuple[list[TableFile], Columns]:
    """The Parquet files of a source with the rows of their row groups, in the order of their names, and their columns.

    The columns, unless they are given, are chosen in the first file; all files must have them.
    """
    from pyarrow import parquet

    def inspect(address: str) -> tuple[TableFile, dict[str, bool]]:
        system, path = locate(address)
        try:
            with system.open(path, "rb") as file:
                content = parquet.ParquetFile(file)
                footer = content.metadata
                rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
                return TableFile(address, int(system.size(path) or 0), rows), _columns_of(content.schema_arrow)
        except FileNotFoundError:
            raise CallError(f"{address}: no such file") from None
        except Exception as error:
            raise UolError(f"{address}: no readable Parquet file ({reason_of(error)})") from error

    files: list[TableFile] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for file, there in pool.map(inspect, chain.from_iterable(map(_tables, names))):
            columns = columns or choose_columns(file.address, there, asked)
            for name in columns.names():
                wrong = "no column" if name not in there else "another type of column"
                if there.get(name) != (name == columns.content):
                    raise CallError(
                        f"{file.address}: {wrong} {name}, which other files of this job have; score it by another"
                    )
            files.append(file)
    assert columns is not None  # a source without files was refused
    return files, columns


def _columns_of(schema: Any) -> dict[str, bool]:
    """The columns of a table, and whether each holds the bytes of images."""
    import pyarrow as pa

    def holds_bytes(kind: Any) -> bool:
        if pa.types.is_struct(kind):
            return bool(kind.get_field_index("bytes") >= 0)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    return {field.name: holds_bytes(field.type) for field in schema}


def _tables(name: str) -> list[str]:
    system, path = locate(name)
    if name.lower().endswith(PARQUET) and not Path(name).is_dir():
        if not any(mark in name for mark in "*?["):
            return [name if is_address(name) else path]
        found = sorted(str(one) for one in system.glob(path))
    else:
        found = sorted(str(one) for one in system.ls(path, detail=False) if str(one).endswith(PARQUET))
    if not found:
        raise CallError(f"{name}: no Parquet files match")
    return [f"{name.partition('://')[0]}://{one}" if is_address(name) else one for one in found]


def choose_columns(address: str, there: Mapping[str, bool], asked: Mapping[str, str]) -> Columns:
    """The columns that hold keys and images: those asked for (key=…, image=…), or those with the usual names.

    `there` are the columns, and whether each holds the bytes of images.
    """
    for name in asked.values():
        if name not in there:
            raise CallError(f"{address}: no column {name}; there are {', '.join(there)}")
    unknown = set(asked) - {"key", "image"}
    if unknown:
        raise CallError(f"--read {min(unknown)}=…: of Parquet files key=COLUMN and image=COLUMN can be chosen")

    given = asked.get("image")
    contents = [name for name in ([given] if given else _CONTENTS) if there.get(name)]
    addresses = [name for name in ([given] if given else _ADDRESSES) if there.get(name) is False]
    if not contents and not addresses:
        names = ", ".join(there)
        raise CallError(f"{address}: which column has the images? use --read image=COLUMN; there are {names}")
    place = None if contents else addresses[0]
    key = asked.get("key") or next((name for name in _KEYS if there.get(name) is False), place)
    return Columns(key, contents[0] if contents else None, place)


def parts_of(files: Sequence[TableFile], part_size: int) -> list[Part]:
    """Row groups of each file, in order, taken together until they have `part_size` rows."""
    parts: list[Part] = []
    for file in files:
        groups: list[int] = []
        row = rows = 0
        for number, count in enumerate(file.groups):
            groups.append(number)
            rows += count
            if rows >= part_size or number == len(file.groups) - 1:
                if rows:
                    parts.append(Part(len(parts), file.address, groups, row, rows))
                row, rows, groups = row + rows, 0, []
    return parts
