"""The settings of a study, in one checked YAML file: what people are asked, about which images, and how often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Kind = Literal["ratings", "pairs", "best-of-four"]
PairChoice = Literal["all", "random", "adaptive", "given"]
Resume = Literal["resume", "restart", "refuse"]

SIMILAR = "similar"  # the answer of a pair that is neither less nor greater: no image has this id
SET_SIZES: dict[Kind, int] = {"ratings": 1, "pairs": 2, "best-of-four": 4}
_MOST_LEVELS = 1001

Text = str | dict[str, str]
"""A text in every language of the study: one string for all, or a string for each language."""


class _Part(BaseModel):
    """A part of the settings: no other names than these, no changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RatingScale(_Part):
    """The whole numbers that people rate with, and words for some of them."""

    low: int = 1
    high: int = 7
    labels: dict[int, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"scale: low {self.low} must be below high {self.high}")
        if self.high - self.low >= _MOST_LEVELS:
            raise ValueError(f"scale: at most {_MOST_LEVELS} levels, not {self.high - self.low + 1}")
        outside = [level for level in self.labels if not self.low <= level <= self.high]
        if outside:
            raise ValueError(f"scale: label for {outside[0]}, which is outside {self.low} to {self.high}")
        return self

    @property
    def levels(self) -> range:
        """All ratings that people can give."""
        return range(self.low, self.high + 1)


class Labels(_Part):
    """Words on the page that belong to the question."""

    similar: Text = "About the same"
    first: Text | None = None
    second: Text | None = None


class Images(_Part):
    """Where the images are: `folder` is relative to the study folder; `table` lists id and file of each image."""

    folder: str
    table: str = "images.csv"


class Stopping(_Part):
    """When a study has enough answers; any of the conditions that are set ends it.

    `interval` is the mean width of the 95 % intervals: of scale values in logits, of ratings on their scale.
    """

    interval: float | None = Field(None, gt=0)
    answers: int | None = Field(None, gt=0)
    participants: int | None = Field(None, gt=0)


class Pairs(_Part):
    """Which pairs are shown; `table` lists the given pairs (columns first and second)."""

    choice: PairChoice = "random"
    table: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.choice == "given") != (self.table is not None):
            raise ValueError("pairs: choice given requires table, and only this choice has one")
        return self


class Check(_Part):
    """An attention check: images whose right answer is known, or a question that says what to answer.

    `accepted` are ids of images, "similar" or ratings. With a `question` the images keep their places, the first on
    the left.
    """

    images: tuple[str, ...]
    accepted: tuple[int | str, ...] = Field(min_length=1)
    question: Text | None = None


class StudySettings(_Part):
    """Everything that a study folder's `study.yaml` says."""

    title: Text
    kind: Kind
    question: Text
    images: Images
    languages: tuple[str, ...] = Field(("en",), min_length=1)
    similar: bool = False
    scale: RatingScale = RatingScale()
    labels: Labels = Labels()
    consent: Text = ""
    instructions: Text = ""
    thanks: Text = "Thank you for taking part."
    pairs: Pairs = Pairs()
    trials: Annotated[int, Field(gt=0, le=100_000)] | None = None
    repeats: int = Field(0, ge=0)
    checks: tuple[Check, ...] = ()
    practice: int = Field(0, ge=0, le=1000)
    break_every: Annotated[int, Field(gt=0)] | None = None
    seed: int = Field(0, ge=0, lt=2**32)
    resume: Resume = "resume"
    participant_parameter: str = "PROLIFIC_PID"
    completion_code: str | None = None
    return_address: str | None = None
    store_addresses: bool = False
    stopping: Stopping = Stopping()

    @field_validator("participant_parameter")
    @classmethod
    def _check_parameter(cls, name: str) -> str:
        if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) is None:
            raise ValueError(f"participant_parameter: up to 64 letters, digits, _, . and -, not {name[:80]!r}")
        return name

    @field_validator("return_address")
    @classmethod
    def _check_address(cls, address: str | None) -> str | None:
        if address is not None and not address.startswith(("https://", "http://")):
            raise ValueError("return_address: write it with https:// or http://")
        return address

    @model_validator(mode="after")
    def _check(self) -> Self:
        repeated = [language for language, times in Counter(self.languages).items() if times > 1]
        if repeated:
            raise ValueError(f"languages: {repeated[0]} is listed twice")
        for name, text in self._texts():
            missing = [] if isinstance(text, str) else [each for each in self.languages if each not in text]
            if missing:
                raise ValueError(f"{name}: no text in language {missing[0]}")
        if self.similar and self.kind != "pairs":
            raise ValueError("similar: only pairs can be similar")
        if self.kind != "pairs" and self.pairs != Pairs():
            raise ValueError(f"pairs: these settings are for kind pairs, not {self.kind}")
        if self.pairs.choice == "all" and self.trials is not None:
            raise ValueError("trials: choice all shows every pair to everyone; choose random to show a part")
        if self.pairs.choice == "adaptive" and self.trials is None:
            raise ValueError("trials: adaptive pairs require the number of trials of a participant")
        for number, check in enumerate(self.checks, 1):
            self._check_check(check, f"checks, number {number}")
        return self

    def _check_check(self, check: Check, name: str) -> None:
        size = SET_SIZES[self.kind]
        if len(check.images) != size or len(set(check.images)) != size:
            raise ValueError(f"{name}: {self.kind} need {size} different image{'s' if size > 1 else ''}")
        allowed: Iterable[Any] = self.scale.levels if self.kind == "ratings" else check.images
        allowed = [*allowed, SIMILAR] if self.similar else allowed
        wrong = [answer for answer in check.accepted if answer not in allowed]
        if wrong:
            raise ValueError(f"{name}: nobody can answer {wrong[0]!r}")

    def _texts(self) -> list[tuple[str, Text]]:
        texts = {"title": self.title, "question": self.question, "consent": self.consent}
        texts |= {"instructions": self.instructions, "thanks": self.thanks, "labels.similar": self.labels.similar}
        texts |= {f"scale.labels.{level}": text for level, text in self.scale.labels.items()}
        found: list[tuple[str, Text | None]] = [*texts.items()]
        found += [("labels.first", self.labels.first), ("labels.second", self.labels.second)]
        found += [(f"checks, number {number}", check.question) for number, check in enumerate(self.checks, 1)]
        return [(name, text) for name, text in found if text is not None]

    @property
    def set_size(self) -> int:
        """How many images a trial shows."""
        return SET_SIZES[self.kind]

    def text(self, text: Text, language: str) -> str:
        """A text in one language; in the study's first language if that one is missing."""
        return text if isinstance(text, str) else text.get(language, text[self.languages[0]])
