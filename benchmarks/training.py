"""What each measure of the training engine gains: seconds per epoch, and the share of what the machine can multiply.

Random pixels in place of photographs: the time does not depend on what they show. On a GPU this is VGG16 at full size,
on a processor a small network, to see that the path works.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from uol import methods
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.training.batches import fixed_batches
from uol.training.loop import train
from uol.training.packed import PackedImages
from uol.training.recipe import Recipe, load_recipe

GPU = torch.cuda.is_available()
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "float32 (TF32), eager": ("paper-calibrated", {"precision": "32-true", "engine": "eager"}),
    "bfloat16, eager": ("paper-calibrated", {"engine": "eager"}),
    "+ CUDA graph": ("paper-calibrated", {"engine": "graph"}),
    "+ compiled": ("paper-calibrated", {"engine": "compiled"}),
    "+ compiled, first four convolutions frozen": ("paper-calibrated", {"engine": "compiled", "frozen": 4}),
    "strong, eager": ("strong", {"engine": "eager"}),
    "strong, compiled": ("strong", {"engine": "compiled"}),
}


def packed(count: int, size: int, crop: int) -> PackedImages:
    """Random images with scores spread like SCUT-FBP5500's."""
    rng = np.random.default_rng(0)
    ratings = np.clip(np.round(rng.normal(rng.normal(3, 0.7, (count, 1)), 0.65, (count, 60))), 1, 5)
    histograms = np.stack([(ratings == level).sum(1) for level in range(1, 6)], -1).astype(np.float64)
    rated = RatedImages(
        "random", np.zeros((count, 1, 1, 3), np.uint8), [str(i) for i in range(count)], ratings.mean(1), Scale(1, 5),
        ratings.var(1, ddof=1), np.full(count, 60), histograms=histograms, levels=np.arange(1.0, 6.0),
    )  # fmt: skip
    pixels = torch.from_numpy(rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8))
    return PackedImages(rated, pixels, crop)


def ceiling() -> float:
    """Operations per second of a large bfloat16 matrix product on random numbers."""
    n = 8192
    a, b = torch.randn(2, n, n, device="cuda", dtype=torch.bfloat16)
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(30):
        a @ b
    torch.cuda.synchronize()
    return 30 * 2 * n**3 / (time.perf_counter() - began)


def operations(recipe: Recipe, data: PackedImages) -> int:
    """Operations of a step, forward and backward, counted."""
    method = methods.find(recipe.method)(recipe, data.rated.scale, 5).to("cuda")
    batch = fixed_batches(data.subset(np.arange(recipe.batch_size)), recipe, torch.device("cuda"))[0]
    with FlopCounterMode(display=False) as counter:
        method(batch)["total"].backward()
    return int(counter.get_total_flops())


def measure(recipe: Recipe, data: PackedImages) -> tuple[float, float]:
    """Seconds until the first epoch is done, and median seconds of the others."""
    torch.manual_seed(0)
    seconds: list[float] = []
    train(
        methods.find(recipe.method)(recipe, data.rated.scale, 5),
        data,
        recipe,
        report=lambda e: seconds.append(e.seconds),
    )
    return seconds[0], float(np.median(seconds[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="variants whose name contains one of these")
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    rows = []
    top = ceiling() if GPU else float("nan")
    print(f"bfloat16 matrix product: {top / 1e12:.0f} TFLOP/s" if GPU else "no GPU: a small network on the processor")
    for name, (base, changes) in VARIANTS.items():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        recipe = load_recipe(base, changes | {"epochs": arguments.epochs, "validate_every": 0})
        if not GPU:
            recipe = recipe.with_changes({"model.backbone": "test_resnet", "model.resize": 64, "model.crop": 64})
        data = packed(4400 if GPU else 320, recipe.model.resize, recipe.model.crop)
        first, epoch = measure(recipe, data)
        row = {
            "variant": name,
            "first_epoch_s": round(first, 2),
            "epoch_s": round(epoch, 4),
            "100_epochs_s": round(epoch * 100, 1),
        }
        if GPU:
            steps = len(data) // recipe.batch_size
            row["step_ms"] = round(1000 * epoch / steps, 2)
            row["share_of_ceiling"] = round(operations(recipe, data) * steps / epoch / top, 3)
        rows.append(row)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
