"""Make a study folder from a folder of images."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from uol.datasets.column_names import FIRST, SECOND
from uol.datasets.matching import ImageIndex, match_names
from uol.datasets.tables import find_column, read_table, texts
from uol.errors import CallError, UolError, counted
from uol.images.paths import find_images
from uol.storage.files import replacing_folder
from uol.storage.settings_text import read_yaml
from uol.study.folder import (
    IMAGES,
    PAIRS,
    SETTINGS,
    Study,
    check_settings,
    check_study,
    images_text,
    open_study,
    pairs_text,
)
from uol.study.settings import Kind, PairChoice

TO_REPLACE = "(Replace this by the text that your ethics board approved.)"
_COPIED = "images"
_MOST_TRIALS = 100

QUESTIONS: dict[Kind, str] = {
    "ratings": "How attractive is this face?",
    "pairs": "Which face is more attractive?",
    "best-of-four": "Which face is the most attractive?",
}
_INSTRUCTIONS: dict[Kind, str] = {
    "ratings": "You will see one image at a time. Rate each on the scale below it.",
    "pairs": "You will see two images at a time. Choose one of them, by a click, a touch or the arrow keys.",
    "best-of-four": "You will see four images at a time. Choose one of them.",
}


class Wanted(NamedTuple):
    """What a new study is to be; what is None gets a usual value."""

    kind: Kind = "pairs"
    question: str | None = None
    similar: bool = False
    choice: PairChoice | None = None
    table: Path | None = None
    trials: int | None = None
    scale: tuple[int, int] = (1, 7)
    seed: int = 0
    copy: bool = False


def new_study(folder: Path, out: Path, wanted: Wanted, report: Callable[[str], None] = lambda line: None) -> Study:
    """Write a study folder for the images of a folder; nothing is left if something is wrong."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CallError(f"{out}: exists already; choose another folder for the study")
    low, high = wanted.scale
    if low >= high:
        raise CallError(f"--scale {low} {high}: give the lowest rating first")
    base = folder.resolve()
    paths = [path for path in find_images(folder, report) if out.resolve() not in path.resolve().parents]
    names = [path.relative_to(folder).as_posix() for path in paths]
    pairs, people = _given_pairs(folder, paths, wanted.table, report)
    if pairs:
        used = {name for pair in pairs for name in pair}
        names = [name for name in names if name in used]
    place = _COPIED if wanted.copy else os.path.relpath(base, out.resolve())
    text = settings_text(wanted, place, len(names))
    settings = check_settings(read_yaml(text, str(out / SETTINGS)), str(out / SETTINGS))
    check_study(Study(out, settings, {name: base / name for name in names}, pairs, people))
    with replacing_folder(out) as temporary:
        if wanted.copy:
            for name in names:
                target = temporary / _COPIED / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(base / name, target)
        (temporary / IMAGES).write_text(images_text(dict(zip(names, names, strict=True))), encoding="utf-8")
        if pairs:
            (temporary / PAIRS).write_text(pairs_text(pairs, people), encoding="utf-8")
        (temporary / SETTINGS).write_text(text, encoding="utf-8")
    try:
        return open_study(out)
    except UolError:  # names that tables cannot hold
        shutil.rmtree(out)
        raise


def unfinished(study: Study) -> str | None:
    """What participants would read that was written for the researcher; None if there is nothing."""
    consent = study.settings.consent
    texts = [consent] if isinstance(consent, str) else consent.values()
    if not any(TO_REPLACE in text for text in texts):
        return None
    return f"{study.path / SETTINGS}: consent still says {TO_REPLACE!r}; participants will read that"


def settings_text(wanted: Wanted, folder: str, images: int) -> str:
    """The settings of a new study as commented YAML."""
    kind = wanted.kind
    choice = wanted.choice or ("given" if wanted.table is not None else "random")
    question = wanted.question or QUESTIONS[kind]
    lines = [
        "# The settings of a study. `uol study status` checks this file after you change it.",
        "# Texts can be one text, or one for each language: {en: ..., de: ...}.",
        _line("title", "A study of images"),
        f"kind: {kind}  # ratings, pairs or best-of-four",
        _line("question", question),
        "languages: [en]",
        _line("images", {"folder": folder, "table": IMAGES}),
        "",
        "# What participants read first; they have to agree before the study begins.",
        _line(
            "consent",
            "Taking part is voluntary. You can stop at any time. Your answers are stored without your name. "
            + TO_REPLACE,
        ),
        _line("instructions", _INSTRUCTIONS[kind]),
        "",
    ]
    if kind == "ratings":
        low, high = wanted.scale
        lines += ["scale:", f"  low: {low}", f"  high: {high}", f"  labels: {{{low}: not at all, {high}: very}}", ""]
    if kind == "pairs":
        lines += [
            f"similar: {str(wanted.similar).lower()}  # whether people may answer that both are about the same",
            "# all: everybody judges every pair; random: balanced rounds; adaptive: the pairs that say most",
            _line("pairs", {"choice": choice, **({"table": PAIRS} if choice == "given" else {})}),
        ]
    trials = wanted.trials or _usual_trials(kind, choice, images)
    lines += [
        *([f"trials: {trials}  # of each participant"] if trials is not None else []),
        "repeats: 0  # trials shown a second time, to see how consistent answers are",
        "practice: 2  # trials before the study begins, which do not count",
        "break_every: 50  # trials",
        "",
        "# Attention checks: images whose right answer everybody can see, for example",
        "# checks:",
        "#   - {images: [a.jpg, b.jpg], accepted: [a.jpg], question: Please choose the image on the left.}",
        "checks: []",
        "",
        f"seed: {wanted.seed}  # of sides and order",
        "resume: resume  # after a reload: resume, restart or refuse",
        "# completion_code: C1234567",
        "# return_address: https://app.prolific.com/submissions/complete?cc=C1234567",
        "# stopping: {interval: 1.0, answers: 5000, participants: 60}  # mean width of the 95 % intervals; or a limit",
    ]
    return "\n".join(lines) + "\n"


def _usual_trials(kind: Kind, choice: PairChoice, images: int) -> int | None:
    if kind == "pairs" and choice in ("random", "adaptive"):
        return min(_MOST_TRIALS, images * (images - 1) // 2)
    return None


def _line(name: str, value: object) -> str:
    text: str = yaml.safe_dump({name: value}, allow_unicode=True, sort_keys=False, width=10_000)
    return text.rstrip("\n")


def _given_pairs(
    folder: Path, paths: Sequence[Path], table: Path | None, report: Callable[[str], None]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Pairs of images by their names in the folder, and the person of each, if the table has that column."""
    if table is None:
        return [], []
    frame = read_table(table)
    notes: list[str] = list(frame.attrs["notes"])
    one = find_column(frame, None, ("with", *FIRST), "first image")
    other = find_column(frame, None, ("without", *SECOND), "second image")
    if one is None or other is None:
        raise CallError(f"{table}: no columns for the two images of a pair; name them first and second")
    index = ImageIndex(folder, paths)
    firsts, seconds = texts(frame[one]), texts(frame[other])
    matched = match_names(filter(None, [*firsts, *seconds]), index, table.name, notes)
    who = find_column(frame, None, ("person",), "person")
    people = texts(frame[who]) if who is not None else [""] * len(frame)
    rows = [
        (matched[a].relative_to(folder).as_posix(), matched[b].relative_to(folder).as_posix(), person)
        for a, b, person in zip(firsts, seconds, people, strict=True)
        if a in matched and b in matched
    ]
    if len(rows) < len(frame):
        notes.append(f"left out: {counted(len(frame) - len(rows), 'row')} where an image has no name or no file")
    for note in notes:
        report(note)
    if not rows:
        raise CallError(f"{table}: no pair of images that are in {folder}")
    return [(a, b) for a, b, _ in rows], [person for _, _, person in rows] if all(p for _, _, p in rows) else []
