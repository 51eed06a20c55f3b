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

import uol
from uol.errors import CallError, UolError


class Commit(NamedTuple):
    """The commit of this code (None outside a git checkout) and whether files have changed since.

    `from_environment`: the environment variable UOL_COMMIT states it, which is not verified.
    """

    id: str | None
    modified: bool
    from_environment: bool = False


def command() -> str:
    """The command that is running, as it would be typed."""
    return shlex.join(["uol", *sys.argv[1:]])


def of_code(code: Commit) -> dict[str, str | bool | None]:
    """The code and the command that produce a result, as stored with it."""
    return {
        "command": command(),
        "commit": code.id,
        "modified": code.modified,
        "told": code.from_environment,
        "uol": uol.__version__,
    }


def checked_out(what: str) -> str:
    """The commit of this code; refuses code that nobody could check out to repeat `what`."""
    code = commit()
    if code.id is None or code.modified:
        raise UolError(f"the code is not a git checkout or has uncommitted changes: nobody could repeat this {what}")
    return code.id


def check_reproducible() -> None:
    """Refuse to produce results, before hours of training, with code that nobody could check out."""
    code = commit()
    if code.id is None or code.modified:
        why = "is not a git checkout" if code.id is None else "has uncommitted changes"
        raise CallError(f"--add: the code {why}, and the results could not be repeated; commit, or leave out --add")


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> Commit:
    """The commit of the checkout that this package runs from; files that git does not track are ignored.

    On a machine without the repository, set the environment variable UOL_COMMIT to the commit of the code.
    """
    if named := os.environ.get("UOL_COMMIT"):
        if not re.fullmatch(r"[0-9a-f]{40}", named):
            raise CallError(f"UOL_COMMIT={named}: not a commit, which has 40 hexadecimal digits")
        return Commit(named, False, from_environment=True)
    folder = Path(__file__).resolve().parent
    identity = _git(folder, "rev-parse", "HEAD")
    if identity is None or _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return Commit(None, False)  # an installed copy, even if its folder lies inside another checkout
    return Commit(identity, bool(_git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/")))


def hardware() -> dict[str, str | None]:
    """Processor, GPU, Python and torch of this machine."""
    import torch  # here alone: tables read provenance without it

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
