"""Photographs per second from file to score with the default model, and the share of each stage.

python benchmarks/faces.py FOLDER [--photographs 200] [--against CHECKOUT]

With --against, `uol score` of this version and of another checkout of the repository run in turn, in processes of their
own; processor time is the better measure where other work is on the machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from uol.images import faces
from uol.images.framing import fit_square
from uol.images.paths import find_images
from uol.images.read import read_image
from uol.scoring.base import BaseScorer
from uol.scoring.bulk import score_files
from uol.scoring.released import DEFAULT, open_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photographs", type=int, default=200)
    parser.add_argument("--against", type=Path, help="another checkout of the repository")
    given = parser.parse_args()
    paths = find_images(given.folder)[: given.photographs]
    if given.against is not None:
        race([given.against, Path(__file__).parents[1]], paths)
    scorer = open_model(DEFAULT)
    list(score_files(scorer, paths[:4]))

    wall, processor = time.perf_counter(), time.process_time()
    failed = sum(row["value"] is None for _, rows in score_files(scorer, paths) for row in rows)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{len(paths)} photographs, {failed} without a score: {len(paths) / wall:.1f} a second")
    print(f"  {1000 * wall / len(paths):.1f} ms each, {1000 * processor / len(paths):.1f} ms of processor time")

    print("processor time of each stage, one photograph after another:")
    stages = stage_seconds(paths[:50], scorer)
    for name, seconds in stages.items():
        share = seconds / sum(stages.values())
        print(f"  {name:10} {1000 * seconds / len(paths[:50]):6.1f} ms {share:6.1%}")


def race(checkouts: list[Path], paths: list[Path], rounds: int = 3) -> None:
    """Print photographs per second of `uol score`, and the least seconds of several rounds in turn."""
    least: dict[Path, tuple[float, float]] = {}
    for _ in range(rounds):
        for checkout in checkouts:
            least[checkout] = min(least.get(checkout, (np.inf, np.inf)), score_seconds(checkout, paths))
    for checkout, (processor, wall) in least.items():
        print(f"{checkout.resolve().name}: {len(paths) / wall:.1f} a second, {processor:.1f} s of processor time")
    (first, first_wall), (last, last_wall) = (least[checkout] for checkout in checkouts)
    print(f"  {first_wall / last_wall:.2f} times as fast by the clock, {first / last:.2f} by processor time")


def score_seconds(checkout: Path, paths: list[Path]) -> tuple[float, float]:
    """Processor and wall seconds of `uol score` of a checkout, from start to end."""
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve() / "src")}
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import uol.cli; uol.cli.main()", "score", "-"],
        input="\n".join(map(str, paths)), text=True, env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, time.perf_counter() - began


def stage_seconds(paths: list[Path], scorer: BaseScorer) -> dict[str, float]:
    """Processor seconds for each stage of the photographs with a face, one photograph after another."""
    spent: dict[str, float] = defaultdict(float)

    def timed(stage: str, work: Callable[..., Any], *given: Any) -> Any:
        began = time.process_time()
        result = work(*given)
        spent[stage] += time.process_time() - began
        return result

    config = scorer.config
    for path in paths:
        photo = np.asarray(timed("decoding", read_image, path))
        found = timed("first pass", faces._unsettled, photo, faces.BYSTANDER)
        if not found:
            continue
        settled = timed("settling", faces._settle, photo, faces.choose_main(found, photo.shape[1::-1]))
        aligned = timed("aligning", faces._align, photo, settled, 256)
        square = fit_square(Image.fromarray(aligned.image), config.resize, config.crop)
        timed("network", scorer.score_pixels, np.ascontiguousarray(square.transpose(2, 0, 1))[None])
    return spent


if __name__ == "__main__":
    main()
