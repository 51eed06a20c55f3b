"""Simulated participants, for planning: how many answers give which interval?

Participants judge by Thurstone's model: an image of value s makes an impression s + e, and e differs from one look to
the next with standard deviation √½, such that a comparison has standard deviation 1. Nothing here is a claim about
people: the spread of values and the noise are what the researcher assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from uol.errors import CallError, counted
from uol.ratings.metrics import coverage, spearman
from uol.ratings.scale import Scale
from uol.study.answers import Answer, Trial, answered
from uol.study.folder import Study
from uol.study.results import Results
from uol.study.scaling import NORMAL, rating_means, thurstone
from uol.study.settings import SIMILAR
from uol.study.trials import choose_sets, is_correct, participant_trials

Floats = npt.NDArray[np.float64]

LOGIT = 1.702  # logits in a unit of Thurstone's scale: the usual approximation
_NOISE = np.sqrt(0.5)
_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
MOST_ANSWERS = 100_000  # of one simulated study, without repeats and checks: seconds
MOST_ADAPTIVE = 20_000  # where each pair depends on all answers before
_STANDARD_DEVIATIONS = 6  # of values, that the scale of ratings spans


class People(NamedTuple):
    """How simulated participants judge.

    `ties` is the difference of impressions below which a pair is similar, `leniency` the standard deviation of raters'
    shifts, and `careless` the share of participants who answer at random.
    """

    ties: float = 0.3
    leniency: float = 0.3
    careless: float = 0.0


class Planned(NamedTuple):
    """What so many participants give: answers, mean width of intervals, rank correlation with the truth, coverage."""

    participants: int
    answers: int
    width: float
    spearman: float
    coverage: float


def draw_values(images: int, spread: float, rng: np.random.Generator) -> Floats:
    """True values of images: Gaussian with standard deviation `spread`, centred on zero."""
    values = spread * rng.standard_normal(images)
    return np.asarray(values - values.mean())


def simulate_answers(
    study: Study, values: Floats, participants: int, seed: int = 0, people: People | None = None
) -> list[Answer]:
    """The answers of so many participants, one after another, to the trials that the study would give them."""
    people = people or People()
    rng = np.random.default_rng([seed, 1])
    answers: list[Answer] = []
    now = _BEGIN
    for number in range(participants):
        judge = _Judge(study, values, people, rng)
        for trial in participant_trials(study, number, choose_sets(study, number, answers)):
            answer = judge.answer(trial)
            milliseconds = int(1000 * np.exp(rng.normal(0.5, 0.4)))
            now += timedelta(milliseconds=milliseconds)
            answers.append(
                answered(
                    trial,
                    answer,
                    session=f"s{number + 1:04d}",
                    participant=f"p{number + 1:04d}",
                    response_ms=milliseconds,
                    at=now,
                    language=study.settings.languages[0],
                    correct=is_correct(study.settings, trial, answer),
                )
            )
    return answers


def plan(
    study: Study,
    participants: Sequence[int],
    spread: float,
    seed: int = 0,
    repetitions: int = 5,
    people: People | None = None,
    report: Callable[[int], None] = lambda done: None,
) -> list[Planned]:
    """Means over repetitions of what the study would find with these numbers of participants, in rising order."""
    sizes = sorted(set(participants))
    adaptive = study.settings.kind == "pairs" and study.settings.pairs.choice == "adaptive"
    most = max(1, (MOST_ADAPTIVE if adaptive else MOST_ANSWERS) // study.trials)
    if sizes[-1] > most:
        raise CallError(f"{counted(sizes[-1], 'participant')}: too many to simulate; give at most {most}")
    found: list[list[Planned]] = [[] for _ in sizes]
    for repetition in range(repetitions):
        values = draw_values(len(study.ids), spread, np.random.default_rng([seed, repetition]))
        answers = simulate_answers(study, values, sizes[-1], seed + repetition, people)
        for place, size in enumerate(sizes):
            names = {f"p{number + 1:04d}" for number in range(size)}
            results = Results(study, [answer for answer in answers if answer.participant in names])
            found[place].append(_planned(results, size, values, people or People()))
        report(repetition + 1)
    return [_mean(size, rows) for size, rows in zip(sizes, found, strict=True)]


def _mean(size: int, rows: Sequence[Planned]) -> Planned:
    answers, width, rank, right = (float(np.mean([row[part] for row in rows])) for part in range(1, 5))
    return Planned(size, round(answers), width, rank, right)


class _Judge:
    """One participant."""

    def __init__(self, study: Study, values: Floats, people: People, rng: np.random.Generator) -> None:
        self.study, self.values, self.people, self.rng = study, values, people, rng
        self.careless = bool(rng.random() < people.careless)
        self.leniency = people.leniency * rng.standard_normal()

    def answer(self, trial: Trial) -> int | str:
        """An answer to a trial; attentive people pass every check."""
        settings = self.study.settings
        if self.careless:
            possible = list(settings.scale.levels) if settings.kind == "ratings" else list(trial.images)
            return possible[int(self.rng.integers(len(possible)))]
        if trial.kind == "check" and trial.of is not None:
            return settings.checks[int(trial.of) - 1].accepted[0]
        value = np.array([self.values[self.study.places[name]] for name in trial.images])
        if settings.kind == "best-of-four":  # Gumbel noise, under which Luce's rule holds
            return trial.images[int(np.argmax(LOGIT * value + self.rng.gumbel(size=len(value))))]
        impression = value + _NOISE * self.rng.standard_normal(len(value))
        if settings.kind == "ratings":
            return int(_levels(self.study, impression + self.leniency)[0])
        if settings.similar and abs(impression[0] - impression[1]) < self.people.ties:
            return SIMILAR
        return trial.images[int(np.argmax(impression))]


def _levels(study: Study, impressions: Floats) -> Floats:
    """Impressions as ratings: the middle of the scale is 0, and the scale spans six units."""
    low, high = study.settings.scale.low, study.settings.scale.high
    places = Scale(-0.5 * _STANDARD_DEVIATIONS, 0.5 * _STANDARD_DEVIATIONS).rescale(impressions, Scale(low, high))
    return np.asarray(np.clip(np.rint(places), low, high))


def _planned(results: Results, size: int, values: Floats, people: People) -> Planned:
    """What one simulated study found, against the truth."""
    study = results.study
    if results.ratings is not None:
        means = rating_means(results.ratings.matrix)
        rows = [study.places[name] for name in results.ratings.images]
        value, half = means.mean, NORMAL * means.standard_error
        truth = _expected_ratings(study, values, people)[rows]
        low, high = value - half, value + half
    elif study.settings.kind == "best-of-four":
        fit = results.scale
        assert fit is not None
        value, low, high, truth = fit.value, fit.low, fit.high, LOGIT * values
    else:
        fit = thurstone(*results.votes[:3], len(study.ids))
        value, low, high, truth = fit.value, fit.low, fit.high, values
    width, right = float(np.mean(high - low)), coverage(truth, low, high)
    return Planned(size, len(results.counted), width, spearman(truth, value), right)


def _expected_ratings(study: Study, values: Floats, people: People) -> Floats:
    """The mean rating that endlessly many participants would give each image."""
    noise = np.sqrt(_NOISE**2 + people.leniency**2) * ndtri((np.arange(2000) + 0.5) / 2000)
    return np.asarray(_levels(study, values[:, None] + noise).mean(axis=1))
