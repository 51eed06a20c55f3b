"""Adaptive against random pairs: votes needed for the same rank correlation and the same width of intervals.

Simulated participants judge pairs of 100 images by Thurstone's Case V, without ties; values are Gaussian. Each sees
50 pairs. Prints, for several spreads of values (in standard deviations of one comparison), how many adaptive votes
reach what so many random votes reach, and how often 95 % intervals of the scale values hold the true value.

    python benchmarks/study_pairs.py [--images 100] [--trials 50] [--votes 3000] [--repetitions 6] [--seed 0]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from uol.order.order import Order
from uol.ratings.metrics import coverage, spearman
from uol.study.pairs import batch, round_robin
from uol.study.scaling import thurstone
from uol.study.simulate import draw_values

Floats = npt.NDArray[np.float64]
SPREADS = (1.0, 1.5, 2.0)
CHECKPOINTS = 12


def simulate(
    spread: float, adaptive: bool, images: int, trials: int, votes: int, seed: int
) -> list[tuple[int, float, float, float]]:
    """Votes, rank correlation, mean width and coverage at twelve moments of one simulated study."""
    rng = np.random.default_rng([seed, int(100 * spread)])
    truth = draw_values(images, spread, rng)
    pairs, outcomes = np.empty((0, 2), np.intp), np.empty(0, np.intp)
    nobody = np.empty((0, 2), np.intp)
    rounds: list[tuple[int, int]] = []
    found: list[tuple[int, float, float, float]] = []
    while len(pairs) < votes:
        if adaptive:
            shown = batch(pairs[:, 0], pairs[:, 1], outcomes, images, nobody, trials, seed)
        else:
            if len(rounds) < trials:
                rounds += round_robin(images, rng)
            shown, rounds = np.array(rounds[:trials], np.intp), rounds[trials:]
        wins = rng.random(len(shown)) < ndtr(truth[shown[:, 0]] - truth[shown[:, 1]])
        pairs = np.concatenate([pairs, shown])
        outcomes = np.concatenate([outcomes, np.where(wins, int(Order.GREATER), int(Order.LESS))])
        if len(pairs) * CHECKPOINTS // votes > len(found):
            fit = thurstone(pairs[:, 0], pairs[:, 1], outcomes, images)
            row = spearman(truth, fit.value), fit.width, coverage(truth, fit.low, fit.high)
            found.append((len(pairs), *row))
    return found


def needed(curve: Floats, target: float) -> float:
    """The number of votes at which a rising curve (votes, value) reaches a target, between its points."""
    return float(np.interp(target, np.maximum.accumulate(curve[:, 1]), curve[:, 0]))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("images", 100), ("trials", 50), ("votes", 3000), ("repetitions", 6), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    print(f"{given.images} images, {given.trials} pairs for each participant, {given.repetitions} repetitions")
    for spread in SPREADS:
        start, means = time.perf_counter(), {}
        for adaptive in (False, True):
            runs = [
                simulate(spread, adaptive, given.images, given.trials, given.votes, given.seed + repetition)
                for repetition in range(given.repetitions)
            ]
            means[adaptive] = np.array(runs).mean(axis=0)
        print(f"\nspread {spread:g} ({time.perf_counter() - start:.0f} s)")
        print("random votes  rank r  width | adaptive votes for this r, for this width | coverage random, adaptive")
        for row, other in list(zip(means[False], means[True], strict=True))[CHECKPOINTS // 3 - 1 :: 2]:
            by_rank = needed(means[True][:, :2], row[1])
            by_width = needed(np.stack([means[True][:, 0], -means[True][:, 2]], 1), -row[2])
            print(
                f"{row[0]:12.0f}  {row[1]:.3f}  {row[2]:.3f} | {by_rank:6.0f} ({by_rank / row[0] - 1:+.0%}) "
                f"{by_width:6.0f} ({by_width / row[0] - 1:+.0%}) | {row[3]:.3f} {other[3]:.3f}",
                flush=True,
            )
        print(f"mean coverage: random {means[False][2:, 3].mean():.3f}, adaptive {means[True][2:, 3].mean():.3f}")


if __name__ == "__main__":
    main()
