"""What the researcher sees while a study runs: participants, answers, the scale with intervals, when to stop."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel

import uol
from uol.storage.csv_text import frame_text
from uol.study.answers import Answer
from uol.study.participants import participant_table
from uol.study.progress import stop_reason
from uol.study.results import Results, answer_table, intransitivity, repeats, side_share, study_reliability
from uol.study.scaling import NORMAL, rating_means
from uol.study.sessions import Session, Sessions
from uol.study.tables import now

_FRESH_SECONDS = 3.0  # for which figures are shown again without computing them
_SHARE = 20  # figures are computed again after so many times as long as computing them took
_CHECK_SECONDS = 30.0  # between looks at the width of intervals, if the study stops by it
_MINUTES = 60
_ENOUGH = "this study has all the answers that it needs"


class Person(BaseModel):
    """A session of a participant."""

    participant: str
    session: str
    state: str
    active: bool
    done: int
    total: int
    language: str
    flags: list[str]


class ScaleRow(BaseModel):
    """An image on the scale."""

    image: str
    key: str
    value: float
    low: float
    high: float
    answers: int


class Figure(BaseModel):
    """A number with its name and, where known, its interval."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


class Stop(BaseModel):
    """A condition that ends the study: where it is, and where it ends."""

    rule: str
    now: float | None
    target: float
    met: bool


class LiveAnswer(BaseModel):
    """How far the study is; `note` says why there is no scale yet."""

    title: str
    kind: str
    question: str
    version: str
    at: str
    active: int
    finished: int
    begun: int
    answers: int
    per_minute: list[int]
    people: list[Person]
    unit: str
    scale: list[ScaleRow]
    width: float | None
    reliability: list[Figure]
    stopping: list[Stop]
    full: str | None
    note: str | None


class Live:
    """Figures of a running study, computed at most every few seconds, aside of the requests of participants."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._lock = asyncio.Lock()
        self._last: tuple[float, LiveAnswer] | None = None  # until when it is fresh
        self._reliable: tuple[float, list[Figure], float] = (-float("inf"), [], 0.0)

    async def answer(self) -> LiveAnswer:
        """The figures, computed if they are not fresh."""
        async with self._lock:
            began = time.monotonic()
            if self._last is None or began > self._last[0]:
                found = await asyncio.to_thread(self._compute)
                taken = time.monotonic() - began
                self._last = (time.monotonic() + max(_FRESH_SECONDS, _SHARE * taken), found)
            return self._last[1]

    async def watch(self) -> None:
        """Look at the width of the intervals from time to time, if the study stops by it."""
        while self._sessions.study.settings.stopping.interval is not None:
            await self.answer()
            await asyncio.sleep(_CHECK_SECONDS)

    def answers_csv(self) -> str:
        """All answers as the table that `uol study export` writes."""
        return frame_text(answer_table(self._sessions.study, self._sessions.answers()))

    def _compute(self) -> LiveAnswer:
        sessions, settings = self._sessions, self._sessions.study.settings
        results = Results(sessions.study, sessions.answers())
        language, everybody = settings.languages[0], sessions.all()
        table = participant_table(results)
        reasons = dict(zip(table["participant"], table["reason"], strict=True)) if len(table) else {}
        width, scale = results.width, _scale(results, sessions)
        taking_part = sessions.taking_part()
        reason = stop_reason(results, taking_part)
        sessions.enough = _ENOUGH if settings.stopping.interval is not None and reason is not None else None
        return LiveAnswer(
            title=settings.text(settings.title, language), kind=settings.kind,
            question=settings.text(settings.question, language), version=uol.__version__, at=now(),
            active=sum(one.is_active() for one in everybody),
            finished=sum(one.state == "finished" for one in everybody), begun=len(everybody),
            answers=len(results.counted), per_minute=_per_minute(results.answers),
            people=[_person(one, reasons) for one in everybody if one.state != "erased"],
            unit="rating" if settings.kind == "ratings" else "logits", scale=scale, width=width,
            reliability=self._reliability(results), stopping=_stopping(results, taking_part, width),
            full=sessions.full(), note=_note(results, scale),
        )  # fmt: skip

    def _reliability(self, results: Results) -> list[Figure]:
        """How far people agree: two halves of the participants take many fits, hence more seldom."""
        last, found, taken = self._reliable
        if not found or time.monotonic() - last > max(10 * _FRESH_SECONDS, _SHARE * taken):
            began = time.monotonic()
            figures = {**study_reliability(results), **_consistency(results)} if results.counted else {}
            found = [Figure(name=name, value=value) for name, value in figures.items() if value is not None]
            self._reliable = (time.monotonic(), found, time.monotonic() - began)
        return found


def _scale(results: Results, sessions: Sessions) -> list[ScaleRow]:
    """The images that somebody judged, from best to worst."""
    judged = Counter(name for answer in results.counted for name in answer.images)
    if results.scale is not None:
        fit, names = results.scale, results.study.ids
        columns = (fit.value, fit.low, fit.high)
    elif results.ratings is not None:
        means, names = rating_means(results.ratings.matrix), tuple(results.ratings.images)
        half = NORMAL * means.standard_error
        columns = (means.mean, means.mean - half, means.mean + half)
    else:
        return []
    rows = [
        ScaleRow(image=name, key=sessions.key(name), value=value, low=low, high=high, answers=judged[name])
        for name, value, low, high in zip(names, *(column.tolist() for column in columns), strict=True)
        if judged[name] and all(map(math.isfinite, (value, low, high)))
    ]
    return sorted(rows, key=lambda row: -row.value)


def _note(results: Results, scale: list[ScaleRow]) -> str | None:
    if not scale:
        return "There are not enough answers for a scale yet."
    if results.scale is not None and results.scale.islands > 1:
        sets = results.scale.islands
        return f"The images are in {sets} sets that no vote connects yet: values of different sets cannot be compared."
    return None


def _consistency(results: Results) -> dict[str, float | None]:
    same = repeats(results.answers)
    found: dict[str, float | None] = {"repeats_answered_the_same": float(same["same"].mean()) if len(same) else None}
    if results.scale is not None:
        share = intransitivity(results.votes, len(results.study.ids))["share"]
        found["circular_triads"] = None if share is None else float(share)
    if results.study.settings.kind == "pairs":
        left, decided = side_share(results)
        found["left_side_chosen"] = left / decided if decided else None
    return found


def _stopping(results: Results, taking_part: int, width: float | None) -> list[Stop]:
    stopping = results.study.settings.stopping
    reached = {"answers": len(results.counted), "participants": taking_part}
    rules = [
        Stop(rule=rule, now=reached[rule], target=target, met=reached[rule] >= target)
        for rule, target in (("answers", stopping.answers), ("participants", stopping.participants))
        if target is not None
    ]
    if stopping.interval is not None:
        connected = results.scale is None or results.scale.islands == 1
        met = width is not None and connected and width <= stopping.interval
        rules.append(Stop(rule="interval", now=width, target=stopping.interval, met=met))
    return rules


def _per_minute(answers: Sequence[Answer]) -> list[int]:
    """How many answers each of the last minutes had, the latest last."""
    counts, end = [0] * _MINUTES, datetime.now(UTC)
    for answer in reversed(answers):
        age = int((end - answer.at).total_seconds() // 60)
        if age >= _MINUTES:
            break
        counts[-1 - max(0, age)] += 1
    return counts


def _person(session: Session, reasons: dict[str, str]) -> Person:
    reason = reasons.get(session.participant, "")
    return Person(
        participant=session.participant, session=session.name, state=session.state, active=session.is_active(),
        done=session.done, total=len(session.trials), language=session.language,
        flags=reason.split("; ") if reason else [],
    )  # fmt: skip
