"""uol experiment run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.options import (
    AlsoOption,
    ClusterOption,
    InitOption,
    JsonOption,
    MakeupTakesOption,
    MakeupVotesOption,
    OldTakesOption,
    OldVotesOption,
    On,
    OnOption,
    ResultsOption,
    SetOption,
    Takes,
)
from uol.cli.output import check_results, print_json, print_table, progress_bar, say
from uol.errors import CallError, UolError, counted

if TYPE_CHECKING:
    from uol.experiments.runner import Job, Outcome
    from uol.training.loop import EpochReport


def run(
    name: Annotated[str, typer.Argument(help="An experiment; `uol experiment list` names them.")],
    root: Annotated[Path, typer.Option("--root", help="Folder of the data set that is trained on.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the runs; runs/NAME by default.")] = None,
    init: InitOption = None,
    also: AlsoOption = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only this method; repeatable.")] = None,
    recipe: Annotated[list[str] | None, typer.Option("--recipe", help="Only this recipe; repeatable.")] = None,
    fold: Annotated[list[str] | None, typer.Option("--fold", help="Only this fold; repeatable.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every network.")] = 0,
    changes: SetOption = None,
    makeup_votes: MakeupVotesOption = None,
    makeup_takes: MakeupTakesOption = None,
    votes: OldVotesOption = None,
    takes: OldTakesOption = None,
    slim: Annotated[bool, typer.Option("--slim", help="Delete each network's checkpoint after its test.")] = False,
    add: Annotated[bool, typer.Option("--add", help="Add each result to the folder of results when finished.")] = False,
    results: ResultsOption = Path("results"),
    on: OnOption = On.LOCAL,
    per_gpu: Annotated[int, typer.Option("--per-gpu", help="With --on ray: networks that share a GPU.")] = 1,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train and test every row of an experiment on every fold, and on other data sets.

    Run the same command to resume; finished networks are not run again. Failures are reported, the remaining networks
    are run, and the exit status is 1. With --on ray, networks are trained next to each other.

    Example: uol experiment run modules --root SCUT-FBP5500_v2 --init vgg16.safetensors --also mebeauty=MEBeauty --add
    """
    from uol import datasets
    from uol.experiments.plans import find_plan
    from uol.experiments.runner import Bench, Outcome, check_jobs, jobs_of, run_jobs, time_left
    from uol.runs.makeup import read_votes
    from uol.runs.transfer import MakeupRule, load_others
    from uol.storage.provenance import check_reproducible
    from uol.training.recipe import parse_changes

    plan = find_plan(name)
    chosen = plan.choose(method or [], recipe or [])
    asked = parse_changes(changes or [], init)
    if {"seed", "method"} & asked.keys():
        raise CallError("--set seed and --set method: use --seed and --method")
    incomplete = plan.check_needs(chosen, asked, recipe or [])
    rows = [row for row in chosen if row not in incomplete]
    if not rows:
        raise CallError(f"nothing to run: every row of {name} requires --set {incomplete[0].needs}=…")
    if add:
        check_results(results)
        check_reproducible()
    votes = makeup_votes or votes
    rule = MakeupRule(None if votes is None else read_votes(votes), (makeup_takes or takes or Takes.FIRST).value)
    others = load_others(also or [])
    rated = datasets.load(plan.trained_on, root)
    jobs = jobs_of(rows, rated, fold or [], seed)
    place = out or Path("runs") / name
    say(f"{plan.title}: {counted(len(jobs), 'network')} on {rated.name}, in {place}")
    say(f"protocol: {plan.protocol}")
    left_out = [other for other in plan.tested_on if other not in {given.name for given in others}]
    if left_out:
        say(f"not tested on {', '.join(left_out)}: use --also NAME=FOLDER")
    for row in incomplete:
        say(f"left out: {row.method} ({row.recipe}), which requires --set {row.needs}=…")
    done: list[Outcome] = []

    def notice(number: int, what: Outcome | Job) -> None:
        if isinstance(what, Outcome):
            done.append(what)
            say(f"[{number} of {len(jobs)}] {what.job}: {_outcome(what)}{_left(time_left(done, len(jobs)))}")

    def report(epoch: EpochReport) -> None:
        if epoch.epoch == 1:
            words = f"{counted(epoch.epochs, 'epoch')}, the first in {epoch.seconds:.1f} s"
            say(f"[{len(done) + 1} of {len(jobs)}] {jobs[len(done)]}: {words}")

    bench = Bench(
        rated, place, asked, others, rule, results if add else None, slim, plan.reserved,
        reading=lambda what, images: progress_bar(f"reading {what}", images),
    )  # fmt: skip
    check_jobs(jobs, bench)
    if on is On.RAY:
        from uol.scale.experiment_jobs import run_jobs_on_ray

        run_jobs_on_ray(jobs, bench, notice, per_gpu, cluster)
    else:
        run_jobs(jobs, bench, notice, report)
    _show(done, as_json)
    failed = [outcome for outcome in done if outcome.state == "failed"]
    if failed:
        raise UolError(
            f"{len(failed)} of {counted(len(jobs), 'network')} failed; the first: {failed[0].job}: {failed[0].problem}"
        )


def _outcome(outcome: Outcome) -> str:
    """What became of a network, in words."""
    if outcome.state == "failed":
        return f"failed: {outcome.problem}"
    found = outcome.result
    figures = "" if found is None or found.metrics.pc is None else f"PC {found.metrics.pc:.4f}"
    return f"{figures} (exists already)" if outcome.state == "there" else f"{figures} ({outcome.seconds:.0f} s)"


def _left(seconds: float | None) -> str:
    """The time left, in words."""
    if seconds is None or seconds <= 0:
        return ""
    return f"; about {seconds:.0f} s left" if seconds < 90 else f"; about {seconds / 60:.0f} min left"


def _show(outcomes: list[Outcome], as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for job, state, result, seconds, problem in outcomes:
        figures = {} if result is None else result.metrics.model_dump(include={"pc", "mae", "rmse"})
        rows.append(
            {"method": job.row.method, "recipe": job.row.recipe, "split": job.split, "seed": job.seed, "state": state}
            | {key: figures.get(key) for key in ("pc", "mae", "rmse")}
            | {"seconds": round(seconds, 1), "problem": problem or None}
        )
    if as_json:
        print_json(rows)
        return
    columns = {"method": "method", "recipe": "recipe", "split": "split", "state": "state", "pc": "PC", "mae": "MAE",
               "rmse": "RMSE"}  # fmt: skip
    print_table(rows, columns)
