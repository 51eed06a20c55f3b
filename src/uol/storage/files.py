"""Write files and folders whole or not at all: under a temporary name first, then renamed."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from uol.errors import CallError, UolError, install

_BEGINNING = 4096  # bytes


def check_output(path: Path, suffixes: Sequence[str], inputs: Iterable[Path] = ()) -> None:
    """Refuse a file to write that is an input or a folder, or whose ending names none of its formats.

    An input that is a folder is a data set: no file that exists in it is overwritten.
    """
    target = path.resolve()
    for source in inputs:
        own = source.resolve()
        if target == own or (path.exists() and own in target.parents and own.is_dir()):
            raise CallError(f"{path}: would overwrite what this command reads; choose another name")
    if path.suffix.lower() not in suffixes:
        raise CallError(f"{path}: the name must end in {_one_of(suffixes)}, which names the format")
    if path.is_dir():
        raise CallError(f"{path}: a folder is there; name a file")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise UolError(f"{path}: Parquet needs pyarrow; install it with: {install('data')}")


def check_replaced(path: Path, mark: bytes) -> None:
    """Refuse to replace a file without the mark near its beginning that those of `uol` have."""
    if path.is_file() and path.stat().st_size:
        with open(path, "rb") as file:
            if mark not in file.read(_BEGINNING):
                raise CallError(f"{path}: exists, and was not written by uol; choose another name")


def _one_of(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; it replaces `path` on success and is deleted on failure."""
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.exists()  # a name that is too long fails before the work
        name = _temporary_name(target)
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # the system applies the umask
        temporary, mode = name, stat.S_IMODE(name.stat().st_mode)
        yield temporary
        temporary.chmod(mode)  # a writer may have put a file of another mode there
        os.replace(temporary, target)
    except OSError as error:
        raise UolError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder next to `path`; it replaces `path` on success and is deleted on failure."""
    target = Path(path).resolve()  # a link stays a link; the folder that it points to is replaced
    temporary: Path | None = None
    try:
        if target.exists() and not target.is_dir():
            raise UolError(f"cannot write folder {target}: a file has that name; move it or choose another name")
        target.parent.mkdir(parents=True, exist_ok=True)
        name = _temporary_name(target)
        name.mkdir()
        temporary = name
        yield temporary
        if target.exists():
            old = temporary.with_name(temporary.name + ".old")
            target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            temporary.rename(target)
    except OSError as error:
        raise UolError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")  # file names need not be valid text


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON to `path` in one step."""
    write_text(path, json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def why_unread(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file was not read, in a few words without its name."""
    return "not a text file in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: numpy's numbers as Python's, NaN and infinities as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _temporary_name(target: Path) -> Path:
    return target.parent / f".{target.name[:20]}.{secrets.token_hex(4)}"  # short: the target's may be the longest
