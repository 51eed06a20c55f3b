"""How far a study is, and whether it has enough answers."""

from __future__ import annotations

from typing import NamedTuple

from uol.study.results import Results


class Progress(NamedTuple):
    """Figures of a study so far; `participants` have answered, `width` is the mean width of the 95 % intervals."""

    participants: int
    sessions: int
    answers: int
    images: int
    judged: int
    width: float | None
    islands: int | None
    failed_checks: int


def progress(results: Results) -> Progress:
    """Figures of a study so far."""
    answers = results.counted
    return Progress(
        participants=len({answer.participant for answer in results.answers}),
        sessions=len({answer.session for answer in results.answers}),
        answers=len(answers),
        images=len(results.study.ids),
        judged=len({name for answer in answers for name in answer.images}),
        width=results.width,
        islands=None if results.scale is None else results.scale.islands,
        failed_checks=sum(answer.correct is False for answer in results.answers),
    )


def stop_reason(results: Results, taking_part: int) -> str | None:
    """Which condition of the settings ends the study, in words; None while it goes on.

    `taking_part` people have finished or are answering.
    """
    stopping, answers = results.study.settings.stopping, len(results.counted)
    if stopping.answers is not None and answers >= stopping.answers:
        return f"{answers} answers (limit {stopping.answers})"
    if stopping.participants is not None and taking_part >= stopping.participants:
        return f"{taking_part} participants have finished or are answering (limit {stopping.participants})"
    width = results.width
    connected = results.scale is None or results.scale.islands == 1
    if stopping.interval is not None and width is not None and connected and width <= stopping.interval:
        return f"mean width of the intervals {width:.3g} (limit {stopping.interval:g})"
    return None
