"""How near scoring comes to the bare backbone: pixels, aligned faces and photographs as they come, in one run.

The yardstick is VGG16's features alone: weights and images in bfloat16, channels last, 256 at once, images already in
the device's memory. Each stage prints what it found and adds it to the JSON file; one that fails is named, and the rest
go on. What matters most comes first, no stage is begun after `--seconds`, and a table comes last.

    python benchmarks/scoring_gpu.py aligned/ --photos photos/ --json scoring.json
    python benchmarks/scoring_gpu.py aligned/ --images 64       # on a processor, to see that it works
    PYTHONPATH=src:benchmarks python benchmarks/scoring_gpu.py aligned/    # from a checkout
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from scoring import scorer_of
from uol.images.face_cache import FaceCache
from uol.images.faces import TEMPLATE, AlignedFace, Face
from uol.images.framing import FramedFile, Framer
from uol.images.framing_process import frame_into
from uol.images.parallel_framing import can_share
from uol.images.paths import find_images
from uol.images.read import read_image
from uol.order.bradley_terry import probabilities
from uol.order.config import ModelConfig
from uol.scoring.base import Pixels, Score
from uol.scoring.bulk import framed_batches, score_files
from uol.scoring.folder import load_scorer
from uol.scoring.row_file import RowFile
from uol.scoring.rows import score_row
from uol.scoring.scorer import Scorer

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
BARE = "bare backbone"
PHOTO, PHOTOS = 350, 256  # pixels of a side, and how many, of the files that have to be resized
BEGAN = time.perf_counter()


class WithoutNetwork(Scorer):
    """All of scoring on a GPU but the network: files framed and gathered, scores solved from the same outcomes."""

    on_gpu, batch_size = True, 256

    def submit(self, images: Sequence[Pixels]) -> Callable[[], list[Score]]:
        """Gather images; the function returned solves as many scores."""
        np.stack([image.transpose(1, 2, 0) for image in images], out=self.room[: len(images)])
        return lambda: self.calibrated(self.solve_scores(self.outcomes_of_all[: len(images)]), np.ones(len(images)))

    @cached_property
    def room(self) -> Pixels:
        """The memory in which images are gathered."""
        return np.ones((256, self.config.crop, self.config.crop, 3), np.uint8)

    @cached_property
    def outcomes_of_all(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Outcomes of images that beat about half of the references."""
        places = np.random.default_rng(0).normal(3, 1, (256, 1)) - self.references.scores
        return probabilities(places, self.bradley_terry)


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
        bare = self.values.get(BARE, {}).get("images_per_second", rate)
        text = f"{rate:,.0f} images/s, {rate / bare:.1%} of the bare backbone{note}"
        self.add(name, text, images_per_second=rate, of_bare=rate / bare, images=images)

    def table(self) -> None:
        """Print all throughputs, one below the other."""
        print(f"\n{'':64} images/s  of bare")
        for name, found in self.values.items():
            if "of_bare" in found:
                print(f"{name:64} {found['images_per_second']:8,.0f} {found['of_bare']:8.1%}")

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

    found.rate(BARE, times * batch, median_seconds(alone, repeats, warm=5 if GPU else 1))


def framed_pixels(files: list[Path], config: ModelConfig) -> list[Pixels]:
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


def one_core(
    found: Findings, files: list[Path], config: ModelConfig, cache: FaceCache, solve: Callable[[], int]
) -> None:
    """Microseconds of one core for each part of the work on an image."""
    names = [str(path) for path in files[:256]]
    whole = Framer(config.resize, config.crop)
    target = np.empty((len(names), config.crop, config.crop, 3), np.uint8)
    parts: dict[str, Callable[[], object]] = {
        "file by Pillow": lambda: frame_into(target, names, whole),
        "file by OpenCV": lambda: frame_into(target, names, whole, fast=True),
        "cached face": lambda: frame_into(target, names, whole._replace(framing="face", cache=cache)),
        "gathering and solving": solve,
    }
    times = {}
    for name, work in parts.items():
        taken = []
        for _ in range(4):
            began, own = time.perf_counter(), time.process_time()
            images = work()
            taken.append((time.perf_counter() - began, time.process_time() - own))
        count = images if isinstance(images, int) else len(names)
        times[name], times[f"{name}, all threads"] = (1e6 * min(values) / count for values in zip(*taken, strict=True))
    text = ", ".join(f"{name} {times[name]:.0f} ({times[f'{name}, all threads']:.0f})" for name in parts)
    found.add("one core", f"{text} µs (of processor time)", **times)


def framing_alone(
    found: Findings, name: str, files: list[Path], framer: Framer, size: int, ways: Sequence[tuple[int, bool]]
) -> None:
    """Images per second from files to batches in memory, without a network; starting the processes counts.

    Next to them the time that this process spends on an image: the part that no more cores make shorter.
    """
    for workers, processes in ways:
        if processes and not can_share():
            continue
        began, own = time.perf_counter(), time.process_time()
        for _ in framed_batches(files, framer, size, workers, processes):
            pass
        seconds, own = time.perf_counter() - began, time.process_time() - own
        note = f"; {1e6 * own / len(files):.0f} µs of this process each"
        way = f"{workers} {'processes' if processes else 'threads'}"
        found.rate(f"{name} to batches, {way}", len(files), seconds, note)


def scoring_files(
    found: Findings, name: str, scorer: Scorer, files: list[Path], repeats: int, warm: int = 0, **options: Any
) -> None:
    """Images per second of `score_files`, from the first file to the last row, with the start of its processes."""
    failed, own = 0, 0.0

    def work() -> None:
        nonlocal failed, own
        began = time.process_time()
        failed = sum(one["error"] is not None for _, rows in score_files(scorer, files, **options) for one in rows)
        own = time.process_time() - began

    seconds = median_seconds(work, repeats, warm)
    note = f"; {1e6 * own / len(files):.0f} µs of this process each" + (f"; {failed} not scored" if failed else "")
    found.rate(name, len(files), seconds, note)


def scoring_to_a_file(found: Findings, scorer: Scorer, files: list[Path], repeats: int) -> None:
    """As `uol score --out rows.csv` does: every row kept as it comes."""

    def work() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            RowFile(Path(folder) / "rows.csv", {}, ("image", "value")) as kept,
        ):
            for index, rows in score_files(scorer, files):
                kept.add(files[index], rows)

    found.rate(f"{len(files)} files to scores, rows kept in a file", len(files), median_seconds(work, repeats, 0))


def scoring_pixels(found: Findings, scorer: Scorer, pixels: Pixels, repeats: int) -> None:
    """Images per second from framed pixels in this machine's memory."""
    found.rate("pixels to scores", len(pixels), median_seconds(lambda: scorer.score_pixels(pixels), repeats))


def filled_cache(folder: Path, files: list[Path]) -> FaceCache:
    """A cache with a face for each file, which is the whole picture: what reading it costs does not depend on that."""
    cache = FaceCache(folder)
    for path in files:
        image = np.asarray(read_image(path).resize((cache.size, cache.size)))
        face = Face((0.0, 0.0, 256.0, 256.0), TEMPLATE * cache.size, 0.999)
        cache.keep(path, AlignedFace(image, face))
    return cache


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
    parser.add_argument("folder", type=Path, help="a folder of JPEG files, best of the model's own size (256 pixels)")
    parser.add_argument("--photos", type=Path, help="a folder of photographs that show faces; default: the same")
    parser.add_argument("--images", type=int, default=8192 if GPU else 64, help="images of a stage; files repeat")
    parser.add_argument("--long", type=int, help="images of a long run; default: many times as many")
    parser.add_argument("--batch", type=int, default=256 if GPU else 8, help="images at once in the bare backbone")
    parser.add_argument("--repeats", type=int, default=3 if GPU else 1)
    parser.add_argument("--seconds", type=float, default=75 if GPU else 600, help="no stage is begun after that")
    parser.add_argument("--model", type=Path, help="a model folder, in place of a VGG16 with random weights")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    found = Findings(asked.json, asked.seconds)
    machine, cores = torch.cuda.get_device_name() if GPU else "processor", os.cpu_count() or 1
    found.add(
        "device", f"{machine}, {cores} cores, torch {torch.__version__}", machine=machine,
        cores=cores, torch=torch.__version__,
    )  # fmt: skip
    whole = (load_scorer(asked.model) if asked.model else scorer_of(ModelConfig(pooling="positions"))).to(DEVICE)
    whole.model.config = whole.config.model_copy(update={"framing": "whole"})
    faces = copy.copy(whole)
    faces.model = copy.copy(whole.model)
    faces.model.config = whole.config.model_copy(update={"framing": "face"})
    files, photos = find_images(asked.folder), find_images(asked.photos or asked.folder)
    repeats, size, config = asked.repeats, whole.batch_size, whole.config
    many, long = repeated(files, asked.images), repeated(files, asked.long or asked.images * (8 if GPU else 2))
    images = framed_pixels(files[: min(512, asked.images)], config)
    host = np.stack([images[k % len(images)] for k in range(asked.images)])
    without, faceless = copy.copy(whole), copy.copy(faces)
    without.__class__ = faceless.__class__ = WithoutNetwork

    def solve() -> int:
        return len(without.submit(images[:1] * 256)())

    found.stage(BARE, lambda: bare_backbone(found, whole, asked.batch, max(repeats, 3)))
    found.stage("warm-up", lambda: whole.score_pixels(host[: 2 * size]))
    with tempfile.TemporaryDirectory() as folder:
        some = files[: min(1024, asked.images)]
        cache = filled_cache(Path(folder), some)
        cached = repeated(some, len(long))
        found.stage("one core", lambda: one_core(found, some, config, cache, solve))
        found.stage("pixels", lambda: scoring_pixels(found, whole, host, repeats))
        for count in (len(many), len(long)):
            name = f"{count} cached faces to scores"
            found.stage(name, lambda n=name, c=count: scoring_files(found, n, faces, cached[:c], 1, cache=cache))  # type: ignore[misc]
            name = f"{count} files to scores"
            found.stage(name, lambda n=name, c=count: scoring_files(found, n, whole, long[:c], 1))  # type: ignore[misc]
        as_they_come = repeated(photos, max(1, asked.images // 4))
        name = f"{len(as_they_come)} photographs as they come to scores"
        found.stage(name, lambda: scoring_files(found, name, faces, as_they_come, 1))
        few = as_they_come[: max(1, asked.images // 16)]
        face = Framer(config.resize, config.crop, "face")
        ways = [(cores, True), (cores, False)]
        found.stage("faces", lambda: framing_alone(found, "photographs", few, face, size, ways))
        own = Framer(config.resize, config.crop)
        ways = [(count, True) for count in sorted({cores, max(1, cores - 2), max(1, cores // 2)}, reverse=True)]
        found.stage("framing", lambda: framing_alone(found, "files", many, own, size, ways))
        stored = face._replace(cache=cache)
        found.stage("stored", lambda: framing_alone(found, "cached faces", cached[: len(many)], stored, size, ways[:1]))
        name = "files to scores, without the network"
        found.stage(name, lambda: scoring_files(found, name, without, many, 1))
        other = "cached faces to scores, without the network"
        found.stage(other, lambda: scoring_files(found, other, faceless, cached[: len(many)], 1, cache=cache))
    found.stage("rows", lambda: scoring_to_a_file(found, whole, many, 1))
    found.stage("parts", lambda: parts_of_a_batch(found, whole, images[:size], repeats))
    with tempfile.TemporaryDirectory() as folder:
        larger = repeated(list(reencoded(files[:PHOTOS], Path(folder), PHOTO)), asked.images)
        name = f"{len(larger)} files of {PHOTO} pixels to scores"
        found.stage(name, lambda: scoring_files(found, name, whole, larger, 1))
    found.stage("agreement", lambda: agreement(found, whole, images))
    found.table()


if __name__ == "__main__":
    main()
