"""What a study found, as tables: answers, the scale, pairs, participants, reliability and intransitivity.

Everything is computed from a list of answers. Nobody is left out silently: participants with doubtful answers are
flagged, and their answers count unless they are left out by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.errors import UolError
from uol.order.order import Order
from uol.ratings.ratings import Ratings
from uol.ratings.reliability import krippendorff_alpha, reliability, spearman_brown
from uol.runs.makeup import AGREEING
from uol.study.answers import Answer
from uol.study.folder import Study
from uol.study.scaling import NORMAL, RatingMeans, ScaleFit, best_of, bradley_terry, rating_means, thurstone
from uol.study.settings import SIMILAR
from uol.study.votes import PairVotes, choices_of, pairs_of_choices, ratings_of, votes_of

Floats = npt.NDArray[np.float64]

VOTERS = 7  # of the paper's make-up pairs, of whom more than AGREEING must agree
_HALVES = 20


@dataclass(frozen=True)
class Results:
    """The answers of a study with what follows from them; each figure is computed when it is first used.

    `left_out` are participants whose answers do not count; `rated` are mean ratings of the same images, from another
    study, for a scale that joins both.
    """

    study: Study
    answers: Sequence[Answer]
    left_out: frozenset[str] = frozenset()
    rated: RatingMeans | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        unknown = {name for answer in self.answers for name in answer.images} - set(self.study.files)
        if unknown:
            raise UolError(f"{self.study.path}: answers name the image {min(unknown)!r}, which the study has not")

    @cached_property
    def counted(self) -> list[Answer]:
        """The answers that make the scale: no practice, repeats or checks, and nobody who is left out."""
        return [answer for answer in self.answers if answer.counts and answer.participant not in self.left_out]

    @cached_property
    def votes(self) -> PairVotes:
        """What the counted answers say of pairs; of best-of-four, the chosen image is greater than each other."""
        if self.study.settings.kind == "best-of-four":
            return pairs_of_choices(choices_of(self.counted, self.study.ids))
        return votes_of(self.counted, self.study.ids)

    @cached_property
    def ratings(self) -> Ratings | None:
        """The counted ratings, images × participants; None for votes."""
        return ratings_of(self.counted) if self.study.settings.kind == "ratings" and self.counted else None

    @cached_property
    def scale(self) -> ScaleFit | None:
        """The scale to use: Bradley-Terry's; None for ratings and while nobody has answered."""
        kind, ids = self.study.settings.kind, self.study.ids
        if kind == "ratings" or not self.counted:
            return None
        if kind == "best-of-four":
            choices = choices_of(self.counted, ids)
            return best_of(choices.images, choices.best, len(ids))
        return bradley_terry(*self.votes[:3], len(ids))

    @cached_property
    def scales(self) -> dict[str, ScaleFit]:
        """Every scale that the votes allow, by its name in the tables; the first is the one to use."""
        if self.scale is None:
            return {}
        found = {"bradley_terry": self.scale}
        if self.study.settings.kind == "pairs":
            votes, images = self.votes[:3], len(self.study.ids)
            found |= {f"thurstone_{case}": thurstone(*votes, images, case=case) for case in (5, 3)}
            if self.rated is not None:
                found["with_ratings"] = thurstone(*votes, images, ratings=self.rated)
        return found

    @property
    def width(self) -> float | None:
        """Mean width of the 95 % intervals: of scale values in logits, or of mean ratings; None if not known."""
        if self.scale is not None:
            return self.scale.width
        if self.ratings is None:
            return None
        width = 2 * NORMAL * float(np.mean(rating_means(self.ratings.matrix).standard_error))
        return width if np.isfinite(width) else None


def scale_table(results: Results) -> pd.DataFrame:
    """A row per image: how often it was judged, and its place on every scale with standard error and 95 % interval."""
    study = results.study
    shown = pd.Series([name for answer in results.counted for name in answer.images]).value_counts()
    table = pd.DataFrame({"image": study.ids, "judged": [int(shown.get(name, 0)) for name in study.ids]})
    if results.ratings is not None:
        ratings, place = results.ratings, study.places
        rows = [place[name] for name in ratings.images]
        means = rating_means(ratings.matrix)
        half = NORMAL * means.standard_error
        figures = {
            "mean": means.mean, "sd": np.sqrt(ratings.variance), "standard_error": means.standard_error,
            "low_95": means.mean - half, "high_95": means.mean + half,
        }  # fmt: skip
        for name, column in figures.items():
            table[name] = np.nan
            table.loc[rows, name] = column
        return table
    for name, fit in results.scales.items():
        table[name] = fit.value
        table[f"{name}_se"] = fit.standard_error
        table[f"{name}_low_95"], table[f"{name}_high_95"] = fit.low, fit.high
        if fit.dispersion is not None:
            table[f"{name}_dispersion"] = fit.dispersion
    if len(results.votes.outcome):
        table["agreement"] = _agreement_by_image(results)
    return table


def pair_table(results: Results) -> pd.DataFrame:
    """A row per pair that was judged: votes for either image, agreement, and the paper's rule.

    `agreement` is the share of votes for the more frequent outcome. `agreed` says whether more than 5 of 7 voters
    preferred the same image, in proportion if there are more voters; empty below 7 votes.
    """
    names = ["first", "second", "votes", "prefer_first", "similar", "prefer_second", "agreement", "agreed"]
    votes, ids = results.votes, results.study.ids
    if not len(votes.outcome):
        return pd.DataFrame(columns=names)
    given = {frozenset(pair): pair for pair in results.study.given}
    counts: dict[tuple[str, str], list[int]] = {}
    for one, other, outcome in zip(*(part.tolist() for part in votes[:3]), strict=True):
        pair = given.get(frozenset((ids[one], ids[other])), (ids[min(one, other)], ids[max(one, other)]))
        turned = int(outcome) if pair[0] == ids[one] else int(Order.GREATER) - int(outcome)  # LESS is 0
        counts.setdefault(pair, [0, 0, 0])[turned] += 1
    rows = []
    for (one, other), (less, similar, greater) in sorted(counts.items()):
        total = less + similar + greater
        agreed = max(less, greater) > AGREEING * total / VOTERS if total >= VOTERS else None
        rows.append((one, other, total, greater, similar, less, max(less, similar, greater) / total, agreed))
    return pd.DataFrame(rows, columns=names)


def study_reliability(results: Results, seed: int = 0) -> dict[str, float | None]:
    """How far people agree.

    Ratings: every figure of `ratings.reliability`. Votes: Krippendorff's alpha of outcomes (nominal), and the
    correlation of the scales of two halves of the participants, with the prediction for all of them (Spearman-Brown),
    None where that would be below −1.
    """
    if results.ratings is not None:
        return reliability(results.ratings, seed)
    if not len(results.votes.outcome):
        return {}
    r = _split_half(results, np.random.default_rng(seed))
    values = {
        "krippendorff_alpha": krippendorff_alpha(_outcome_matrix(results.votes), "nominal"),
        "split_half": r,
        "spearman_brown": spearman_brown(r),
    }
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}


def intransitivity(votes: PairVotes, images: int) -> dict[str, int | float | None]:
    """Circular triads (a over b, b over c, c over a) among majorities: their number, of how many, and the share.

    With votes at random a quarter of the triads are circular. Pairs without a majority count in no triad.
    """
    balance = np.zeros((images, images))
    sign = np.asarray(votes.outcome, np.float64) - float(Order.SIMILAR)
    np.add.at(balance, (votes.first, votes.second), sign)
    wins = ((balance - balance.T) > 0).astype(np.float64)
    decided = wins + wins.T
    circular = round(float(np.trace(wins @ wins @ wins)) / 3)
    triads = round(float(np.trace(decided @ decided @ decided)) / 6)
    return {"circular": circular, "triads": triads, "share": circular / triads if triads else None}


def side_share(results: Results) -> tuple[int, int]:
    """How often the image on the left was chosen, and of how many decided votes on pairs."""
    sides = [answer.side for answer in results.counted if answer.side is not None]
    return sides.count("left"), len(sides)


def repeats(answers: Sequence[Answer]) -> pd.DataFrame:
    """A row per repeated trial: participant, first and second answer, and whether they are the same."""
    first = {(a.session, a.trial): a for a in answers if a.kind == "trial"}
    rows = [
        (again.participant, again.session, before.answer, again.answer, before.answer == again.answer)
        for again in answers
        if again.kind == "repeat" and (before := first.get((again.session, str(again.of)))) is not None
    ]
    return pd.DataFrame(rows, columns=["participant", "session", "first", "second", "same"])


def answer_table(study: Study, answers: Sequence[Answer]) -> pd.DataFrame:
    """A row per answer, practice and checks included, with the columns that researchers expect."""
    places = {"ratings": ["image"], "pairs": ["left", "right"]}.get(
        study.settings.kind, [f"image_{place + 1}" for place in range(study.settings.set_size)]
    )
    rows = []
    for answer in answers:
        row: dict[str, object] = {
            "session": answer.session, "participant": answer.participant, "trial": answer.trial,
            "order": answer.order, "kind": answer.kind, **dict(zip(places, answer.images, strict=True)),
        }  # fmt: skip
        if study.settings.kind == "ratings":
            row["rating"] = answer.answer
        else:
            row["answer"] = answer.answer
            if study.settings.kind == "pairs":
                row["side"] = answer.side or SIMILAR
            else:
                row["place"] = answer.images.index(str(answer.answer)) + 1
        row |= {
            "response_ms": answer.response_ms, "timestamp": answer.at.isoformat(), "language": answer.language,
            "repeats": answer.of if answer.kind == "repeat" else None, "correct": answer.correct,
        }  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows)


def _agreement_by_image(results: Results) -> Floats:
    """The share of decided votes on pairs with each image that follow the scale; NaN where there is none."""
    votes, fit = results.votes, results.scale
    assert fit is not None
    sign = np.asarray(votes.outcome) - int(Order.SIMILAR)
    right = np.sign(fit.value[votes.first] - fit.value[votes.second]) == sign
    decided, images = sign != 0, len(fit.value)
    ends = np.concatenate([votes.first[decided], votes.second[decided]])
    total = np.bincount(ends, minlength=images)
    good = np.bincount(ends, np.tile(right[decided], 2), images)
    return np.asarray(np.divide(good, total, out=np.full(images, np.nan), where=total > 0))


def _outcome_matrix(votes: PairVotes) -> Floats:
    """Outcomes as pairs × participants, NaN where one did not judge; of repeated judgements the last."""
    low, high = np.minimum(votes.first, votes.second), np.maximum(votes.first, votes.second)
    turned = np.where(votes.first == low, votes.outcome, int(Order.GREATER) - votes.outcome)
    pairs, rows = np.unique(np.stack([low, high], 1), axis=0, return_inverse=True)
    people, columns = np.unique(np.array(votes.participant), return_inverse=True)
    matrix = np.full((len(pairs), len(people)), np.nan)
    matrix[rows.ravel(), columns] = turned
    return matrix


def _split_half(results: Results, rng: np.random.Generator) -> float:
    """Mean correlation of scales from two random halves of the participants; NaN for fewer than four people."""
    votes, images = results.votes, len(results.study.ids)
    people, whose = np.unique(np.array(votes.participant), return_inverse=True)
    if len(people) < 4:
        return np.nan
    found = []
    for _ in range(_HALVES):
        chosen = rng.permutation(len(people)) < len(people) // 2
        halves = []
        for half in (chosen[whose], ~chosen[whose]):
            fit = bradley_terry(votes.first[half], votes.second[half], votes.outcome[half], images)
            seen = np.zeros(images, bool)
            seen[votes.first[half]] = seen[votes.second[half]] = True
            halves.append(np.where(seen, fit.value, np.nan))
        both = np.isfinite(halves[0]) & np.isfinite(halves[1])
        if both.sum() > 2 and all(np.ptp(half[both]) > 0 for half in halves):
            found.append(float(np.corrcoef(halves[0][both], halves[1][both])[0, 1]))
    return float(np.mean(found)) if found else np.nan
