"""The networks of an experiment as independent tasks of Ray: rows, folds and seeds next to each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from uol.errors import CallError, UolError
from uol.experiments.collect import add
from uol.experiments.runner import Bench, Job, Outcome, attempt
from uol.scale.ray_session import ray_session

_ATTEMPTS = 3  # at a network whose worker died; each continues from its last checkpoint


def run_jobs_on_ray(
    jobs: Sequence[Job],
    bench: Bench,
    report_job: Callable[[int, Outcome | Job], None],
    per_gpu: int = 1,
    address: str | None = None,
) -> list[Outcome]:
    """Run jobs as tasks, `per_gpu` on each GPU, or one on each core; `report_job(number, outcome)` as they finish.

    A row that reads scores off another row's network waits for it. The disk that has the data and the runs must be the
    same on all machines.
    """
    if per_gpu < 1:
        raise CallError("--per-gpu must be at least 1")
    with ray_session(address) as cluster:
        import ray

        for job in {job.row.key: job for job in jobs}.values():
            bench.training(bench.recipe(job))  # one process reads the images; the tasks find them in the cache
        shared = replace(bench, out=bench.out.absolute(), results=None, reading=None, _packed={}, _checksums={})
        resources = {"num_gpus": 1 / per_gpu} if cluster.gpus else {}
        task: Any = ray.remote(num_cpus=1, max_retries=_ATTEMPTS, **resources)(_run)
        stored, started = ray.put(shared), dict[Any, Any]()
        by_place: dict[Path, Any] = {}
        for job in sorted(jobs, key=lambda job: job.row.network is not None):  # networks before those who read them
            base = None if job.row.network is None else by_place.get(Job(job.row.network, job.split, job.seed).place)
            reference = task.remote(job, stored, base, os.getcwd(), sys.argv)
            by_place[job.place] = reference
            started[reference] = job
        outcomes: list[Outcome] = []
        while started:
            (ready,), _ = ray.wait(list(started))
            outcome = _kept(_outcome(ray, ready, started.pop(ready)), bench)
            outcomes.append(outcome)
            report_job(len(outcomes), outcome)
        return outcomes


def _run(job: Job, bench: Bench, _after: object, folder: str, command: list[str]) -> Outcome:
    """Run a job in a worker, as if it were the command; `_after` has finished."""
    os.chdir(folder)
    sys.argv = command  # which a result notes
    return attempt(job, bench)


def _outcome(ray: Any, reference: Any, job: Job) -> Outcome:
    """What became of a task; one that died too often has failed."""
    try:
        found: Outcome = ray.get(reference)
        return found
    except ray.exceptions.RayError as error:
        return Outcome(job, "failed", None, 0.0, f"Ray: {(str(error).splitlines() or [''])[0]}")


def _kept(outcome: Outcome, bench: Bench) -> Outcome:
    """Add the result to the folder of results if they are kept: one at a time, by one process."""
    if bench.results is None or outcome.state == "failed":
        return outcome
    try:
        add(bench.out / outcome.job.place, bench.results)
    except UolError as error:
        return outcome._replace(state="failed", problem=str(error))
    return outcome
