"""uol data: list, check, stats, align, split, fetch."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uol.cli.output import print_json, print_table, progress_bar, say
from uol.errors import CallError, UolError

if TYPE_CHECKING:
    from uol.images.read import Images
    from uol.ratings.rated_images import RatedImages

app = typer.Typer(help="Look at data sets before training: what they hold, how far raters agree, what would harm.")

NameArgument = Annotated[str, typer.Argument(help="A data set; `uol data list` names them.")]
RootArgument = Annotated[Path | None, typer.Argument(help="Its folder, as its owner distributes it.")]
TableOption = Annotated[Path | None, typer.Option("--table", help="For own and votes: the table.")]
ScaleOption = Annotated[
    tuple[float, float] | None, typer.Option("--scale", help="For own: lowest and highest possible rating.")
]
ReadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--read", help="How to read own and votes, as image=COLUMN, rater=…, missing=99; or omi: attribute=…."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_SHOWN = 10
MEBEAUTY = "https://github.com/fbplab/MEBeauty-database"


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """Name the data sets that uol can read, with their size, scale and terms.

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
def stats(
    name: NameArgument,
    root: RootArgument = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a report with figures.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Describe a rated set: scores, disagreement, reliability, groups.

    Example: uol data stats mebeauty MEBeauty-database --html mebeauty.html
    """
    from uol.ratings.stats import data_stats

    rated = load(name, root, table, scale, read)
    found = data_stats(rated)
    if html is not None:
        from uol.reports.data_report import write_data_report

        write_data_report(html, rated, found)
        say(f"report: {html}")
    if as_json:
        print_json(found)
        return
    from uol.ratings.stats import MOST_GROUPS
    from uol.reports.data_report import GROUP_COLUMNS, RELIABILITY_NAMES

    rows = [
        {"what": "images", "value": found["images"]},
        {"what": "raters", "value": found["raters"]},
        {"what": "mean score", "value": found["score"]["mean"]},
        {"what": "sd of the scores", "value": found["score"]["sd"]},
        {"what": "mean rating variance", "value": found["mean_rating_variance"]},
        *({"what": RELIABILITY_NAMES[key], "value": value} for key, value in found["reliability"].items()),
    ]
    print_table(rows, {"what": rated.name, "value": "value"})
    if rated.ratings is None and found["reliability"]:
        say("who rated is not known: raters is the most ratings of one image, and reliability is from counts per level")
    for column, groups in found["by_group"].items():
        if 1 < len(groups) <= MOST_GROUPS:
            print()
            print_table(groups, GROUP_COLUMNS | {"group": column})


@app.command()
def check(
    name: NameArgument,
    root: RootArgument = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look for what would harm a training: unreadable files, copies, and photographs on both sides of a split.

    Exits with 1 where training would be harmed. Near-duplicates are pictures of one photograph (cropped, scaled,
    recoloured, mirrored); people are never compared.

    Example: uol data check scut-fbp5500 SCUT-FBP5500_v2
    """
    from uol.datasets.checks import check as check_images
    from uol.datasets.near_duplicates import BITS

    rated = load(name, root, table, scale, read)
    with progress_bar("reading", len(rated)) as update:
        report = check_images(rated, progress=lambda done, _: update(done))
    if as_json:
        print_json(report.as_json())
    else:
        rows = [
            {"what": "images", "value": report.images},
            {"what": "unreadable", "value": len(report.unreadable)},
            {"what": "copies, byte for byte", "value": sum(len(copies) - 1 for copies in report.exact)},
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
                 "near": "near-duplicates", "examples": "such as"},
            )  # fmt: skip
        if report.near:
            print()
            print_table(
                [{**pair._asdict(), "mirrored": "mirrored" if pair.mirrored else ""} for pair in report.near[:_SHOWN]],
                {"first": "near-duplicates", "second": "", "distance": f"of {BITS} bits differ", "mirrored": "",
                 "score_difference": "scores differ by"},
            )  # fmt: skip
            if len(report.near) > _SHOWN:
                say(f"{len(report.near) - _SHOWN} more near-duplicates: --json lists all")
        for entry in report.unreadable[:20]:
            say(f"uol: {entry.reason}")
        for problem in report.problems:
            say(f"uol: {problem}")
    if report.harmful:
        raise typer.Exit(1)


@app.command()
def split(
    name: NameArgument,
    root: RootArgument = None,
    table: TableOption = None,
    scale: ScaleOption = None,
    read: ReadOption = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="How many.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="A CSV: image, fold.")] = Path("folds.csv"),
) -> None:
    """Divide a data set into folds of like scores that keep near-duplicate images together.

    Example: uol data split own photos/ --table ratings.csv --folds 5 --out folds.csv
    """
    import pandas as pd

    from uol.datasets.checks import read_contents, split_folds
    from uol.storage.files import write_text

    rated = load(name, root, table, scale, read)
    with progress_bar("reading", len(rated)) as update:
        groups = read_contents(rated.images, progress=lambda done, _: update(done)).groups
    made = split_folds(rated, folds, seed, groups)
    fold = pd.Series(0, index=range(len(rated)))
    for number, chosen in enumerate(made.values(), 1):
        fold.iloc[chosen.test] = number
    write_text(out, pd.DataFrame({"image": list(rated.names), "fold": fold}).to_csv(index=False))
    say(f"{len(made)} folds of {', '.join(str(len(s.test)) for s in made.values())} images: {out}")


@app.command()
def align(
    what: Annotated[str, typer.Argument(help="A folder of photographs, or a data set with its folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the aligned faces go, under the same names.")],
    root: RootArgument = None,
    table: TableOption = None,
    size: Annotated[int, typer.Option("--size", min=16, help="Pixels of the square crop.")] = 256,
    as_json: JsonOption = False,
) -> None:
    """Find the main face of every photograph and crop it as SCUT-FBP5500 frames its faces.

    Faces that are there already are kept; faces.csv says what is doubtful about each.

    Example: uol data align photos/ --out faces/
    """
    from uol.images.align_folder import align_into

    images, names = _photographs(what, root, table, out)
    with progress_bar("aligning", len(names)) as update:
        rows = align_into(out, images, names, size, lambda done, _: update(done))
    failed = [row._asdict() for row in rows if row.face is None]
    doubtful = sum(bool(row.problems) for row in rows) - len(failed)
    if as_json:
        print_json({"images": len(rows), "aligned": len(rows) - len(failed), "doubtful": doubtful, "failed": failed})
    else:
        print_table(
            [{"images": len(rows), "aligned": len(rows) - len(failed), "doubtful": doubtful, "failed": len(failed)}],
            {"images": "images", "aligned": "aligned", "doubtful": "doubtful", "failed": "without a face"},
        )
        for row in failed[:20]:
            say(f"uol: {row['problems']}")
    if failed:
        raise typer.Exit(1)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="mebeauty: the only set whose owners offer a public repository.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")],
) -> None:
    """Clone a data set's public repository; for research, under its owner's terms. Needs git and a network.

    Example: uol data fetch mebeauty --out MEBeauty-database
    """
    from uol.storage.files import replacing_folder

    if name != "mebeauty":
        raise CallError(f"{name} cannot be fetched: ask its owners (uol data list says what to get)")
    if out.exists():
        raise CallError(f"{out}: already there; give a folder that does not exist")
    if shutil.which("git") is None:
        raise UolError("git is not installed; install it, or download the repository by hand")
    say(f"cloning {MEBEAUTY}")
    with replacing_folder(out) as temporary:
        clone = ["git", "clone", "--quiet", "--depth", "1", MEBEAUTY, str(temporary / "clone")]
        result = subprocess.run(clone, capture_output=True, text=True, env=_git_environment(), check=False)
        if result.returncode != 0:
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UolError(f"{MEBEAUTY} could not be cloned ({reason}); are you online?")
        for item in (temporary / "clone").iterdir():
            item.rename(temporary / item.name)
        (temporary / "clone").rmdir()
    say(f"fetched to {out}; check it with: uol data check mebeauty {out}")


def load(
    name: str,
    root: Path | None,
    table: Path | None,
    scale: tuple[float, float] | None = None,
    read: list[str] | None = None,
) -> RatedImages:
    """Load a data set and say what its loader had to skip or repair."""
    from uol import datasets

    options: dict[str, Any] = {} if table is None else {"table": table}
    if scale is not None:
        if scale[0] >= scale[1]:
            raise CallError(f"--scale {scale[0]:g} {scale[1]:g}: give the lowest rating first")
        options["scale"] = scale
    for word in read or []:
        key, equals, value = word.partition("=")
        if not equals:
            raise CallError(f"--read {word}: write it as name=value")
        options[key] = [_number(part) for part in value.split(",")] if key == "missing" else value
        if key == "groups":
            options[key] = value.split(",")
    rated = datasets.load(name, root, **options)
    for note in rated.notes:
        say(f"{rated.name}: {note}")
    return rated


def _photographs(what: str, root: Path | None, table: Path | None, out: Path) -> tuple[Images, list[str]]:
    """The images of a folder or of a data set, and their names; faces that an earlier run put there are passed over."""
    from uol import datasets
    from uol.images.read import find_images

    if root is None and Path(what).is_dir():
        paths = [path for path in find_images(what) if out.resolve() not in path.resolve().parents]
        if not paths:
            raise CallError(f"{what}: all images in it are those of {out}; give the folder of the photographs")
        return paths, [path.relative_to(what).as_posix() for path in paths]
    if root is None and what not in datasets.names():
        raise CallError(f"{what}: no such folder, and no data set of that name")
    rated = load(what, root, table)
    return rated.images, list(rated.names)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CallError(f"--read missing={text}: give numbers, such as 99 or -1") from None


def _git_environment() -> dict[str, str]:
    import os

    return os.environ | {"GIT_TERMINAL_PROMPT": "0"}  # a question nobody can answer would hang a script
