"""uol data: list, check, stats, align, split, fetch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from uol.cli.options import HtmlOption, JsonOption, data_argument, photographs_argument
from uol.cli.output import check_page, load, print_json, print_table, progress_bar, say
from uol.datasets.choosing import DataChoice
from uol.errors import CallError

app = typer.Typer(help="Describe, check, align and split data sets before training.")

_MOST_VALUES = 40  # scale values in a printed table
_FLAGGED_COLUMNS = {
    "rater": "flagged rater", "n": "n", "leniency": "leniency", "agreement": "agreement", "reason": "why",
}  # fmt: skip
_SHOWN = 10  # near-duplicates, and unreadable files, in a printed table


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the data sets that uol can read, with their size, scale and terms.

    Example: uol data list
    """
    from uol import datasets

    rows: list[dict[str, Any]] = []
    for name in datasets.names():
        known = datasets.info(name)
        scale = None if known.scale is None else list(known.scale)
        rows.append(
            {"name": name, "title": known.title, "images": known.images or None, "scale": scale, "terms": known.terms,
             "expects": known.expects}
        )  # fmt: skip
    if as_json:
        print_json(rows)
        return
    for row in rows:
        row["scale"] = None if row["scale"] is None else "{:g} to {:g}".format(*row["scale"])
    print_table(
        rows, {"name": "name", "images": "images", "scale": "scale", "expects": "what to give", "terms": "terms"}
    )


@app.command()
@data_argument
def stats(
    chosen: DataChoice,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write a row per image to a .csv or .parquet file.")
    ] = None,
    raters_out: Annotated[
        Path | None, typer.Option("--raters-out", help="Write a row per rater to a .csv or .parquet file.")
    ] = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Describe a rated data set: scores, disagreement between raters, reliability, groups.

    --out has n, mean, SD, standard error, 95 % interval, adjusted mean and histogram of each image; --raters-out has n,
    leniency and agreement of each rater, and who is flagged and why.

    Example: uol data stats photos/ --table ratings.csv --out images.csv --raters-out raters.csv
    """
    from uol.ratings.stats import MOST_GROUPS, data_stats
    from uol.ratings.summaries import image_table, rater_summary
    from uol.storage.csv_text import check_frame_output, write_frame

    if out is not None:
        check_frame_output(out, chosen.inputs, ("image", "standard_error"))
    if raters_out is not None:
        check_frame_output(raters_out, chosen.inputs, ("rater", "leniency", "flagged"))
    wanted = [path for path in (out, raters_out) if path is not None]
    check_page(html, chosen.inputs)
    if len({path.resolve() for path in wanted}) < len(wanted):
        raise CallError(f"--out and --raters-out: both are {out}; name two files")
    rated = load(chosen)
    found = data_stats(rated)
    people = None if raters_out is None else rater_summary(rated)
    if out is not None:
        write_frame(out, image_table(rated))
        say(f"images: {out}")
    if raters_out is not None and people is not None:
        write_frame(raters_out, people)
        say(f"raters: {raters_out}")
    if html is not None:
        from uol.reports.data_report import write_data_report

        write_data_report(html, rated, found)
        say(f"report: {html}")
    if as_json:
        print_json(found)
        return
    from uol.reports.data_report import DIFFERENCE_COLUMNS, GROUP_COLUMNS, RELIABILITY_NAMES, VOTE_COLUMNS

    rows = [
        {"what": "images", "value": found["images"]},
        {"what": "voters" if found["scale_values"] else "raters", "value": found["raters"]},
        {"what": "mean score", "value": found["score"]["mean"]},
        {"what": "sd of the scores", "value": found["score"]["sd"]},
        {"what": "mean rating variance", "value": found["mean_rating_variance"]},
        *({"what": RELIABILITY_NAMES[key], "value": value} for key, value in found["reliability"].items()),
    ]
    print_table(rows, {"what": rated.name, "value": "value"})
    if rated.ratings is None and found["reliability"]:
        say("raters are not identified: reliability is of single ratings, whoever gave them")
    if found["scale_values"]:
        best = sorted(found["scale_values"], key=lambda row: -row["scale_value"])
        print()
        print_table(best[:_MOST_VALUES], VOTE_COLUMNS)
        if len(best) > _MOST_VALUES:
            say(f"{len(best) - _MOST_VALUES} more scale values; --out FILE and --json have all")
    for column, groups in found["by_group"].items():
        if 1 < len(groups) <= MOST_GROUPS:
            print()
            print_table(groups, GROUP_COLUMNS | {"group": column})
        if column in found["differences"]:
            print()
            print_table(found["differences"][column]["rows"], DIFFERENCE_COLUMNS)
            say(f"{column}: {found['differences'][column]['method']}")
    if found["flagged_raters"]:
        print()
        print_table(found["flagged_raters"], _FLAGGED_COLUMNS)


@app.command()
@data_argument
def check(
    chosen: DataChoice,
    as_json: JsonOption = False,
) -> None:
    """Find unreadable files, duplicates, and photographs that are in both parts of a split.

    Exits with 1 if any of these would harm a training. Near-duplicates are versions of one photograph (cropped,
    scaled, recoloured, mirrored); people are not compared.

    Example: uol data check photos/ --table ratings.csv
    """
    from uol.datasets.checks import check as check_images
    from uol.datasets.near_duplicates import BITS

    rated = load(chosen)
    with progress_bar("reading", len(rated)) as update:
        report = check_images(rated, progress=lambda done, _: update(done))
    if as_json:
        print_json(report.as_json())
    else:
        rows = [
            {"what": "images", "value": report.images},
            {"what": "unreadable", "value": len(report.unreadable)},
            {"what": "exact copies", "value": sum(len(copies) - 1 for copies in report.exact)},
            {"what": "near-duplicate pairs", "value": len(report.near)},
        ]
        print_table(rows, {"what": rated.name, "value": "value"})
        if report.splits:
            print()
            print_table(
                [
                    {
                        "split": split.split,
                        "train": split.train,
                        "test": split.test,
                        "copies": split.exact,
                        "near": len(split.leaks) - split.exact,
                        "examples": ", ".join(f"{leak.test} ~ {leak.train}" for leak in split.leaks[:3]),
                    }
                    for split in report.splits
                ],
                {"split": "split", "train": "train", "test": "test", "copies": "test copies of train",
                 "near": "near-duplicates", "examples": "examples"},
            )  # fmt: skip
        if report.near:
            print()
            print_table(
                [{**pair._asdict(), "mirrored": "mirrored" if pair.mirrored else ""} for pair in report.near[:_SHOWN]],
                {"first": "near-duplicates", "second": "", "distance": f"of {BITS} bits differ", "mirrored": "",
                 "score_difference": "scores differ by"},
            )  # fmt: skip
            if len(report.near) > _SHOWN:
                say(f"{len(report.near) - _SHOWN} more near-duplicates; --json lists all")
        for entry in report.unreadable[:20]:
            say(f"uol: {entry.reason}")
        for problem in report.problems:
            say(f"uol: {problem}")
    if report.harmful:
        raise typer.Exit(1)


@app.command()
@data_argument
def split(
    chosen: DataChoice,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Number of folds.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the division.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The CSV file to write: image, fold.")] = Path("folds.csv"),
) -> None:
    """Divide a data set into folds with similar scores that keep near-duplicates together.

    Example: uol data split photos/ --table ratings.csv --folds 5 --out folds.csv
    """
    import pandas as pd

    from uol.datasets.checks import read_contents, split_folds
    from uol.storage.csv_text import check_frame_output, write_frame

    check_frame_output(out, chosen.inputs, ("image", "fold"), only=True)
    rated = load(chosen)
    with progress_bar("reading", len(rated)) as update:
        groups = read_contents(rated.images, progress=lambda done, _: update(done)).groups
    made = split_folds(rated, folds, seed, groups)
    fold = pd.Series(0, index=range(len(rated)))
    for number, parts in enumerate(made.values(), 1):
        fold.iloc[parts.test] = number
    write_frame(out, pd.DataFrame({"image": list(rated.names), "fold": fold}))
    sizes = [len(parts.test) for parts in made.values()]
    say(f"{len(made)} folds of {', '.join(map(str, sizes))} {'image' if set(sizes) == {1} else 'images'}: {out}")


@app.command()
@photographs_argument
def align(
    chosen: DataChoice,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the aligned faces, under the same names.")],
    size: Annotated[int, typer.Option("--size", min=16, help="Side of the square crop in pixels.")] = 256,
    as_json: JsonOption = False,
) -> None:
    """Find the main face of every photograph and crop it like the faces of SCUT-FBP5500.

    A folder requires no table. Faces of unchanged photographs are kept; faces.csv lists the problems of each.

    Example: uol data align photos/ --out faces/
    """
    from uol.images.align_folder import align_into

    images, names = chosen.photographs(out, say)
    with progress_bar("reading", len(names)) as update:
        rows = align_into(
            out, images, names, size,
            progress=lambda done, _: update(done, title="aligning"), reading=lambda done, _: update(done),
        )  # fmt: skip
    failed = [row._asdict() for row in rows if row.face is None]
    unreadable = sum(row.unreadable for row in rows)
    counts = {
        "images": len(rows), "aligned": len(rows) - len(failed),
        "doubtful": sum(bool(row.problems) for row in rows) - len(failed),
        "without_face": len(failed) - unreadable, "unreadable": unreadable,
    }  # fmt: skip
    if as_json:
        print_json(counts | {"failed": failed})
    else:
        print_table([counts], {name: name.replace("_", " a ") for name in counts})
        for row in failed[:20]:
            say(f"uol: {row['problems']}")
    if failed:
        raise typer.Exit(1)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="mebeauty, the only data set with a public repository.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to create.")],
) -> None:
    """Clone the public repository of a data set, for research under its owner's terms; requires git and a network.

    Example: uol data fetch mebeauty --out MEBeauty
    """
    from uol.datasets.fetching import fetch as clone

    clone(name, out)
    say(f"fetched to {out}; check it with: uol data check {name} --root {out}")
