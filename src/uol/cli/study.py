"""uol study: collect people's ratings and votes on images, and get a scale with intervals."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli import study_serve
from uol.cli.options import JsonOption
from uol.cli.output import print_json, print_table, progress_bar, say
from uol.cli.study_serve import DatabaseOption, StudyArgument
from uol.errors import CallError, counted

if TYPE_CHECKING:
    from uol.study.folder import Study
    from uol.study.results import Results
    from uol.study.scaling import RatingMeans

app = typer.Typer(
    help="Collect ratings and votes on images, and get a scale with intervals. The scale says what participants said "
    "of images; it measures nothing about a person.",
    no_args_is_help=True,
)
app.command("serve")(study_serve.serve)
app.command("forget")(study_serve.forget)


class StudyKind(StrEnum):
    """What participants are asked to do."""

    RATINGS = "ratings"
    PAIRS = "pairs"
    BEST_OF_FOUR = "best-of-four"


class Choice(StrEnum):
    """Which pairs are shown."""

    ALL = "all"
    RANDOM = "random"
    ADAPTIVE = "adaptive"


LeaveOutOption = Annotated[
    list[str] | None, typer.Option("--leave-out", help="A participant whose answers do not count; repeatable.")
]
FlaggedOption = Annotated[
    bool, typer.Option("--leave-out-flagged", help="Leave out all participants who are flagged, and say who.")
]


@app.command("new")
def new(
    folder: Annotated[Path, typer.Argument(help="A folder of images.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The study folder to make.")],
    kind: Annotated[StudyKind, typer.Option("--kind", help="What participants do.")] = StudyKind.PAIRS,
    question: Annotated[str | None, typer.Option("--question", help="What participants are asked.")] = None,
    similar: Annotated[bool, typer.Option("--similar", help="Let people answer that two are about the same.")] = False,
    choice: Annotated[
        Choice | None, typer.Option("--choice", help="Which pairs are shown; random if not given.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", help="A table of the pairs to show: columns first, second, perhaps person."),
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Trials of each participant.")] = None,
    scale: Annotated[tuple[int, int], typer.Option("--scale", help="Lowest and highest rating.")] = (1, 7),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of sides and order.")] = 0,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the images into the study folder.")] = False,
) -> None:
    """Make a study from a folder of images: a folder with study.yaml, in which everything can be changed.

    Example: uol study new photos/ --out study/ --kind pairs --choice adaptive
    """
    from uol.study.new import Wanted, new_study

    if kind is not StudyKind.PAIRS and (similar or choice is not None or pairs is not None):
        raise CallError(f"--similar, --choice and --pairs are for --kind pairs, not {kind.value}")
    if pairs is not None and choice is not None:
        raise CallError("--pairs and --choice: choose one; a table of pairs is shown whole")
    wanted = Wanted(
        kind.value, question, similar, None if choice is None else choice.value, pairs, trials, scale, seed, copy
    )
    study = new_study(folder, out, wanted, say)
    images = counted(len(study.ids), "image")
    say(f"{images}: {out}; edit {out / 'study.yaml'}, then: uol study serve {out}")


@app.command("status")
def status(folder: StudyArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Check the settings of a study, and show how many answers it has and how wide the intervals are.

    Example: uol study status study/
    """
    from uol.study.new import unfinished
    from uol.study.participants import participant_table
    from uol.study.progress import progress, stop_reason
    from uol.study.reading import count_people, read_answers
    from uol.study.results import Results

    study = _open(folder)
    results = Results(study, read_answers(study, database, missing_ok=True))
    found, taking_part = progress(results), count_people(study, database)
    stop = stop_reason(results, taking_part)
    table = participant_table(results)
    flagged = table[table["flagged"]] if len(table) else table
    if as_json:
        who = list(flagged["participant"]) if len(table) else []
        print_json({**found._asdict(), "taking_part": taking_part, "stop": stop, "flagged": who})
        return
    columns = {"participants": "participants", "answers": "answers", "images": "images", "judged": "images judged"}
    columns |= {"width": "interval width", "islands": "unconnected sets", "failed_checks": "failed checks"}
    print_table([found._asdict()], columns)
    for row in flagged.itertuples():
        say(f"{row.participant}: {row.reason}")
    if results.scale is not None:
        say("interval width: mean width of the 95 % intervals of scale values, in logits")
    if (warning := unfinished(study)) is not None:
        say(warning)
    say(f"enough: {stop}" if stop else "no stopping rule is met")


@app.command("export")
def export(
    folder: StudyArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    ratings: Annotated[
        Path | None,
        typer.Option("--ratings", help="A study that collected ratings of the same images: also scale both jointly."),
    ] = None,
    leave_out: LeaveOutOption = None,
    leave_out_flagged: FlaggedOption = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write answers, scale, pairs and participants as CSV, a report, and three lines of R.

    Everybody counts unless left out here; participants who failed checks are flagged in participants.csv.

    Example: uol study export study/ --out results/
    """
    from uol.study.export import export_study, summary
    from uol.study.reading import read_answers
    from uol.study.results import Results

    study = _open(folder)
    rated = None if ratings is None else _rating_means(study, ratings)
    results = Results(study, read_answers(study, database), frozenset(leave_out or ()), rated)
    results = _leave_out(results, leave_out_flagged)
    names = export_study(results, out)
    say(f"{', '.join(names)}: {out}")
    if as_json:
        print_json(summary(results))


@app.command("simulate")
def simulate(
    folder: StudyArgument,
    participants: Annotated[
        str, typer.Option("--participants", "-n", help="Numbers of participants, separated by commas.")
    ] = "5,10,20,40",
    spread: Annotated[
        float,
        typer.Option("--spread", min=0.01, help="How far images differ, in standard deviations of one comparison."),
    ] = 1.0,
    ties: Annotated[float, typer.Option("--ties", min=0, help="Difference below which a pair is similar.")] = 0.3,
    careless: Annotated[
        float, typer.Option("--careless", min=0, max=1, help="Share of participants who answer at random.")
    ] = 0.0,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="Simulated studies to average.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the simulation.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also export one simulated study to this folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plan a study: simulate participants by Thurstone's model, and see how many answers give which interval.

    Widths are in standard deviations of one comparison (for best-of-four in logits, for ratings on their scale).

    Example: uol study simulate study/ --participants 10,20,40
    """
    from uol.study.simulate import People, plan

    study = _open(folder)
    sizes = _numbers(participants)
    for option, value in {"--spread": spread, "--ties": ties}.items():
        if not isfinite(value):
            raise CallError(f"{option} {value}: give a finite number")
    people = People(ties=ties, careless=careless)
    with progress_bar("simulating", repetitions) as update:
        rows = plan(study, sizes, spread, seed, repetitions, people, update)
    if out is not None:
        _export_simulated(study, max(sizes), spread, seed, people, out)
    if as_json:
        print_json([row._asdict() for row in rows])
        return
    columns = {"participants": "participants", "answers": "answers", "width": "interval width"}
    columns |= {"spearman": "rank correlation", "coverage": "coverage"}
    print_table([row._asdict() for row in rows], columns)
    say("interval width: mean width of the 95 % intervals; rank correlation and coverage: against the simulated truth")


def _export_simulated(study: Study, size: int, spread: float, seed: int, people: Any, out: Path) -> None:
    import numpy as np

    from uol.study.export import export_study
    from uol.study.results import Results
    from uol.study.simulate import draw_values, simulate_answers

    values = draw_values(len(study.ids), spread, np.random.default_rng([seed, 0]))
    export_study(Results(study, simulate_answers(study, values, size, seed, people)), out)
    say(f"answers of {counted(size, 'simulated participant')}: {out}")


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise CallError(f"--participants {text}: write whole numbers separated by commas, such as 10,20,40") from None
    if min(numbers) < 1:
        raise CallError(f"--participants {text}: give at least one participant")
    return numbers


def _open(folder: Path) -> Study:
    from uol.study.folder import open_study

    return open_study(folder)


def _leave_out(results: Results, flagged: bool) -> Results:
    """The results without participants who are flagged, if that is wanted; says who is left out."""
    from dataclasses import replace

    from uol.study.participants import participant_table

    known = {answer.participant for answer in results.answers}
    unknown = results.left_out - known
    if unknown:
        raise CallError(f"--leave-out {min(unknown)}: no such participant; `uol study status` lists those flagged")
    if flagged:
        table = participant_table(results)
        names = frozenset(table.loc[table["flagged"], "participant"]) if len(table) else frozenset()
        results = replace(results, left_out=results.left_out | names)
    if results.left_out:
        say(f"left out: {', '.join(sorted(results.left_out))}")
    if results.answers and not results.counted:
        raise CallError("nobody is left: every participant is left out")
    return results


def _rating_means(study: Study, other: Path) -> RatingMeans:
    """Mean ratings of the images of a study, from a study that collected ratings."""
    import numpy as np

    from uol.study.reading import read_answers
    from uol.study.results import Results
    from uol.study.scaling import RatingMeans, rating_means

    rating = _open(other)
    ratings = Results(rating, read_answers(rating)).ratings
    if study.settings.kind != "pairs" or ratings is None:
        raise CallError(f"--ratings {other}: joins pair votes with a study of kind ratings that has answers")
    means = rating_means(ratings.matrix)
    rows = {name: row for row, name in enumerate(ratings.images)}
    places = [rows.get(name) for name in study.ids]
    if sum(place is not None for place in places) < 3:
        raise CallError(f"--ratings {other}: fewer than three images have the ids of {study.path}")
    mean, error = (np.array([np.nan if place is None else part[place] for place in places]) for part in means)
    return RatingMeans(mean, error)
