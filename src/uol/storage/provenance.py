"""Where a result came from: the command, the code's commit, the machine and the time."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import torch

import uol
from uol.errors import CallError


class Commit(NamedTuple):
    """The commit of this code, None where it is not in a git checkout, and whether files were changed since.

    `told` where UOL_COMMIT names it, whose word is taken.
    """

    id: str | None
    modified: bool
    told: bool = False


def command() -> str:
    """The command that is running, as it would be typed."""
    return shlex.join(["uol", *sys.argv[1:]])


def of_code(code: Commit) -> dict[str, str | bool | None]:
    """What to keep of the code and the command that make a result."""
    return {
        "command": command(),
        "commit": code.id,
        "modified": code.modified,
        "told": code.told,
        "uol": uol.__version__,
    }


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> Commit:
    """The commit of the checkout that this package runs from; files that git does not track count as no change.

    Where code is copied to a machine without its repository, the environment variable UOL_COMMIT names its commit.
    """
    if named := os.environ.get("UOL_COMMIT"):
        if not re.fullmatch(r"[0-9a-f]{40}", named):
            raise CallError(f"UOL_COMMIT={named}: not a commit, which has 40 hexadecimal digits")
        return Commit(named, False, told=True)
    folder = Path(__file__).resolve().parent
    identity = _git(folder, "rev-parse", "HEAD")
    if identity is None or _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return Commit(None, False)  # installed elsewhere, even if that lies inside somebody's checkout
    return Commit(identity, bool(_git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/")))


def hardware() -> dict[str, str | None]:
    """What this machine computes with."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
