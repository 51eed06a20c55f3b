"""Which results may stand together: repeatable, each once, and of one setting where they make one row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uol.errors import UolError
from uol.order.config import LEGACY
from uol.runs.result import Identity, Provenance, Result, read_result, result_files
from uol.training.recipe import with_defaults

OWN_TO_A_RUN = {"seed", "held_out_seed", "init"}  # settings that may differ among the results of one row


def read_results(folder: Path) -> list[Result]:
    """Read all results of an experiment's folder, in the order of their names, and check that they go together."""
    found = {path: read_result(path) for path in result_files(folder)}
    for path, result in found.items():
        if result.experiment != folder.name:
            raise UolError(f"{path}: a result of {result.experiment}, in the folder of {folder.name}")
    check_together(found)
    return list(found.values())


def check_together(found: Mapping[Path, Result]) -> None:
    """Refuse results that cannot be repeated, that are there twice, or whose mean would mix different settings."""
    seen: dict[Identity, Path] = {}
    rows: dict[tuple[str, str, str, int], tuple[Path, Result]] = {}
    for path, result in found.items():
        check_repeatable(path, result.provenance)
        if (twin := seen.setdefault(result.identity, path)) != path:
            raise UolError(f"{path}: the same method, recipe, split, seed and ensemble as {twin.name}")
        row = (result.trained_on, result.method, result.recipe, result.ensemble)
        first_path, first = rows.setdefault(row, (path, result))
        if (difference := _difference(first, result)) is not None:
            raise UolError(f"{path}: {difference} in {first_path.name}: one row cannot hold both; name another recipe")


def check_repeatable(path: Path, made: Provenance) -> None:
    """Refuse a result whose code nobody can look up."""
    if made.commit is None:
        raise UolError(f"{path}: provenance.commit: nobody knows which code this was; train from a git checkout")
    if made.modified:
        raise UolError(f"{path}: provenance.modified: the code had uncommitted changes; commit, then train again")
    for number, member in enumerate(made.members or [], 1):
        if member.commit is None or member.modified:
            why = "nobody knows which code trained it" if member.commit is None else "its code had uncommitted changes"
            raise UolError(f"{path}: provenance.members: {why}: number {number} ({member.recipe}, seed {member.seed})")


def other_setting(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The first setting in which networks of one row differ; one that came later counts as its default."""
    one, other = with_defaults(one), with_defaults(other)
    deleted = LEGACY.keys() & (one.keys() | other.keys())  # with a value that changed the training
    for key in sorted(((one.keys() & other.keys()) | deleted) - OWN_TO_A_RUN):
        if one.get(key) != other.get(key):
            return f"{key} is {other.get(key)!r}, but {one.get(key)!r}"
    return None


def _difference(first: Result, second: Result) -> str | None:
    """How two results of one row differ in what must be the same, or None."""
    one, other = first.provenance.settings, second.provenance.settings
    members = zip(first.provenance.members or [], second.provenance.members or [], strict=False)
    for here, there in [(one, other), *((member.settings, twin.settings) for member, twin in members)]:
        if (found := other_setting(here, there)) is not None:
            return found
    data, others = first.provenance.data, second.provenance.data
    for what in ("fingerprint", "scale"):
        if getattr(data, what) != getattr(others, what):
            return f"the data set's {what} is {getattr(others, what)}, but {getattr(data, what)}"
    joined = [[(p.name, p.fingerprint) for p in r.provenance.panels or ()] for r in (first, second)]
    if joined[0] != joined[1]:
        return "the panels that trained together differ from those"
    weights = [None if s.get("init") is None else Path(str(s["init"])).name for s in (one, other)]
    if weights[0] != weights[1]:
        return f"init is {weights[1]!r}, but {weights[0]!r}"
    for name in sorted(first.transfer.keys() & second.transfer.keys()):
        for what in ("images", "split", "framing", "fingerprint"):
            values = [getattr(result.transfer[name], what) for result in (first, second)]
            if values[0] != values[1] and not (what == "fingerprint" and None in values):
                return f"transfer.{name}.{what} is {values[1]}, but {values[0]}"
    if first.makeup is not None and second.makeup is not None:
        for what in ("takes", "answer", "framing"):
            values = [getattr(makeup, what) for makeup in (first.makeup, second.makeup)]
            if values[0] != values[1]:
                return f"makeup.{what} is {values[1]}, but {values[0]}"
    return None
