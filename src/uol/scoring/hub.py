"""Models on the Hugging Face Hub: fetched by an address, hf://owner/name or hf://owner/name@revision, and stored there.

Only what is named by an address goes to the network, and only if huggingface_hub is installed (the extra `hub`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import uol
from uol.errors import CallError, UolError, install
from uol.images.face_cache import default_folder

if TYPE_CHECKING:
    from uol.scoring.base import BaseScorer

HUB = "hf://"
FILES = ["*.json", "*.safetensors", "*.onnx", "README.md"]  # of a model folder, in `panels` and `members` too
_NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"


class Address(NamedTuple):
    """A model on the Hub: owner/name, and a branch, tag or commit (None: the newest)."""

    name: str
    revision: str | None


def parse_address(text: str) -> Address:
    """Read an address.

    >>> parse_address("hf://lab/our-model@v1.0")
    Address(name='lab/our-model', revision='v1.0')
    """
    found = re.fullmatch(rf"(?:{HUB})?({_NAME})(?:@([\w./-]+))?", text)
    if found is None or ".." in text:
        raise CallError(f"{text[:100]}: an address on the Hub is hf://owner/name or hf://owner/name@revision")
    return Address(found[1], found[2])


@cache
def fetch_model(text: str) -> Path:
    """The folder of a model on the Hub, downloaded into the cache folder; files that are there already are kept.

    Without a connection the copy that is there is used.
    """
    address = parse_address(text)
    folder = (
        default_folder() / "hub" / address.name.replace("/", "--") / (address.revision or "newest").replace("/", "-")
    )
    with _errors_in_one_line(text) as hub:
        hub.snapshot_download(address.name, revision=address.revision, local_dir=folder, allow_patterns=FILES, **_BY)
    if not (folder / "config.json").is_file():
        raise UolError(f"{text}: not a model of uol: config.json is missing")
    return folder


def push_model(scorer: BaseScorer, name: str, private: bool, half: bool) -> str:
    """Store a model's folder on the Hub, in a repository that is made if it is missing; its address."""
    address = parse_address(name)
    with TemporaryDirectory() as place, _errors_in_one_line(name) as hub:
        folder = Path(place) / "model"
        scorer.save_pretrained(folder, half=half)
        api = hub.HfApi(**_BY)
        api.create_repo(address.name, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=address.name, folder_path=folder, revision=address.revision, commit_message="Store a model of uol"
        )
    return f"{HUB}{address.name}" + (f"@{address.revision}" if address.revision else "")


_BY: dict[str, Any] = {"library_name": "uol", "library_version": uol.__version__}


@contextmanager
def _errors_in_one_line(name: str) -> Iterator[Any]:
    """The package huggingface_hub, whose errors become ours: one line each."""
    try:
        import huggingface_hub as hub
    except ModuleNotFoundError as error:
        raise UolError(f"{name}: models on the Hugging Face Hub need huggingface_hub: {install('hub')}") from error
    try:
        yield hub
    except UolError:
        raise
    except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError) as error:
        raise CallError(f"{name}: the Hub has no such model or revision, or it is private: hf auth login") from error
    except Exception as error:  # of httpx and of the operating system: their classes differ from version to version
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UolError(f"{name}: the Hub cannot be used ({lines[0][:200]})") from error
