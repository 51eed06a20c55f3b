"""Studies without files, and answers to them, for tests that compute only."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from uol.study.answers import Answer
from uol.study.folder import Study, check_settings

AT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def study_of(images: int, kind: str = "pairs", given=(), people=(), **settings) -> Study:
    """A study of images i000, i001, …; nothing is read or written."""
    values = {"title": "Study", "question": "Which?", "images": {"folder": "."}, "kind": kind, **settings}
    files = {f"i{number:03d}": Path(f"i{number:03d}.png") for number in range(images)}
    return Study(Path("study"), check_settings(values, "study.yaml"), files, given, people)


def answer(images, given, participant="p1", kind="trial", trial="trial-1", **more) -> Answer:
    """An answer to images by their numbers; `given` is a number of an image, a rating of one, or a word."""
    names = tuple(f"i{number:03d}" for number in images)
    chosen = f"i{given:03d}" if isinstance(given, int) and len(images) > 1 else given
    values = {"session": f"s-{participant}", "order": 1, "response_ms": 900, "at": AT}
    return Answer(images=names, answer=chosen, participant=participant, kind=kind, trial=trial, **{**values, **more})
