"""uol experiment run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.output import print_json, print_table, progress_bar, say
from uol.errors import CallError, UolError

if TYPE_CHECKING:
    from uol.runs.transfer import Other
    from uol.studies.runner import Job, Outcome
    from uol.training.loop import EpochReport


class Takes(StrEnum):
    """Which of a person's photographs count."""

    FIRST = "first"
    MEAN = "mean"


AlsoOption = Annotated[
    list[str] | None, typer.Option("--also", help="Test on another data set too: mebeauty=FOLDER; repeatable.")
]
VotesOption = Annotated[
    Path | None, typer.Option("--votes", help="Votes on the pairs of mifs: columns person, with, without.")
]
TakesOption = Annotated[
    Takes, typer.Option("--takes", help="Of several photographs of a side of mifs: the first, or their mean score.")
]


def run(
    name: Annotated[str, typer.Argument(help="An experiment; `uol experiment list` names them.")],
    root: Annotated[Path, typer.Option("--root", help="The folder of the data set that is trained on.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where runs are kept; runs/NAME if not named.")
    ] = None,
    init: Annotated[str | None, typer.Option("--init", help="Backbone weights: a safetensors file, or timm.")] = None,
    also: AlsoOption = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only this method; repeatable.")] = None,
    recipe: Annotated[
        list[str] | None, typer.Option("--recipe", help="Only the rows of this recipe; repeatable.")
    ] = None,
    fold: Annotated[list[str] | None, typer.Option("--fold", help="Only this fold; repeatable.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of every network.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting of all rows, or one that a row needs.")
    ] = None,
    votes: VotesOption = None,
    takes: TakesOption = Takes.FIRST,
    slim: Annotated[
        bool, typer.Option("--slim", help="Drop the checkpoint of each network once it is tested.")
    ] = False,
    add: Annotated[bool, typer.Option("--add", help="Add each result as soon as it is there.")] = False,
    results: Annotated[Path, typer.Option("--results", help="The folder of results.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train and test every row of an experiment on every fold, and on other data sets.

    The same call goes on where it was stopped; what is there already is not run again. A network that fails is told,
    the rest still run, and the command ends with 1.

    Example: uol experiment run modules --root SCUT-FBP5500_v2 --init vgg16.safetensors --also mebeauty=MEBeauty --add
    """
    from uol import datasets
    from uol.cli.train import changes_of
    from uol.runs.protocols import read_votes
    from uol.runs.transfer import MakeupRule
    from uol.studies.plans import find_plan
    from uol.studies.runner import Bench, Outcome, check_jobs, jobs_of, run_jobs, time_left

    plan = find_plan(name)
    chosen = plan.choose(method or [], recipe or [])
    asked = changes_of(changes, init)
    if {"seed", "method"} & asked.keys():
        raise CallError("--set seed and --set method: give --seed and --method")
    lacking = plan.check_needs(chosen, asked, recipe or [])
    rows = [row for row in chosen if row not in lacking]
    if not rows:
        raise CallError(f"nothing to run: every row of {name} needs --set {lacking[0].needs}=…")
    if add:
        _check_adding(results)
    rule = MakeupRule(None if votes is None else read_votes(votes), takes.value)
    others = others_of(also or [])
    rated = datasets.load(plan.trained_on, root)
    jobs = jobs_of(rows, rated, fold or [], seed)
    place = out or Path("runs") / name
    say(f"{plan.title}: {len(jobs)} networks on {rated.name}, in {place}")
    say(f"protocol: {plan.protocol}")
    left_out = [other for other in plan.tested_on if other not in {given.name for given in others}]
    if left_out:
        say(f"not tested on {', '.join(left_out)}: --also NAME=FOLDER does")
    for row in lacking:
        say(f"left out: {row.method} ({row.recipe}), which needs --set {row.needs}=…")
    done: list[Outcome] = []

    def tell(number: int, what: Outcome | Job) -> None:
        if isinstance(what, Outcome):
            done.append(what)
            say(f"[{number} of {len(jobs)}] {what.job}: {_told(what)}{_left(time_left(done, len(jobs)))}")

    def report(epoch: EpochReport) -> None:
        if epoch.epoch == 1:
            words = f"{epoch.epochs} epochs, the first in {epoch.seconds:.1f} s"
            say(f"[{len(done) + 1} of {len(jobs)}] {jobs[len(done)]}: {words}")

    bench = Bench(
        rated, place, asked, others, rule, results if add else None, slim, plan.reserved,
        reading=lambda what, images: progress_bar(f"reading {what}", images),
    )  # fmt: skip
    check_jobs(jobs, bench)
    run_jobs(jobs, bench, tell, report)
    _show(done, as_json)
    failed = [outcome for outcome in done if outcome.state == "failed"]
    if failed:
        raise UolError(f"{len(failed)} of {len(jobs)} networks failed; the first: {failed[0].job}: {failed[0].problem}")


def _told(outcome: Outcome) -> str:
    if outcome.state == "failed":
        return f"failed: {outcome.problem}"
    found = outcome.result
    figures = "" if found is None or found.metrics.pc is None else f"PC {found.metrics.pc:.4f}"
    return f"{figures} (there already)" if outcome.state == "there" else f"{figures} ({outcome.seconds:.0f} s)"


def _left(seconds: float | None) -> str:
    if seconds is None or seconds <= 0:
        return ""
    return f"; about {seconds:.0f} s left" if seconds < 90 else f"; about {seconds / 60:.0f} min left"


def others_of(also: list[str]) -> list[Other]:
    """Data sets as --also NAME=FOLDER gives them."""
    from uol.runs.transfer import load_other

    found: dict[str, Other] = {}
    for word in also:
        name, equals, folder = word.partition("=")
        if not equals or not folder:
            raise CallError(f"--also {word}: write it as NAME=FOLDER")
        if name in found:
            raise CallError(f"--also {name}: given twice")
        found[name] = load_other(name, folder)
    return list(found.values())


def _check_adding(results: Path) -> None:
    """Find before hours of training what would keep its results from being added."""
    from uol.storage import provenance

    if not results.is_dir():
        raise CallError(f"{results}: no such folder of results; make it, go to where it is, or name one with --results")
    code = provenance.commit()
    if code.id is None or code.modified:
        why = "is not a git checkout" if code.id is None else "has uncommitted changes"
        raise CallError(f"--add: the code {why}, so that nobody could repeat the results; commit, or leave --add out")


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
