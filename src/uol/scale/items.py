"""The images of a part, read from Parquet row by row: their content, or the address of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from uol.errors import UolError
from uol.scale.addresses import is_address, locate
from uol.scale.sources import Columns, Part, text

_ROWS_AT_ONCE = 64  # rows with the content of images that are in memory before they are decoded


class Item(NamedTuple):
    """One image: its key, and its content or the address of it; with neither, the row had none."""

    key: str
    content: bytes | None = None
    address: str | None = None

    @property
    def on_disk(self) -> bool:
        """Whether it is a file on disk."""
        return self.address is not None and not is_address(self.address)


def read_items(part: Part, columns: Columns) -> Iterator[Item]:
    """The images of a part, in order."""
    from pyarrow import parquet  # type: ignore[import-untyped]

    system, path = locate(part.address)
    name, row = part.address.rsplit("/", 1)[-1], part.first_row
    try:
        with system.open(path, "rb") as file:
            table = parquet.ParquetFile(file)
            for batch in table.iter_batches(_ROWS_AT_ONCE, row_groups=part.groups, columns=columns.names()):
                found = {column: batch.column(column) for column in columns.names()}
                for at in range(batch.num_rows):
                    values = {column: array[at].as_py() for column, array in found.items()}
                    yield _item(values, columns, f"{name}:{row}")
                    row += 1
    except (OSError, ValueError) as error:  # pyarrow's errors are of these classes
        raise UolError(f"{part.address}: cannot be read ({type(error).__name__}: {error})") from error


def _item(values: dict[str, Any], columns: Columns, number: str) -> Item:
    content = values.get(columns.content) if columns.content else None
    address = values.get(columns.address) if columns.address else None
    key = values.get(columns.key) if columns.key else None
    if isinstance(content, dict):  # as Hugging Face's data sets have it
        path = content.get("path")
        key, content = path if key is None else key, content.get("bytes")
        address = path if content is None else None
    return Item(number if key is None else text(str(key)), content, None if address is None else str(address))
