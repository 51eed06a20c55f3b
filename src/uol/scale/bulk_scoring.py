"""Score a source of any size on Ray: parts of it by a pool of workers, their rows in files of Parquet."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from uol.errors import CallError, UolError, counted
from uol.images.paths import Report
from uol.scale import PART_SIZE
from uol.scale.addresses import is_address
from uol.scale.job_folder import NOT_FETCHED, Counts, JobFolder, Plan
from uol.scale.model_files import pack_model
from uol.scale.part_scorer import PartScorer, Settings
from uol.scale.ray_session import Cluster, check_packages, ray_session
from uol.scale.sources import (
    ADDRESS,
    KEY,
    Columns,
    Part,
    image_pairs,
    is_table,
    marks_in,
    table_files,
    write_list,
)
from uol.scoring.base import Interval
from uol.scoring.released import Device, Runtime, find_model, fingerprint, open_model, ships
from uol.storage.locks import holding

# Less than a whole CPU: a pool that holds every CPU leaves none to whatever else Ray has to run, and waits for ever.
# Nearly a whole one: an autoscaler starts about one machine's core for each worker.
CPUS_PER_WORKER = 0.9


class Request(NamedTuple):
    """What is to be scored, by which model, and where the rows go."""

    source: Sequence[str]
    out: str
    model: str
    runtime: Runtime = "auto"
    device: Device = "auto"
    panel: str | None = None
    interval: Interval = "panel"
    all_faces: bool = False
    read: Mapping[str, str] = {}
    part_size: int = PART_SIZE
    workers: int | None = None
    address: str | None = None
    replace: bool = False


class Summary(NamedTuple):
    """What a job came to: its images, rows and errors by kind, of which `before` images were done by earlier calls.

    `seconds` is the time from the first part to the last, `start_seconds` what passed before it.
    """

    counts: Counts
    before: int
    seconds: float
    start_seconds: float
    workers: int

    @property
    def images_per_second(self) -> float | None:
        """Images that this call scored in a second; None if it scored none."""
        done = self.counts.images - self.before
        return done / self.seconds if done and self.seconds > 0 else None

    def cost_per_million(self, price: float) -> float | None:
        """The cost of a million images if all machines together cost `price` an hour."""
        speed = self.images_per_second
        return None if speed is None else price * 1e6 / speed / 3600

    @property
    def not_fetched(self) -> int:
        """Rows of images that could not be fetched, which the same command tries again."""
        return self.counts.errors.get(NOT_FETCHED, 0)


def score_on_ray(
    request: Request,
    listed: Iterable[str] = (),
    report: Report = lambda line: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Score the images of a source that have no rows yet; `progress` receives the images done and all images."""
    began = time.time()
    check_packages()
    _check(request)
    folder = JobFolder(request.out)
    with _alone(request.out):
        plan = _plan(request, folder, listed, report)
        parts = plan.parts
        finished = {
            number: counts for number, counts in folder.finished().items() if not counts.errors.get(NOT_FETCHED)
        }
        todo = [part for part in parts if part.number not in finished]
        total = sum(finished.values(), Counts())
        before, images = total.images, sum(part.images for part in parts)
        if before:
            report(f"{before:,} of {images:,} images are scored already")
        progress(total.images, images)
        if not todo:
            return Summary(total, before, 0.0, time.time() - began, 0)
        with ray_session(request.address) as cluster:
            workers, settings = _workers(request, cluster, plan, len(todo))
            first, last, done = math.inf, 0.0, set[int]()
            for outcome in _outcomes(todo, settings, workers):
                if outcome["failure"]:
                    raise UolError(f"{outcome['failure']}; the finished parts are kept in {request.out}")
                done.add(int(outcome["part"]))
                total += Counts(**json.loads(outcome["counts"]))
                first, last = min(first, outcome["began"]), max(last, outcome["ended"])
                progress(total.images, images)
        if len(done) < len(todo):
            raise UolError(
                f"{len(todo) - len(done)} of {len(todo)} parts were not finished; run the same command again"
            )
        return Summary(total, before, last - first, first - began, workers)


def _check(request: Request) -> None:
    """Refuse what cannot work before anything is started."""
    if request.part_size < 1:
        raise CallError("--part-size must be at least 1")
    if request.workers is not None and request.workers < 1:
        raise CallError("--workers must be at least 1")
    target = Path(request.out)
    if not is_address(request.out):
        if target.is_file():
            raise CallError(f"{target}: a file; with --on ray name a folder, or an address such as s3://bucket/scores")
        inside = (Path(name).resolve() for name in request.source if name != "-" and not is_address(name))
        if any(target.resolve() == path or path in target.resolve().parents for path in inside):
            raise CallError(f"{target}: lies in what is to be scored; name a folder outside")


@contextmanager
def _alone(out: str) -> Iterator[None]:
    """Let one command at a time write a folder on disk; in a store of objects two would do the same work twice."""
    if is_address(out):
        yield
        return
    Path(out).mkdir(parents=True, exist_ok=True)
    busy = f"{out}: another command is writing this folder; wait for it to end or choose another"
    try:
        with holding(Path(out) / ".lock", busy):
            yield
    finally:
        with suppress(OSError):  # not empty, as it is to be
            Path(out).rmdir()


def _plan(request: Request, folder: JobFolder, listed: Iterable[str], report: Report) -> Plan:
    """The job in the folder if it is the same, or a new one."""
    scorer = open_model(request.model, request.runtime, "cpu", None, request.interval)  # says here what is wrong
    panels = [panel.name for panel in scorer.panels]
    if request.panel not in (None, "all", *panels):
        scorer.on_panel(str(request.panel))  # which says so
    if request.all_faces and scorer.config.framing == "whole":
        raise CallError("--all-faces: this model scores whole images and finds no faces")
    asked: dict[str, Any] = {
        "source": [name if is_address(name) or name == "-" else str(Path(name).absolute()) for name in request.source],
        "model": fingerprint(find_model(request.model)),
        "panel": request.panel or panels[0],
        "interval": request.interval,
        "all_faces": request.all_faces,
        "read": dict(request.read),
    }
    if request.replace:
        folder.clear()
    stored = folder.read_plan()
    if stored is not None:
        changed = [name for name in asked if stored.asked.get(name) != asked[name]]
        if changed:
            raise CallError(f"{request.out} holds a job with another {changed[0]}; choose another folder, or --replace")
        return _grown(request, folder, stored, listed, report)
    if request.read and not is_table(request.source):
        raise CallError("--read names columns of Parquet files; this source has none")
    if is_table(request.source):
        files, columns = table_files(request.source, request.read)
    else:
        files = write_list(image_pairs(request.source, listed, report), folder.inputs, request.part_size)
        columns = Columns(KEY, None, ADDRESS)
    if not sum(sum(file.groups) for file in files):
        raise CallError("no images were given")
    plan = Plan(asked, files, columns, request.part_size)
    folder.write_plan(plan)
    return plan


def _grown(request: Request, folder: JobFolder, stored: Plan, listed: Iterable[str], report: Report) -> Plan:
    """The job in the folder with the images that the source has got since, as further parts; the others keep theirs."""
    if is_table(request.source):
        now, _ = table_files(request.source, request.read, stored.columns)
        there = {file.address: file for file in now}
        changed = [file.address for file in stored.files if there.get(file.address) != file]
        if changed:
            raise CallError(
                f"{changed[0]}: changed or gone since the job in {request.out} began; choose another, or --replace"
            )
        known = {file.address for file in stored.files}
        more = [file for file in now if file.address not in known]
    else:
        pairs = image_pairs(request.source, listed, report, marks_in(stored.files))
        more = write_list(pairs, folder.inputs, stored.part_size, len(stored.files))
    if not more:
        return stored
    plan = stored._replace(files=[*stored.files, *more])
    folder.write_plan(plan)
    report(f"{counted(sum(sum(file.groups) for file in more), 'image')} added since the job began")
    return plan


def _workers(request: Request, cluster: Cluster, plan: Plan, todo: int) -> tuple[int, Settings]:
    """How many workers there are to be, and what each is told: one for each GPU, or for each core."""
    device: Literal["cpu", "cuda"] = "cuda" if cluster.gpus and request.device != "cpu" else "cpu"
    if request.device == "cuda" and not cluster.gpus:
        raise CallError("--device cuda: the Ray cluster has no GPU")
    fitting = int(cluster.gpus) if device == "cuda" else int(cluster.cpus)
    workers = min(request.workers or max(fitting, 1), todo)
    threads = max(1, int(cluster.cpus // max(cluster.gpus, 1))) if device == "cuda" else 1
    folder = find_model(request.model)
    model = request.model if ships(request.model) else pack_model(folder)
    settings = Settings(
        request.out if is_address(request.out) else str(Path(request.out).absolute()),
        plan.columns, model, request.runtime, device, request.panel, request.interval, request.all_faces, threads,
    )  # fmt: skip
    return workers, settings


def _outcomes(todo: Sequence[Part], settings: Settings, workers: int) -> Iterator[Mapping[str, Any]]:
    """What became of each part, as it is finished; a part whose worker died is done by another."""
    import ray
    from ray.data import ActorPoolStrategy, DataContext
    from ray.exceptions import RayError

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    gpu = {"num_gpus": 1.0} if settings.device == "cuda" else {}
    parts = ray.data.from_items([part._asdict() for part in todo], override_num_blocks=len(todo))
    scored = parts.map_batches(
        PartScorer,
        fn_constructor_args=(settings,),
        batch_size=1,
        compute=ActorPoolStrategy(min_size=1, initial_size=workers, max_size=workers),
        num_cpus=CPUS_PER_WORKER,
        **gpu,
    )
    try:
        yield from scored.iter_rows()
    except RayError as error:
        raise UolError(f"Ray: {(str(error).splitlines() or [''])[-1]}; run the same command to resume") from error
