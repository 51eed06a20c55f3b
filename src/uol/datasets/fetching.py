"""Fetch a data set whose owners offer a public repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from uol.errors import CallError, UolError
from uol.storage.files import replacing_folder

REPOSITORIES = {"mebeauty": "https://github.com/fbplab/MEBeauty-database"}


def fetch(name: str, out: Path) -> None:
    """Clone a data set's repository into a new folder, with everything in it or not at all."""
    if name not in REPOSITORIES:
        raise CallError(f"{name} cannot be fetched: ask its owners (`uol data list` says what to get)")
    if out.exists():
        raise CallError(f"{out} exists; give a new folder")
    if shutil.which("git") is None:
        raise UolError("git is not installed; install it, or download the repository by hand")
    source = REPOSITORIES[name]
    with replacing_folder(out) as temporary:
        clone = ["git", "clone", "--quiet", "--depth", "1", source, str(temporary / "clone")]
        quiet = os.environ | {"GIT_TERMINAL_PROMPT": "0"}  # a question nobody can answer would hang a script
        result = subprocess.run(clone, capture_output=True, text=True, env=quiet, check=False)
        if result.returncode != 0:
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UolError(f"{source} could not be cloned ({reason}); are you online?")
        for item in (temporary / "clone").iterdir():
            item.rename(temporary / item.name)
        (temporary / "clone").rmdir()
