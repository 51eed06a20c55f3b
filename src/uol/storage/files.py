"""Writing files so that nothing is ever half-written: to a temporary neighbour first, then renamed."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from uol.errors import UolError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; on success it replaces `path`, on failure it vanishes."""
    target = Path(path)
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        yield Path(temporary)
        os.chmod(temporary, 0o666 & ~_umask())  # only now: writers may put a file of their own there
        os.replace(temporary, target)
    except OSError as error:
        raise UolError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success it takes the place of `path`, on failure it vanishes."""
    target = Path(path).resolve()  # a link stays a link, to what is replaced
    if target.exists() and not target.is_dir():
        raise UolError(f"cannot write folder {target}: a file of that name is in the way")
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        temporary.chmod(0o777 & ~_umask())
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
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")  # names of files may be no text


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON to `path` in one step."""
    write_text(path, json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """A value as JSON can say it: arrays' numbers as Python's, NaN and infinities as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
