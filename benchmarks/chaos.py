"""Hostile images, model folders, tables and recipes, and kills at random moments: what happens is counted.

Each input must be answered rightly or refused in one line (`UolError`). What must never happen: another exception, a
hang, a wrong answer without a word, a lost or doubled row. The exit status is 1 if anything of that happened.

python benchmarks/chaos.py --images 1000 --models 500 --tables 200 --recipes 100 --kills 40
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageOps

from hostile import (
    copy_model,
    good_table,
    make_image,
    make_recipe,
    spoil_config,
    spoil_model,
    write_bad,
    write_good,
)
from uol.datasets.own import load_own
from uol.datasets.synthetic import load_synthetic
from uol.errors import UolError
from uol.scoring.base import BaseScorer, Score
from uol.scoring.bulk import score_files
from uol.scoring.released import DEFAULT, find_model, open_model
from uol.training.recipe import Recipe, load_recipe

LIMIT = 60  # seconds, after which a call hangs
BAD = ("raw exceptions", "hangs", "silent wrong answers", "lost or doubled rows")


class Hang(BaseException):
    """A call took too long."""


class Counts:
    """What happened to the inputs of one kind, and the first examples of what must not happen."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.found: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, outcome: str, example: str = "") -> None:
        self.found[outcome] += 1
        if outcome in BAD and len(self.examples) < 10:
            self.examples.append(f"{self.kind}: {outcome}: {example}")

    def attempt(self, label: str, call: Callable[[], str | None]) -> None:
        """Call; the function returns why its answer is wrong, or None. One line of `UolError` is a clean error."""
        try:
            with limited():
                wrong = call()
        except UolError as error:
            self.add("raw exceptions" if "\n" in str(error) else "clean errors", f"{label}: {error!r}")
        except Hang:
            self.add("hangs", label)
        except Exception as error:  # the very thing that is looked for
            self.add("raw exceptions", f"{label}: {error!r}"[:300])
        else:
            self.add("answered" if wrong is None else "silent wrong answers", f"{label}: {wrong}")

    def line(self) -> str:
        counts = [f"{self.found[what]} {what}" for what in ("answered", "clean errors", *BAD)]
        return f"{self.kind:14} {self.found.total():5}: {', '.join(counts)}"


@contextmanager
def limited() -> Iterator[None]:
    """Raise `Hang` in this thread after `LIMIT` seconds; end the process if even that does not help."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    faulthandler.dump_traceback_later(3 * LIMIT, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def try_images(count: int, scorer: BaseScorer, folder: Path, rng: np.random.Generator) -> Counts:
    """Score hostile and good files in one job: a row for each, the score of good ones, a reason for the others."""
    counts = Counts("images")
    faces = [Image.fromarray(np.asarray(face)) for face in load_synthetic(12, 2, size=160).images]
    pictures = [np.asarray(ImageOps.expand(face, 8)) for face in faces]
    expected = [answer.value for answer in scorer.score(pictures)]
    scale = scorer.panel.scale
    unit = (scale.high - scale.low) / 4  # tolerances are those of a scale from 1 to 5
    made = [make_image(folder, k, pictures[k % 12], rng) for k in range(count)]
    paths = [path for path, _ in made]
    seen: Counter[int] = Counter()
    rows: dict[int, Any] = {}
    started = time.perf_counter()
    for index, found in score_files(scorer, paths, workers=2):
        now = time.perf_counter()
        if now - started > LIMIT:
            counts.add("hangs", str(paths[index]))
        started = now
        seen[index] += len(found)
        rows[index] = found[0]
    for k, (path, tolerance) in enumerate(made):
        row = rows.get(k)
        if seen[k] != 1 or row is None or row["image"] != str(path):
            counts.add("lost or doubled rows", repr(path))
        elif row["error"] is not None:
            clean = "\n" not in row["error"].replace(str(path), "") and "Error:" not in row["error"]
            counts.add("clean errors" if clean and tolerance is None else "raw exceptions", row["error"])
        elif row["value"] is None or not scale.low <= row["low"] <= row["value"] <= row["high"] <= scale.high:
            counts.add("silent wrong answers", f"{path}: {row}")
        elif tolerance is not None and abs(row["value"] - expected[k % 12]) > tolerance * unit:
            counts.add("silent wrong answers", f"{path}: {row['value']}, not {expected[k % 12]}")
        else:
            counts.add("answered")
    return counts


def try_models(count: int, folder: Path, rng: np.random.Generator, torch_every: int = 25) -> list[Counts]:
    """Open spoilt folders: all must be refused, or answer as the original where nothing that matters changed."""
    source = find_model(DEFAULT)
    pixels = rng.integers(0, 256, (1, 3, 224, 224), np.uint8)
    original = shutil.copytree(source, folder / "original")
    expected = open_model(original, "onnx", "cpu").score_pixels(pixels)[0]
    if torch_every:
        open_model(original, "torch", "cpu")  # its packages take long to import, which is no hang
    spoilt, older = Counts("model folders"), Counts("no manifest")

    def opened(place: Path, engine: Any) -> str | None:
        found = open_model(place, engine, "cpu").score_pixels(pixels)[0]
        return f"it answered {found.value}" if engine == "onnx" or found.value != expected.value else None

    for k in range(count):
        place = copy_model(original, folder / f"{k}")
        done = spoil_model(place, rng)
        engine = "torch" if torch_every and k % torch_every == 0 and "onnx" not in done else "onnx"
        spoilt.attempt(done, partial(opened, place, engine))
        shutil.rmtree(place)
    for k in range(count // 5):  # of older versions, or made by hand: settings are still checked
        place = copy_model(original, folder / f"older-{k}")
        (place / "manifest.json").unlink()
        done = spoil_config(place, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            older.attempt(done, partial(opened, place, "onnx"))
        shutil.rmtree(place)
    return [spoilt, older]


def try_tables(count: int, folder: Path, rng: np.random.Generator) -> Counts:
    """Read good and bad tables: the means are right, or what differs is noted, or the table is refused."""
    counts = Counts("tables")
    photos = folder / "photos"
    photos.mkdir()
    for k in range(12):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(photos / f"face_{k:02}.png")

    def read(path: Path, truth: pd.Series, good: bool) -> str | None:
        rated = load_own(photos, path)
        found = pd.Series(rated.scores, [Path(name).stem for name in rated.names])
        right = len(found) == 12 and np.allclose(found.reindex(truth.index), truth)
        noted = len(rated.notes) > 1  # the first says how the columns were read
        return None if right or (noted and not good) else f"means {found.round(2).to_dict()}, notes {rated.notes}"

    for k in range(count):
        table, truth = good_table(rng)
        good = bool(rng.random() < 0.4)
        path = (write_good if good else write_bad)(table, folder / f"table-{k}.csv", rng)
        counts.attempt(path.name, partial(read, path, truth, good))
    return counts


def try_recipes(count: int, folder: Path, rng: np.random.Generator) -> Counts:
    """Read recipes that were changed at random: what is accepted has settings within their limits."""
    counts = Counts("recipes")

    def read(path: Path) -> str | None:
        found = load_recipe(str(path))
        Recipe.model_validate(found.model_dump())
        return None if found.model.dimensions <= 8192 and found.epochs <= 10**6 else "a size without limit"

    for k in range(count):
        path = folder / f"recipe-{k}.yaml"
        make_recipe(path, rng)
        counts.attempt(path.name, partial(read, path))
    return counts


# -------------------------------------------------------------------- kills


class Job:
    """A command that is killed at random moments and run again, and what it must leave behind."""

    def __init__(self, words: list[str], out: Path, file: str) -> None:
        self.command = [sys.executable, "-c", "from uol.cli import main; main()", *words, "--out", str(out)]
        self._out, self._file = out, out / file if file else out

    def whole(self) -> object:
        """What the command wrote: rows of JSON or the bytes of a file, None where it wrote nothing."""
        if not self._file.exists():
            return None
        return json.loads(self._file.read_text()) if self._file.suffix == ".json" else self._file.read_bytes()

    def forget(self) -> None:
        """Delete what it wrote."""
        if self._out.is_dir():
            shutil.rmtree(self._out)
        self._out.unlink(missing_ok=True)

    def run(self) -> float:
        """Run to the end; how many seconds it took."""
        started = time.perf_counter()
        done = subprocess.run(self.command, capture_output=True, text=True, check=False, timeout=20 * LIMIT)
        if done.returncode:
            raise UolError(f"{self.command[3:]}: {done.stderr}")
        return time.perf_counter() - started

    def kill(self, after: float) -> bool:
        """Run and kill after some seconds; False if it ended before."""
        with subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(after)
            except subprocess.TimeoutExpired:
                process.kill()
                return True
        return False


def try_kills(kind: str, job: Job, count: int, expected: object, seconds: float, rng: np.random.Generator) -> Counts:
    """Kill a job several times, each run going on where the last was killed, in rounds that end with a whole run."""
    counts = Counts(f"kills: {kind}")
    killed = 0
    while killed < count:
        job.forget()
        for _ in range(int(rng.integers(1, 5))):
            if killed < count and job.kill(seconds * rng.uniform(0.2, 1.1)):
                killed += 1
                found = job.whole()
                counts.add("answered" if found is None or found == expected else "silent wrong answers", kind)
        job.run()
        if job.whole() != expected:
            counts.add("lost or doubled rows", f"{kind}: {job.command[3:]}")
    return counts


def all_kills(count: int, folder: Path, rng: np.random.Generator) -> list[Counts]:
    """Kill scoring, anchoring and training, and compare what they leave with runs that nobody killed."""
    if not count:
        return []
    photos = folder / "faces"
    photos.mkdir()
    rated = load_synthetic(40, 10, size=160)
    pictures = [ImageOps.expand(Image.fromarray(np.asarray(face)), 8) for face in rated.images]
    answers = open_model(DEFAULT, "onnx", "cpu").score(pictures, errors="return")
    chosen = [k for k, answer in enumerate(answers) if isinstance(answer, Score)][:30]  # drawings that pass for faces
    for k in chosen:
        pictures[k].save(photos / f"face-{k}.png")
    table = pd.DataFrame({"image": [f"face-{k}" for k in chosen], "mean": rated.scores[chosen]})
    splits = ["test" if k % 3 == 0 else "train" for k in range(len(chosen))]
    table.assign(split=splits).to_csv(folder / "ratings.csv", index=False)
    own = [str(photos), "--table", str(folder / "ratings.csv"), "--scale", "1", "5"]
    quick = ["--recipe", "demo", "--set", "epochs=8", "--set", "engine=eager"]
    shares = {"score": count - count // 4 - count // 8, "anchor": count // 4, "train": count // 8}
    done = []
    for kind, words, file in (
        ("score", ["score", str(photos), "--model", DEFAULT, "--device", "cpu"], ""),
        ("anchor", ["anchor", *own, "--replace"], "references.safetensors"),
        ("train", ["train", "--data", *own, *quick], "model/model.safetensors"),
    ):
        if not shares[kind]:
            continue
        ends = [folder / f"{kind}-{which}{'' if file else '.json'}" for which in ("whole", "killed")]
        whole, killed = (Job(words, end, file) for end in ends)
        seconds = whole.run()
        done.append(try_kills(kind, killed, shares[kind], whole.whole(), seconds, rng))
    return done


# -------------------------------------------------------------------- all


def run(
    images: int, models: int, tables: int, recipes: int, kills: int, seed: int, torch_every: int = 25
) -> list[Counts]:
    """Try everything in a folder that is deleted afterwards."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / kind for kind in ("images", "models", "tables", "recipes", "kills")]
        for folder in folders:
            folder.mkdir()
        os.environ["UOL_CACHE"] = f"{name}/cache"
        warnings.filterwarnings("ignore", module=r"PIL\.")
        done = [try_images(images, open_model(DEFAULT, "onnx", "cpu"), folders[0], rng)]
        done += try_models(models, folders[1], rng, torch_every)
        done += [try_tables(tables, folders[2], rng), try_recipes(recipes, folders[3], rng)]
        return done + all_kills(kills, folders[4], rng)


def main() -> None:
    """Print what happened to each kind of input."""
    parser = argparse.ArgumentParser(description=__doc__)
    for kind, count in {"images": 1000, "models": 500, "tables": 200, "recipes": 100, "kills": 40, "seed": 0}.items():
        parser.add_argument(f"--{kind}", type=int, default=count)
    started = time.perf_counter()
    done = run(**vars(parser.parse_args()))
    for counts in done:
        print(counts.line())
    for example in (example for counts in done for example in counts.examples):
        print(f"  {example}"[:600])
    peak = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"peak memory: {peak[0]:.0f} MB, of a killed or repeated command {peak[1]:.0f} MB")
    print(f"{time.perf_counter() - started:.0f} s")
    sys.exit(any(counts.found[what] for counts in done for what in BAD))


if __name__ == "__main__":
    main()
