"""Running a plan: each row on each fold, resumable; failures are reported, and the remaining runs continue."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from uol.errors import CallError, UolError
from uol.experiments.collect import add
from uol.experiments.plans import PlanRow
from uol.experiments.rescoring import Consistency, Rescored, read_again
from uol.ratings.rated_images import RatedImages, Split
from uol.runs.folder import RunFolder
from uol.runs.result import Result
from uol.runs.run import check_before_reading, run
from uol.runs.train_and_test import Origin, finished, train_and_test
from uol.runs.transfer import BY_DEFAULT, MakeupRule, OtherDataset, Predictor, judge_elsewhere, judged, pack_other
from uol.training.loop import EpochReport
from uol.training.packed import PackedImages
from uol.training.recipe import Recipe, with_defaults

_RULES = {
    "consistency": "maximum consistency",
    "balanced consistency": "maximum consistency, references balanced and without gaps",
}

State = Literal["done", "there", "failed"]


class Job(NamedTuple):
    """One network: a row of a plan on one split."""

    row: PlanRow
    split: str
    seed: int

    @property
    def place(self) -> Path:
        """Its folder among the runs of a plan."""
        return Path(self.row.folder) / (self.split if self.seed == 0 else f"{self.split}-seed-{self.seed}")

    def __str__(self) -> str:
        return f"{self.row.method} ({self.row.recipe}), {self.split}, seed {self.seed}"


class Outcome(NamedTuple):
    """What became of a job: trained now, there already, or failed, with why."""

    job: Job
    state: State
    result: Result | None
    seconds: float
    problem: str = ""


@dataclass
class Bench:
    """What the jobs of a plan share: data, packed once per framing, and what was asked for."""

    rated: RatedImages
    out: Path
    changes: Mapping[str, Any]
    others: Sequence[OtherDataset] = ()
    rule: MakeupRule = BY_DEFAULT
    results: Path | None = None  # where finished results are added, if they are
    slim: bool = False
    reserved: Collection[str] = ()  # settings asked for that are for the rows alone that need them
    reading: Callable[[str, int], AbstractContextManager[Callable[[int], None]]] | None = None
    _packed: dict[tuple[str, int, int, str], PackedImages] = field(default_factory=dict)
    _checksums: dict[int, str] = field(default_factory=dict)

    def asked(self, job: Job) -> dict[str, Any]:
        """What was asked for of a job."""
        own = {name: value for name, value in self.changes.items() if name not in self.reserved}
        needed = {name: self.changes[name] for name in (job.row.needs,) if name is not None and name in self.changes}
        return {**own, **needed, "seed": job.seed}

    def recipe(self, job: Job) -> Recipe:
        """The settings of a job."""
        return job.row.settings(self.asked(job))

    def packed(self, other: OtherDataset, recipe: Recipe) -> PackedImages:
        """A data set as a recipe's network sees it."""
        model = recipe.model
        key = (other.name, model.resize, model.crop, other.framing or model.framing)
        if key not in self._packed:
            reading = self.reading or _unheard
            with reading(other.name, len(other.rated)) as update:
                self._packed[key] = pack_other(other, model, lambda done, _: update(done))
        return self._packed[key]

    def training(self, recipe: Recipe) -> PackedImages:
        """The data set that is trained on."""
        return self.packed(OtherDataset(self.rated), recipe)

    def checksum(self, packed: PackedImages) -> str:
        """A data set's checksum, computed once."""
        if id(packed) not in self._checksums:
            self._checksums[id(packed)] = packed.checksum
        return self._checksums[id(packed)]

    def missing(self, folder: RunFolder, again: bool = True) -> list[OtherDataset]:
        """The other data sets that a run was not tested on yet, with these ratings and by this rule.

        Older evaluations do not say which ratings they were of: with `again` they count as missing.
        """
        found = [(other, judged(folder, other, self.rule)) for other in self.others]
        return [other for other, there in found if not there and (again or there is not None)]


def _unheard(_what: str, _images: int) -> AbstractContextManager[Callable[[int], None]]:
    """Progress that nobody looks at."""
    return contextlib.nullcontext(lambda done: None)


def jobs_of(rows: Sequence[PlanRow], rated: RatedImages, folds: Sequence[str], seed: int) -> list[Job]:
    """Every row on every fold asked for (all where none is), row by row: a compiled step serves all folds of a row."""
    known = [name for name in rated.splits if name.startswith("fold-")]
    if not known:
        raise CallError(f"{rated.name} has no folds")
    chosen = [f"fold-{fold}" if fold.isdigit() else fold for fold in folds] or known
    for name in chosen:
        if name not in known:
            raise CallError(f"{rated.name} has no fold {name!r}; there are {', '.join(known)}")
    return [Job(row, split, seed) for row in rows for split in chosen]


def check_jobs(jobs: Sequence[Job], bench: Bench) -> None:
    """Find what cannot be trained before images are read."""
    for job in {job.row.key: job for job in jobs}.values():
        try:
            check_before_reading(bench.recipe(job))
        except CallError as error:
            raise CallError(f"{job.row.method}, {job.row.recipe}: {error}") from error


def run_jobs(
    jobs: Sequence[Job],
    bench: Bench,
    report_job: Callable[[int, Outcome | Job], None],
    report: Callable[[EpochReport], None] | None = None,
) -> list[Outcome]:
    """Run jobs one after the other; `report_job(number, job)` before each, `report_job(number, outcome)` after it."""
    outcomes = []
    for number, job in enumerate(jobs, 1):
        report_job(number, job)
        outcome = attempt(job, bench, report)
        outcomes.append(outcome)
        report_job(number, outcome)
        if torch.cuda.is_available():
            gc.collect()  # a recorded step keeps its memory until then
            torch.cuda.empty_cache()
    return outcomes


def attempt(job: Job, bench: Bench, report: Callable[[EpochReport], None] | None = None) -> Outcome:
    """Run a job; a failure is an outcome."""
    begun = time.monotonic()
    try:
        state, result = run_job(job, bench, report)
        return Outcome(job, state, result, time.monotonic() - begun)
    except Exception as error:  # whatever it is, the other networks do not depend on it
        lines = str(error).splitlines() or [""]
        problem = lines[0] if isinstance(error, UolError) else f"{type(error).__name__}: {lines[0]}"
        return Outcome(job, "failed", None, time.monotonic() - begun, problem)


def run_job(job: Job, bench: Bench, report: Callable[[EpochReport], None] | None = None) -> tuple[State, Result | None]:
    """Train and test one network, go on with one that was stopped, or find it finished."""
    recipe = bench.recipe(job)
    folder = RunFolder(bench.out / job.place)
    read = job.row.network
    done = _train(job, bench, recipe, folder, report) if read is None else _read(job, read, bench, recipe, folder)
    if bench.results is not None:
        add(folder.path, bench.results)
    if bench.slim:
        folder.checkpoint.unlink(missing_ok=True)
    return done


def time_left(outcomes: Sequence[Outcome], jobs: int) -> float | None:
    """Seconds that the rest will take if it is like what was trained so far; None before anything was."""
    trained = [outcome.seconds for outcome in outcomes if outcome.state == "done"]
    return sum(trained) / len(trained) * (jobs - len(outcomes)) if trained else None


def _train(
    job: Job, bench: Bench, recipe: Recipe, folder: RunFolder, report: Callable[[EpochReport], None] | None
) -> tuple[State, Result | None]:
    packed = bench.training(recipe)
    split = bench.rated.splits[job.split]
    result = finished(folder, bench.rated, bench.checksum(packed), job.split, recipe)
    missing = bench.missing(folder, again=folder.checkpoint.is_file())
    if result is not None and not missing:
        return "there", result
    if result is not None:
        method = _restored(packed, split, recipe.for_split(job.split), folder, missing)
        _judge(method, missing, bench, recipe, folder)
        return "done", result
    origin = Origin(job.row.recipe, bench.asked(job))
    return "done", train_and_test(
        packed, job.split, split, recipe, folder.path, origin, report,
        afterwards=lambda method: _judge(method, bench.others, bench, recipe, folder),
    )  # fmt: skip


def _restored(
    packed: PackedImages, split: Split, recipe: Recipe, folder: RunFolder, others: Sequence[OtherDataset]
) -> Predictor:
    """The trained method of a run that has finished: from its checkpoint, without another epoch."""
    if not folder.checkpoint.is_file():
        names = ", ".join(other.name for other in others)
        raise UolError(f"{folder}: its checkpoint is gone, so it cannot be tested on {names} as asked")
    return run(packed.subset(split.train), recipe, folder.path)


def _judge(
    predictor: Predictor, others: Sequence[OtherDataset], bench: Bench, recipe: Recipe, folder: RunFolder
) -> None:
    with folder.locked():
        for other in others:
            packed, framing = bench.packed(other, recipe), other.framing or recipe.model.framing
            fingerprint = other.rated.fingerprint
            judge_elsewhere(predictor, packed, framing, folder, recipe.threshold, bench.rule, fingerprint)


def _read(job: Job, read: PlanRow, bench: Bench, recipe: Recipe, folder: RunFolder) -> tuple[State, Result | None]:
    """Read the scores of a row off the networks of another, `read`."""
    row, base = job.row, Job(read, job.split, job.seed)
    trained = RunFolder(bench.out / base.place)
    packed, split = bench.training(recipe), bench.rated.splits[job.split]
    learnt = bench.checksum(bench.training(bench.recipe(base)))
    network = finished(trained, bench.rated, learnt, job.split, bench.recipe(base))
    if network is None:
        raise UolError(f"{trained}: not trained yet, and {row.recipe} reads its scores off it")
    there = folder.read_result() if folder.finished else None
    same = there is not None and there.provenance.changes.get("network") == network.source
    same = same and there is not None and with_defaults(there.provenance.settings) == recipe.model_dump(mode="json")
    by_rule = row.read_by != "scorer"
    same = same and (by_rule or folder.model.is_dir())
    missing = bench.missing(folder)
    if same and not missing:
        return "there", there
    training = packed.subset(split.train)
    reading = _reading(row, trained, recipe, training)
    if same:
        _judge(reading, missing, bench, recipe, folder)
        return "done", there
    changes = {"scores": _RULES[row.read_by]} if by_rule else row.changes
    with folder.locked():
        return "done", read_again(
            network, reading, training, packed.subset(split.test), recipe, folder, row.recipe, changes,
            bench.checksum(packed), afterwards=lambda reading: _judge(reading, bench.others, bench, recipe, folder),
        )  # fmt: skip


def _reading(row: PlanRow, trained: RunFolder, recipe: Recipe, training: PackedImages) -> Consistency | Rescored:
    if row.read_by == "scorer":
        return Rescored(trained, recipe, training)
    return Consistency(trained, recipe, training if row.read_by == "balanced consistency" else None)
