"""What a verification compared, how far six digits may move figures, and what differs more than that."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SURE = 6.0  # standard errors
_SHOWN = {"pc": "PC", "mae": "MAE", "spearman": "Spearman", "replicates.pc": "replicates"}


@dataclass
class Verification:
    """What was compared: numbers, tables of predictions, results with and without them.

    `gaps` and `tolerances` are the largest of each figure; `problems` are differences above their tolerance.
    """

    numbers: int = 0
    tables: int = 0
    verified: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    checked_with: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    gaps: dict[str, float] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)

    def compare(self, where: str, what: str, stored: Any, again: Any, tolerance: float) -> None:
        """Count two numbers, or lists of numbers, and note where they differ by more than the tolerance."""
        if isinstance(stored, Sequence) and not isinstance(stored, str):
            if not isinstance(again, Sequence) or len(stored) != len(again):
                self.problems.append(f"{where}: {what}: {len(stored)} numbers are stored, not as many computed")
                return
            worst = max((abs(a - b) for a, b in zip(stored, again, strict=True)), default=0.0)
            self._note(where, what, len(stored), worst, tolerance, f"by up to {worst:.2g}")
            return
        if stored is None or again is None:
            if not (stored is None and (again is None or np.isnan(again))):
                self.problems.append(f"{where}: {what}: {stored} is stored, {again} computed")
            return
        self._note(where, what, 1, abs(stored - again), tolerance, f"{stored:.8g} is stored, {again:.8g} computed")

    def summary(self) -> list[str]:
        """What was verified, how exactly, and what was not, in lines for people."""
        gaps = [
            f"{words} {self.gaps[key]:.1e} of at most {self.tolerances[key]:.1e}"
            for key, words in _SHOWN.items()
            if key in self.gaps
        ]
        lines = [
            f"verified: {len(self.verified)} results by {self.tables} tables of predictions, {self.numbers} numbers",
            f"largest differences, by six digits per prediction: {', '.join(gaps) or 'none'}",
        ]
        lines += [f"in part, since some predictions are not kept: {name}" for name in self.partly]
        lines += [f"tables of {document} are those of the results" for document in self.documents]
        checked = f"checked with {', '.join(self.checked_with)}" if self.checked_with else "not checked without --data"
        lines.append(f"scores, groups and dispersion PC: {checked}")
        if self.without:
            lines.append(f"{len(self.without)} results have no predictions and were not verified:")
            lines += [f"  {row} ({count})" for row, count in Counter(map(_row_name, self.without)).items()]
        return lines + [f"DIFFERENT {problem}" for problem in self.problems]

    def _note(self, where: str, what: str, count: int, gap: float, tolerance: float, words: str) -> None:
        self.numbers += count
        self.gaps[what] = max(self.gaps.get(what, 0.0), gap)
        self.tolerances[what] = max(self.tolerances.get(what, 0.0), tolerance)
        if not gap <= tolerance:
            self.problems.append(f"{where}: {what}: {words} (tolerance {tolerance:.2g})")


@dataclass(frozen=True)
class Rounding:
    """How far six digits of each score and prediction may move figures.

    Rounding errors are independent and uniform, so that means of N of them have a standard error of h/√(3N), where h is
    half a unit of the last digit; tolerances are six of these.
    """

    score: Floats
    value: Floats

    @property
    def errors(self) -> float:
        """Of MAE and RMSE."""
        return _SURE * self._mean(half_digit(self.score)) + _SURE * self._mean(half_digit(self.value)) + 1e-9

    def width(self, low: Floats, high: Floats) -> float:
        """Of the mean width of intervals."""
        return _SURE * (self._mean(half_digit(low)) + self._mean(half_digit(high))) + 1e-9

    @property
    def correlation(self) -> float:
        """Of PC: the rounding errors as shares of the standard deviations."""
        return correlation_tolerance(self.score, self.value)

    @staticmethod
    def _mean(half: Floats) -> float:
        return float(np.sqrt(np.square(half).sum() / 3)) / len(half)


def correlation_tolerance(one: Floats, two: Floats) -> float:
    """How far six digits of both sides may move their correlation."""
    if min(np.std(one), np.std(two)) == 0:
        return 0.0
    shares = [float(np.sqrt(np.square(half_digit(x)).mean() / 3) / np.std(x)) for x in (one, two)]
    return _SURE * sum(shares) / math.sqrt(len(one)) + 1e-9


def _row_name(name: str) -> str:
    """A result's row: its name without split, seed and number of networks."""
    return re.sub(r"-fold-\d+-seed-\d+(-ensemble-\d+)?$", "", name)


def half_digit(values: Floats) -> Floats:
    """Half a unit of the sixth significant digit."""
    size = np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size > 0, 0.5 * 10.0 ** (np.floor(np.log10(size)) - 5), 0.0)
