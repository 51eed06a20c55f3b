"""What the researcher sees while a study runs: participants, answers, the scale with intervals, when to stop."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from statistics import median

from pydantic import BaseModel

import uol
from uol.study.answers import Answer
from uol.study.sessions import Session, Sessions
from uol.study.tables import now

_FRESH_SECONDS = 3.0  # for which figures are shown again without computing them
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
    seconds: float | None
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
        self._answers: list[Answer] = []
        self._erasures = 0
        self._last: tuple[float, LiveAnswer] | None = None

    async def answer(self) -> LiveAnswer:
        """The figures, computed if they are not fresh."""
        async with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > _FRESH_SECONDS:
                self._last = (0.0, await asyncio.to_thread(self._compute))
                self._last = (time.monotonic(), self._last[1])
            return self._last[1]

    async def watch(self) -> None:
        """Look at the width of the intervals from time to time, if the study stops by it."""
        while self._sessions.study.settings.stopping.interval is not None:
            await self.answer()
            await asyncio.sleep(_CHECK_SECONDS)

    def answers_csv(self) -> str:
        """All answers as the table that `uol study export` writes."""
        return ""

    def _compute(self) -> LiveAnswer:
        sessions, settings = self._sessions, self._sessions.study.settings
        answers = self._read()
        language = settings.languages[0]
        everybody = sessions.all()
        return LiveAnswer(
            title=settings.text(settings.title, language), kind=settings.kind,
            question=settings.text(settings.question, language), version=uol.__version__, at=now(),
            active=sum(one.is_active() for one in everybody),
            finished=sum(one.state == "finished" for one in everybody), begun=len(everybody),
            answers=sum(one.counts for one in answers), per_minute=_per_minute(answers),
            people=[_person(one, answers) for one in everybody if one.state != "erased"],
            unit="", scale=[], width=None, reliability=[], stopping=[], full=sessions.full(), note=None,
        )  # fmt: skip

    def _read(self) -> list[Answer]:
        """All answers; those that were read before are not read again."""
        if self._erasures != self._sessions.erasures:
            self._erasures, self._answers = self._sessions.erasures, []
        self._answers += self._sessions.store.answers(after=len(self._answers))
        return list(self._answers)


def _per_minute(answers: list[Answer]) -> list[int]:
    """How many answers each of the last minutes had, the latest last."""
    counts, end = [0] * _MINUTES, datetime.now(UTC)
    for answer in reversed(answers):
        age = int((end - answer.at).total_seconds() // 60)
        if age >= _MINUTES:
            break
        counts[-1 - max(0, age)] += 1
    return counts


def _person(session: Session, answers: list[Answer]) -> Person:
    mine = [answer for answer in answers if answer.session == session.name]
    times = [answer.response_ms for answer in mine if answer.kind != "practice"]
    return Person(
        participant=session.participant, session=session.name, state=session.state, active=session.is_active(),
        done=session.done, total=len(session.trials), language=session.language,
        seconds=median(times) / 1000 if times else None, flags=[],
    )  # fmt: skip
