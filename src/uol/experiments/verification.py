"""What a verification compared, and what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from uol.runs.bootstrap import DIGITS

TOLERANCE = 1e-6
LAST_DIGIT = 1.0001 * 10**-DIGITS  # of replicates, which are rounded: other processors or threads may round otherwise


@dataclass
class Verification:
    """What was compared: numbers, tables of predictions, results with and without them.

    `gap` is the largest difference; `problems` are differences above the tolerance. Replicates may differ by
    `rounding`, which counts as no difference.
    """

    numbers: int = 0
    tables: int = 0
    gap: float = 0.0
    tolerance: float = TOLERANCE
    rounding: float = LAST_DIGIT
    verified: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    checked_with: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def compare(self, where: str, stored: Any, again: Any, what: str = "") -> None:
        """Compare numbers, or lists and mappings of them, and note those that differ by more than the tolerance."""
        if isinstance(stored, Mapping) and isinstance(again, Mapping):
            for key in [*stored, *(key for key in again if key not in stored)]:
                self.compare(where, stored.get(key), again.get(key), f"{what}.{key}".strip("."))
        elif _numbers(stored) and _numbers(again) and len(stored) == len(again):
            gap = max((abs(a - b) for a, b in zip(stored, again, strict=True)), default=0.0)
            same = "replicates" in what.split(".") and gap <= self.rounding
            self._note(where, what, len(stored), 0.0 if same else gap, f"by up to {gap:.2g}")
        elif isinstance(stored, int | float) and isinstance(again, int | float):
            self._note(where, what, 1, abs(stored - again), f"{stored:.8g} is stored, {again:.8g} computed")
        elif stored != again:
            self.problems.append(f"{where}: {what}: {_brief(stored)} is stored, {_brief(again)} computed")

    def summary(self) -> list[str]:
        """What was verified, how exactly, and what was not, in lines for people."""
        lines = [
            f"verified: {len(self.verified)} results by {self.tables} tables of predictions, {self.numbers} numbers",
            f"largest difference: {self.gap:.1e}, of at most {self.tolerance:.0e}",
        ]
        rows = Counter(map(_row_name, self.partly)).items()
        lines += [f"in part, since some predictions are not kept: {row} ({count})" for row, count in rows]
        lines += [f"tables of {document} are those of the results" for document in self.documents]
        checked = f"checked with {', '.join(self.checked_with)}" if self.checked_with else "not checked without --data"
        lines.append(f"scores, groups and dispersion PC: {checked}")
        if self.without:
            lines.append(f"{len(self.without)} results have no predictions and were not verified:")
            lines += [f"  {row} ({count})" for row, count in Counter(map(_row_name, self.without)).items()]
        return lines + [f"DIFFERENT {problem}" for problem in self.problems]

    def _note(self, where: str, what: str, count: int, gap: float, words: str) -> None:
        self.numbers += count
        self.gap = max(self.gap, gap)
        if not gap <= self.tolerance:
            self.problems.append(f"{where}: {what}: {words}")


def agree(stored: BaseModel, again: BaseModel) -> bool:
    """Whether two results have the same figures, to the last digit."""
    done = Verification(rounding=0.0)
    done.compare("", stored.model_dump(exclude={"provenance"}), again.model_dump(exclude={"provenance"}))
    return not done.problems


def _numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, int | float) for item in value)


def _brief(value: Any) -> str:
    many = isinstance(value, Sequence | Mapping) and not isinstance(value, str)
    return f"{len(value)} numbers" if many else str(value)


def _row_name(name: str) -> str:
    """A result's row: its name without split, seed and number of networks."""
    return re.sub(r"-fold-\d+-seed-\d+(-ensemble-\d+)?$", "", name)
