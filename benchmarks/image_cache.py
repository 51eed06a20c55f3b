"""An epoch's images from JPEG files against the same from the cache, in one run on generated photographs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from uol.images.cache import cached_images
from uol.images.framing import pack_images


def photographs(folder: Path, number: int, side: int = 350) -> list[Path]:
    """Smooth random colours with some grain, as JPEG files of about a photograph's size."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{k:04}.jpg" for k in range(number)]
    for path in paths:
        coarse = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC), np.float64)
        grain = rng.normal(0, 6, (side, side, 1))
        Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return paths


def main() -> None:
    number, resize = 1000, 256
    with tempfile.TemporaryDirectory() as folder:
        paths = photographs(Path(folder), number)
        start = time.perf_counter()
        decoded = pack_images(paths, resize)
        slow = time.perf_counter() - start
        start = time.perf_counter()
        cached_images(paths, resize, folder)
        first = time.perf_counter() - start
        start = time.perf_counter()
        pixels = cached_images(paths, resize, folder)
        loaded = time.perf_counter() - start
        total = int(pixels.sum(dtype=np.int64))  # touches every pixel, as an epoch does
        fast = time.perf_counter() - start
        assert total == int(decoded.sum(dtype=np.int64))
    print(f"image cache, {number} JPEG files to {resize} px: decoded {slow:.2f} s, cache made {first:.2f} s, ", end="")
    print(f"opened and checked {loaded:.3f} s, opened and read {fast:.3f} s, ratio {slow / fast:.0f} (target 10)")


if __name__ == "__main__":
    main()
