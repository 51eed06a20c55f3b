"""One answer of one participant: the record that is stored, simulated, exported and analysed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from uol.study.settings import SIMILAR

TrialKind = Literal["practice", "trial", "repeat", "check"]


class Trial(NamedTuple):
    """What one participant sees at one moment: `images` are ids, from left to right and from top to bottom.

    `trial` names it within the session (trial-12); `of` is the trial that a repeat repeats, or the number of an
    attention check in the settings, from 1.
    """

    trial: str
    order: int
    kind: TrialKind
    images: tuple[str, ...]
    of: str | None = None


class Answer(BaseModel):
    """A participant's answer to a trial.

    `answer` is a rating, or the id of the image that was chosen, or "similar". `images` are in the places in which
    they were shown. `correct` is None for all but attention checks. `at` is the time in UTC at which the answer was
    saved; `response_ms` is measured in the participant's browser, from the moment the images were visible.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: str
    participant: str
    trial: str
    order: int = Field(ge=1)
    kind: TrialKind
    images: tuple[str, ...] = Field(min_length=1)
    answer: int | str
    response_ms: int = Field(ge=0)
    at: AwareDatetime
    language: str = "en"
    of: str | None = None
    correct: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.answer, str):
            if self.answer not in (*self.images, SIMILAR):
                raise ValueError(f"answer: {self.answer!r} is none of the images")
        elif len(self.images) > 1:
            raise ValueError("answer: a number answers one image, not several")
        if (self.kind == "check") != (self.correct is not None):
            raise ValueError("correct: attention checks have it, and nothing else does")
        return self

    @property
    def counts(self) -> bool:
        """Whether it is part of the scale: repeats, checks and practice are not."""
        return self.kind == "trial"

    @property
    def side(self) -> str | None:
        """Where the chosen image stood in a pair: left or right."""
        if len(self.images) != 2 or self.answer == SIMILAR:
            return None
        return "left" if self.answer == self.images[0] else "right"


def answered(
    trial: Trial, answer: int | str, *, session: str, participant: str, response_ms: int, at: datetime,
    language: str = "en", correct: bool | None = None,
) -> Answer:  # fmt: skip
    """The record of an answer to a trial."""
    return Answer(
        session=session, participant=participant, trial=trial.trial, order=trial.order, kind=trial.kind,
        images=trial.images, answer=answer, response_ms=response_ms, at=at, language=language, of=trial.of,
        correct=correct,
    )  # fmt: skip
