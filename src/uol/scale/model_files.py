"""A model folder that travels to machines which do not have it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from uol.errors import UolError
from uol.storage.files import replacing_folder


def pack_model(folder: Path) -> dict[str, bytes]:
    """The files of a model folder by their names in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def unpack_model(files: Mapping[str, bytes]) -> str:
    """A folder with these files, one for all workers of this user on this machine; later jobs find it there."""
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name} {len(content)} ".encode() + content)
    mine = Path(tempfile.gettempdir()) / f"uol-models-{os.getuid()}"
    mine.mkdir(mode=0o700, exist_ok=True)
    if mine.stat().st_uid != os.getuid():
        raise UolError(f"{mine}: belongs to another user; set TMPDIR to another folder")
    folder = mine / digest.hexdigest()
    if not folder.is_dir():
        with replacing_folder(folder) as temporary:
            for name, content in files.items():
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                (temporary / name).write_bytes(content)
    return str(folder)
