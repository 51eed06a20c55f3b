"""Files at addresses that fsspec understands (s3://, gs://, https://, …), or on disk: listed, read, written whole."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from uol.errors import CallError, UolError
from uol.storage.files import replacing

_PATIENCE = (0.2, 1.0)  # seconds before each further attempt to fetch a file
_NOT_WORTH_RETRYING = (FileNotFoundError, PermissionError, IsADirectoryError, NotImplementedError, ValueError)


def is_address(name: str) -> bool:
    """Whether a name has a scheme, such as s3://, and is no path on disk."""
    return "://" in name


@lru_cache(maxsize=32)
def _file_system(scheme: str) -> Any:
    import fsspec

    try:
        return fsspec.filesystem(scheme)
    except (ImportError, ValueError) as error:
        raise CallError(f"{scheme}://: {error}") from error


def locate(address: str) -> tuple[Any, str]:
    """The file system of an address or path, and its name there."""
    if not is_address(address):
        return _file_system("file"), str(Path(address).absolute())
    system = _file_system(address.partition("://")[0])
    return system, str(system._strip_protocol(address)).rstrip("/")


def joined(folder: str, name: str) -> str:
    """The address of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def fetch(address: str) -> bytes:
    """The content of a file; attempts that fail for a passing reason are repeated."""
    system, path = locate(address)
    for pause in _PATIENCE:
        try:
            return bytes(system.cat_file(path))
        except _NOT_WORTH_RETRYING:
            raise
        except Exception:  # a server that is busy, a connection that broke: each library has its classes
            time.sleep(pause)
    return bytes(system.cat_file(path))


def write_whole(address: str, content: bytes) -> None:
    """Write a file in one step: nobody sees a part of it, whatever happens meanwhile."""
    system, path = locate(address)
    if is_address(address):
        try:
            system.pipe_file(path, content)  # one request, which a store of objects finishes or forgets
        except Exception as error:
            raise UolError(f"cannot write {address}: {reason_of(error)}") from error
        return
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def names_in(folder: str) -> dict[str, int]:
    """The names and sizes of the files directly in a folder; none if it does not exist."""
    system, path = locate(folder)
    system.invalidate_cache()
    try:
        found = system.ls(path, detail=True)
    except FileNotFoundError:
        return {}
    except Exception as error:
        raise UolError(f"{folder}: cannot be listed ({reason_of(error)})") from error
    return {one["name"].rsplit("/", 1)[-1]: one["size"] or 0 for one in found if one["type"] == "file"}


def delete(addresses: Iterable[str]) -> None:
    """Delete files that are there."""
    for address in addresses:
        system, path = locate(address)
        try:
            system.rm_file(path)
        except FileNotFoundError:
            continue
        except Exception as error:
            raise UolError(f"cannot delete {address}: {reason_of(error)}") from error


def walk(folder: str) -> Iterator[str]:
    """The addresses of all files below a folder, in the same order every time; hidden ones are passed over.

    One folder is in memory at a time, not all of them.
    """
    system, path = locate(folder)
    scheme = folder.partition("://")[0]
    try:
        for here, _, files in system.walk(path, on_error="raise"):
            if "/." not in here.removeprefix(path):
                yield from (f"{scheme}://{here}/{name}" for name in sorted(files) if not name.startswith("."))
    except FileNotFoundError:
        raise CallError(f"{folder}: no such folder") from None
    except Exception as error:
        raise UolError(f"{folder}: cannot be listed ({reason_of(error)})") from error


def reason_of(error: Exception) -> str:
    """The first line of an error, which of other packages may be long."""
    text = (str(error).splitlines() or [""])[0][:200]
    return text if isinstance(error, UolError) else f"{type(error).__name__}: {text}"
