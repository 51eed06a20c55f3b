"""What the page and the service say to each other."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Stage = Literal["trial", "finished", "closed"]

_LONGEST_MS = 7 * 24 * 3600 * 1000


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class EnterBody(_Body):
    """Somebody agreed to take part; `personal` are parameters of the address, such as PROLIFIC_PID.

    `token` is made by the browser, at random: the same request may be sent again until the first answer. Without it the
    service makes one.
    """

    agreed: bool
    language: str = Field("", max_length=35)
    personal: dict[str, str] = Field(default_factory=dict, max_length=8)
    token: str | None = Field(None, pattern=r"^[A-Za-z0-9_-]{32,64}$")


class AnswerBody(_Body):
    """The answer to a trial: a rating, the key of an image, or "similar"."""

    trial: str = Field(max_length=64)
    answer: int | str
    response_ms: int = Field(ge=0, le=_LONGEST_MS)


class ForgetBody(_Body):
    """Whose personal data is to be deleted; with `answers`, all that the participant answered too."""

    participant: str = Field(max_length=64)
    answers: bool = False


class Problem(BaseModel):
    """Why a request was refused: a line, and a word that the page has a text for."""

    error: str
    reason: str | None = None


class ScaleView(BaseModel):
    """The ratings that can be given, and words for some of them."""

    low: int
    high: int
    labels: dict[str, str]


class StudyView(BaseModel):
    """What everybody may know about the study, in one language."""

    study: str
    title: str
    kind: str
    language: str
    languages: list[str]
    question: str
    consent: str
    instructions: str
    scale: ScaleView | None
    similar: str | None
    first: str | None
    second: str | None
    parameters: list[str]
    resume: str
    full: str | None


class TrialView(BaseModel):
    """A trial as it is shown; `images` are keys, in their places."""

    trial: str
    kind: str
    practice: bool
    question: str
    images: list[str]


class SessionView(BaseModel):
    """Where a participant is; `ahead` are images that come soon, `rest` is a moment for a break."""

    participant: str
    stage: Stage
    language: str
    done: int
    total: int
    practice_done: int
    practice_total: int
    rest: bool
    trial: TrialView | None
    ahead: list[str]
    thanks: str | None = None
    code: str | None = None
    return_address: str | None = None


class EnterAnswer(BaseModel):
    """The token of a session, which nothing else opens, and where the participant is."""

    token: str
    state: SessionView


class SavedAnswer(BaseModel):
    """An answer is on the disk; `repeated` if the trial had been answered before, whose answer stays."""

    saved: Literal[True] = True
    repeated: bool
    state: SessionView


class ForgetAnswer(BaseModel):
    """How many fields of personal data and how many answers were deleted."""

    personal: int
    answers: int


def request_body(kind: type[BaseModel]) -> dict[str, Any]:
    """A body that is read by hand, as OpenAPI describes it."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": kind.model_json_schema()}}}}
