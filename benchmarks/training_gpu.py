"""Seconds per epoch of one network on 1, 2, … GPUs of a machine, the batch shared by all or growing with their number.

    python benchmarks/training_gpu.py --devices 1 2 4 8

Random pixels in place of photographs. Each number of devices runs in processes of its own; the first epochs, in which
algorithms are chosen, are left out. One device uses the engine that the recipe chooses, several run step by step:
`--engine eager` compares like with like. Without a GPU, processes train a small network, to see that the path works.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

import torch

from training import packed
from uol import methods
from uol.training import ranks
from uol.training.loop import EpochReport, train
from uol.training.recipe import load_recipe

SMALL = {"model.backbone": "test_byobnet", "model.resize": 32, "model.crop": 32}
_LEFT_OUT = 2  # epochs


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--devices", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--images", type=int, default=4400 if torch.cuda.is_available() else 200)
    arguments.add_argument("--epochs", type=int, default=8)
    arguments.add_argument("--batch", type=int, default=32, help="images of a batch on one device")
    arguments.add_argument("--recipe", default="paper-calibrated")
    arguments.add_argument("--engine", default="auto")
    arguments.add_argument("--alone", type=json.loads, help=argparse.SUPPRESS)
    wanted = arguments.parse_args()
    if wanted.alone is not None:
        devices, batch = wanted.alone
        _measure(devices, batch, wanted)
        return
    for devices in wanted.devices:
        for batch in sorted({wanted.batch, wanted.batch * devices}):
            given = json.dumps([devices, batch])
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--alone", given], check=True)


def _measure(devices: int, batch: int, wanted: argparse.Namespace) -> None:
    """Train for some epochs and print the median of their seconds."""
    on_gpu = torch.cuda.is_available()
    recipe = load_recipe(
        wanted.recipe,
        {"epochs": wanted.epochs, "batch_size": batch, "engine": wanted.engine, "init": None}
        | ({} if on_gpu else SMALL),
    )
    ranks.launch(devices, 1)
    data = packed(wanted.images, recipe.model.resize, recipe.model.crop)
    torch.manual_seed(0)
    seconds: list[float] = []

    def report(epoch: EpochReport) -> None:
        seconds.append(epoch.seconds)

    train(methods.find(recipe.method)(recipe, data.rated.scale, 5), data, recipe, report=report)
    if ranks.is_first():
        median = statistics.median(seconds[_LEFT_OUT:])
        found = {
            "devices": devices, "batch": batch, "seconds_per_epoch": round(median, 3),
            "images_per_second": round(wanted.images / median, 1),
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        }  # fmt: skip
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
