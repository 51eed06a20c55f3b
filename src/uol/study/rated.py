"""A study as rated images: what `uol anchor` and `uol train` take."""

from __future__ import annotations

import numpy as np

from uol.errors import UolError
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale
from uol.study.results import Results

_MOST_LEVELS = 21


def rated_images(results: Results) -> RatedImages:
    """The images of a study that people judged: with their ratings, or with scale values of votes in logits."""
    if not results.counted:
        raise UolError(f"{results.study.path}: nobody has answered yet")
    return rated_of_votes(results) if results.ratings is None else rated_of_ratings(results)


def rated_of_ratings(results: Results) -> RatedImages:
    """Every rated image with its ratings."""
    ratings, study = results.ratings, results.study
    assert ratings is not None
    scale = study.settings.scale
    levels = np.array(scale.levels, np.float64) if len(scale.levels) <= _MOST_LEVELS else None
    return RatedImages(
        name=study.path.resolve().name,
        images=[study.files[name] for name in ratings.images],
        names=ratings.images,
        scores=ratings.mean,
        scale=Scale(float(scale.low), float(scale.high)),
        variances=ratings.variance,
        counts=ratings.count,
        histograms=None if levels is None else ratings.histogram(levels),
        levels=levels,
        ratings=ratings,
        notes=_notes(results, len(ratings.images)),
    )


def rated_of_votes(results: Results) -> RatedImages:
    """Every image that was judged with its scale value and standard error."""
    study, fit, votes = results.study, results.scale, results.votes
    assert fit is not None
    judged = np.bincount(np.concatenate([votes.first, votes.second]), minlength=len(study.ids))
    rows = np.flatnonzero(judged)
    value = fit.value[rows]
    notes = _notes(results, len(rows))
    if fit.islands > 1 + len(study.ids) - len(rows):
        notes.append("some sets of images share no vote: their order relative to each other is a guess")
    low, high = np.floor(value.min() - 1e-9), np.ceil(value.max() + 1e-9)
    return RatedImages(
        name=study.path.resolve().name,
        images=[study.files[study.ids[row]] for row in rows],
        names=[study.ids[row] for row in rows],
        scores=value,
        scale=Scale(float(low), float(high)),
        counts=judged[rows].astype(np.int64),
        people=len(set(votes.participant)),
        standard_errors=fit.standard_error[rows],
        notes=notes,
    )


def _notes(results: Results, judged: int) -> list[str]:
    notes = []
    if judged < len(results.study.ids):
        notes.append(f"left out: {len(results.study.ids) - judged} images that nobody has judged")
    if results.left_out:
        notes.append(f"left out: the answers of {', '.join(sorted(results.left_out))}")
    return notes
