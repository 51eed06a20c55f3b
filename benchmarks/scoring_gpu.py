"""How near scoring comes to the bare backbone: pixels in memory, JPEG files and aligned faces, in one run.

The yardstick is VGG16's features alone: weights and images in bfloat16, channels last, 256 at once, images already in
the device's memory. Each stage prints what it found and adds it to the JSON file; one that fails is named, and the rest
go on. What matters most comes first, and no stage is begun after `--seconds`.

    python benchmarks/scoring_gpu.py photos/ --json scoring.json
    python benchmarks/scoring_gpu.py photos/ --images 64        # on a processor, to see that it works
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from scoring import scorer_of
from uol.images.framing import FramedFile, Framer
from uol.images.parallel_framing import can_share
from uol.images.paths import find_images
from uol.images.read import read_image
from uol.order.config import ModelConfig
from uol.scoring.bulk import framed_batches, score_files
from uol.scoring.folder import load_scorer
from uol.scoring.row_file import RowFile
from uol.scoring.rows import score_row
from uol.scoring.scorer import Scorer

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
PHOTO, PHOTOS = 350, 256  # pixels of a side, and how many, of the files that have to be resized
BEGAN = time.perf_counter()


class Findings:
    """What was found, printed and written as it comes."""

    def __init__(self, target: Path | None, seconds: float) -> None:
        self.values: dict[str, Any] = {}
        self._target = target
        self._seconds = seconds

    def add(self, name: str, text: str, **values: Any) -> None:
        """Print a line and keep its figures."""
        print(f"{name}: {text}", flush=True)
        self.values[name] = values
        if self._target is not None:
            self._target.write_text(json.dumps(self.values, indent=2) + "\n", encoding="utf-8")

    def rate(self, name: str, images: int, seconds: float, note: str = "") -> None:
        """A throughput, beside the bare backbone's."""
        rate = images / seconds
        bare = self.values.get("bare backbone", {}).get("images_per_second", rate)
        text = f"{rate:,.0f} images/s, {rate / bare:.1%} of the bare backbone{note}"
        self.add(name, text, images_per_second=rate, of_bare=rate / bare, images=images)

    def stage(self, name: str, work: Callable[[], object]) -> None:
        """Do a stage, unless time is over; what goes wrong in it is said."""
        if time.perf_counter() - BEGAN > self._seconds:
            return self.add(name, f"left out after {self._seconds:g} s", left_out=True)
        try:
            work()
        except Exception as error:
            self.add(name, f"failed: {type(error).__name__}: {error}", failed=f"{type(error).__name__}: {error}")


def synchronise() -> None:
    """Wait until the device has done what it was asked for."""
    if GPU:
        torch.cuda.synchronize()


def median_seconds(work: Callable[[], object], repeats: int, warm: int = 1) -> float:
    """Median wall-clock time of `work`, device included, after `warm` times that do not count."""
    times = []
    for k in range(warm + repeats):
        synchronise()
        began = time.perf_counter()
        work()
        synchronise()
        if k >= warm:
            times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


@torch.inference_mode()
def bare_backbone(found: Findings, scorer: Scorer, batch: int, repeats: int) -> None:
    """Images per second of the convolutions alone."""
    net = copy.deepcopy(scorer.model.backbone.net).to(DEVICE, torch.bfloat16 if GPU else torch.float32)
    net = net.eval().to(memory_format=torch.channels_last)
    crop = scorer.config.crop
    images = torch.randn(batch, 3, crop, crop, device=DEVICE, dtype=torch.bfloat16 if GPU else torch.float32)
    images = images.contiguous(memory_format=torch.channels_last)
    times = 8 if GPU else 1

    def alone() -> None:
        for _ in range(times):
            net.forward_features(images)

    found.rate("bare backbone", times * batch, median_seconds(alone, repeats, warm=5 if GPU else 1))


@torch.inference_mode()
def backbone_from_bytes(found: Findings, scorer: Scorer, batch: int, repeats: int) -> None:
    """Images per second of the same from bytes, cast as it goes."""
    crop, times = scorer.config.crop, 8 if GPU else 1
    pixels = torch.randint(0, 256, (batch, 3, crop, crop), dtype=torch.uint8, device=DEVICE)
    pixels = pixels.contiguous(memory_format=torch.channels_last)

    def from_bytes() -> None:
        for _ in range(times):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=GPU):
                scorer.model.backbone.feature_maps(pixels)

    found.rate("backbone from bytes, autocast", times * batch, median_seconds(from_bytes, repeats))


def framed_pixels(files: list[Path], config: ModelConfig) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """The framed pixels of files that can be read."""
    framer = Framer(config.resize, config.crop)
    read = (framer.frame(path)[0].pixels for path in files)
    return [pixels for pixels in read if pixels is not None]


@torch.inference_mode()
def parts_of_a_batch(found: Findings, scorer: Scorer, images: list[Any], repeats: int) -> None:
    """Milliseconds of each part of one batch, one after the other: what overlaps in earnest does not here."""
    gathered = scorer.stack_pixels(images)
    pixels = gathered.to(DEVICE)
    gaussians = scorer._embed_for_scores(pixels)
    outcomes = scorer.outcomes(gaussians)
    scores = scorer.score_pixels(pixels)
    framed = [FramedFile("a.jpg", image) for image in images]

    def compared() -> Tensor:
        return scorer._probabilities(gaussians, scorer._left, scorer._right)

    parts: dict[str, Callable[[], object]] = {
        "gather": lambda: scorer.stack_pixels(images),
        "transfer": lambda: gathered.to(DEVICE, non_blocking=True),
        "embed": lambda: scorer._embed_for_scores(pixels),
        "compare": compared,
        "copy back": lambda: compared().to("cpu", non_blocking=True),
        "solve": lambda: scorer.calibrated(scorer.solve_scores(outcomes), scorer.degrees(gaussians)),
        "rows": lambda: [score_row(one, score) for one, score in zip(framed, scores, strict=True)],
    }
    times = {name: 1000 * median_seconds(work, repeats) for name, work in parts.items()}
    text = ", ".join(f"{name} {value:.2f}" for name, value in times.items())
    found.add(f"parts of {len(images)} images", f"{text} ms", **times)


@torch.inference_mode()
def agreement(found: Findings, scorer: Scorer, images: list[Any]) -> None:
    """How far scores on this device lie from those in float32."""
    pixels = np.stack(images)
    scored = np.array([score.value for score in scorer.score_pixels(pixels)])
    gaussians = scorer.embed_pixels(torch.from_numpy(pixels))
    exact = np.array([score.value for score in scorer.score_embedded(gaussians)])
    difference = np.abs(scored - exact)
    chances = np.abs(
        scorer.outcomes(scorer._embed_for_scores(torch.from_numpy(pixels).to(DEVICE))) - scorer.outcomes(gaussians)
    )
    text = f"scores differ by at most {difference.max():.5f}, {difference.mean():.5f} in the mean"
    text += f" (they range over {np.ptp(exact):.3f}); outcome probabilities by at most {chances.max():.5f}"
    found.add(
        f"agreement with float32 on {len(images)} images", text, largest=float(difference.max()),
        mean=float(difference.mean()), range=float(np.ptp(exact)), largest_of_probabilities=float(chances.max()),
    )  # fmt: skip


def pipeline_alone(found: Findings, name: str, files: list[Path], config: ModelConfig, size: int) -> None:
    """Images per second from files to batches in memory, without a network; starting the processes counts.

    Beside them the time that this process spends on an image: the part that no more cores make shorter.
    """
    cores = os.cpu_count() or 1
    for processes in (True, False) if can_share() else (False,):
        for workers in sorted({1, max(1, cores // 2), cores}, reverse=True):
            some = files[: 400 * workers]
            began, own = time.perf_counter(), time.process_time()
            for _ in framed_batches(some, Framer(config.resize, config.crop), size, workers, processes):
                pass
            seconds, own = time.perf_counter() - began, time.process_time() - own
            way = f"{workers} processes" if processes else f"{workers} threads"
            note = f"; {1e6 * own / len(some):.0f} µs of this process each"
            found.rate(f"{name} to batches, {way}", len(some), seconds, note)


def scoring_files(
    found: Findings, name: str, scorer: Scorer, files: list[Path], repeats: int, warm: int = 1, **options: Any
) -> None:
    """Images per second of `score_files`, from the first file to the last row, with the start of its processes."""
    failed = 0

    def work() -> None:
        nonlocal failed
        failed = sum(one["error"] is not None for _, rows in score_files(scorer, files, **options) for one in rows)

    found.rate(name, len(files), median_seconds(work, repeats, warm), f" ({failed} not scored)" if failed else "")


def scoring_to_a_file(found: Findings, scorer: Scorer, files: list[Path], repeats: int) -> None:
    """As `uol score --out rows.csv` does: every row kept as it comes."""

    def work() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            RowFile(Path(folder) / "rows.csv", {}, ("image", "value")) as kept,
        ):
            for index, rows in score_files(scorer, files):
                kept.add(files[index], rows)

    found.rate("files to scores, rows kept in a file", len(files), median_seconds(work, repeats))


def scoring_faces(
    found: Findings, scorer: Scorer, photos: list[Path], folder: Path, count: int, repeats: int, at_most: int
) -> None:
    """A model of faces: photographs whose faces have to be found, and the same once their faces are in the cache."""
    from uol.images.face_cache import FaceCache

    cache = FaceCache(folder)
    entries = {path: cache.place(path).with_suffix(".json").is_file() for path in photos}
    new = [path for path, there in entries.items() if not there][:at_most]
    if new:
        scoring_files(found, "photographs, faces to be found", scorer, new, 1, cache=None)
        for _ in score_files(scorer, new, cache=cache):
            pass
    ready = [path for path in photos if entries[path] or path in set(new)]
    if ready:
        many = repeated(ready, count)
        scoring_files(found, "photographs, faces in the cache", scorer, many, repeats, cache=cache)


def repeated(files: list[Path], count: int) -> list[Path]:
    """`count` files, from the first again where there are fewer."""
    return [files[k % len(files)] for k in range(count)]


def reencoded(files: list[Path], folder: Path, side: int) -> Iterator[Path]:
    """The same pictures as JPEG files of another size."""
    for k, path in enumerate(files):
        target = folder / f"{k:05}.jpg"
        read_image(path).resize((side, side), Image.Resampling.BICUBIC).save(target, quality=90)
        yield target


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="a folder of JPEG files")
    parser.add_argument("--images", type=int, default=8192 if GPU else 64, help="images of each stage; files repeat")
    parser.add_argument(
        "--long", type=int, default=65536 if GPU else 128, help="images of the stage that is a long run"
    )
    parser.add_argument("--batch", type=int, default=256 if GPU else 8, help="images at once in the bare backbone")
    parser.add_argument("--repeats", type=int, default=3 if GPU else 1)
    parser.add_argument("--seconds", type=float, default=50 if GPU else 600, help="no stage is begun after that")
    parser.add_argument("--model", type=Path, help="a model folder, in place of a VGG16 with random weights")
    parser.add_argument("--face-cache", type=Path, help="a folder of aligned faces: a model of faces is measured too")
    parser.add_argument("--new-faces", type=int, default=64 if GPU else 4, help="photographs to find faces in, at most")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    found = Findings(asked.json, asked.seconds)
    machine = torch.cuda.get_device_name() if GPU else "processor"
    found.add(
        "device", f"{machine}, {os.cpu_count()} cores, torch {torch.__version__}", machine=machine,
        cores=os.cpu_count(), torch=torch.__version__,
    )  # fmt: skip
    scorer = (load_scorer(asked.model) if asked.model else scorer_of(ModelConfig(pooling="positions"))).to(DEVICE)
    files = find_images(asked.folder)
    many, repeats = repeated(files, asked.images), asked.repeats
    images = framed_pixels(files[: min(512, asked.images)], scorer.config)
    batch = images[: scorer.batch_size]
    host = np.stack([images[k % len(images)] for k in range(asked.images)])
    whole = Scorer(
        scorer.model, scorer.references, scorer.panel, scorer.bradley_terry, scorer.calibration, scorer.scoring
    )
    whole.model.config = scorer.config.model_copy(update={"framing": "whole"})

    found.stage("bare backbone", lambda: bare_backbone(found, whole, asked.batch, max(repeats, 3)))
    found.stage("files", lambda: scoring_files(found, "files to scores", whole, many, repeats))
    long = repeated(files, asked.long)
    found.stage("a long run", lambda: scoring_files(found, f"{len(long)} files to scores", whole, long, 1, warm=0))
    found.stage(
        "pixels in memory",
        lambda: found.rate("pixels to scores", len(host), median_seconds(lambda: whole.score_pixels(host), repeats)),
    )
    found.stage("pipeline", lambda: pipeline_alone(found, "files", many, whole.config, whole.batch_size))
    found.stage("parts", lambda: parts_of_a_batch(found, whole, batch, repeats))
    found.stage("rows", lambda: scoring_to_a_file(found, whole, many, 1))
    found.stage("agreement", lambda: agreement(found, whole, images))
    with tempfile.TemporaryDirectory() as folder:
        larger = repeated(list(reencoded(files[:PHOTOS], Path(folder), PHOTO)), asked.images)
        name = f"files of {PHOTO} pixels"
        found.stage(name, lambda: scoring_files(found, f"{name} to scores", whole, larger, 1))
        found.stage(f"{name}, pipeline", lambda: pipeline_alone(found, name, larger, whole.config, whole.batch_size))
    found.stage("bytes", lambda: backbone_from_bytes(found, whole, asked.batch, repeats))
    if asked.face_cache is not None:
        whole.model.config = scorer.config.model_copy(update={"framing": "face"})
        found.stage(
            "faces",
            lambda: scoring_faces(found, whole, files, asked.face_cache, min(asked.images, 2048), 1, asked.new_faces),
        )


if __name__ == "__main__":
    main()
