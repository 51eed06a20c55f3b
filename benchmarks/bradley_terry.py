"""Scores of 10,000 images from comparisons with 340 references: all at once against scipy, image by image."""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import minimize_scalar

from uol.order.bradley_terry import BradleyTerry, default_bounds, estimate, log_likelihood, probabilities


def main() -> None:
    N, R, single = 10_000, 340, 50
    rng = np.random.default_rng(0)
    model = BradleyTerry(6.0, 1.2)
    references, scores = rng.uniform(1, 5, R), rng.uniform(1, 5, N)
    p = probabilities(scores[:, None] - references, model)
    outcomes = (rng.random((N, R, 1)) > p.cumsum(-1)[..., :2]).sum(-1)
    seconds = {}
    for kind, given in {"hard outcomes": outcomes, "probabilities": p}.items():
        start = time.perf_counter()
        values = estimate(given, references, model).value
        seconds[kind] = time.perf_counter() - start
        start = time.perf_counter()
        slow = [
            minimize_scalar(
                lambda s, row=row: -log_likelihood([s], row, references, model)[0],
                bounds=default_bounds(references),
                method="bounded",
                options={"xatol": 1e-9},
            ).x
            for row in given[:single]
        ]
        one_by_one = (time.perf_counter() - start) * N / single
        difference = np.abs(values[:single] - slow).max()
        print(f"Bradley-Terry, {N} images × {R} references, {kind}: {seconds[kind]:.2f} s (target 1 s); ", end="")
        print(f"image by image {one_by_one:.0f} s, ratio {one_by_one / seconds[kind]:.0f}, difference {difference:.0e}")


if __name__ == "__main__":
    main()
