"""Drawn faces with a simulated panel: a data set that anyone may have, whose truth is known.

Nothing here is a photograph of anybody. A face is drawn from a few dozen numbers (`Face`), some of these numbers carry
a latent value, and raters are simulated by Thurstone's law of comparative judgement, Case III: what rater j makes of
face i is a Gaussian discriminal process x_ij = latent_i + dispersion_i · ε_ij + leniency_j, independent between
faces, with a dispersion for each face. A panel's standard turns x_ij into a rating on the panel's scale.

The latent value is the arbitrary rule of a drawing game. It says nothing about people, and nothing about faces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from uol.datasets.dataset_info import DatasetInfo
from uol.datasets.drawn_faces import draw_faces
from uol.datasets.face_shapes import BACKGROUNDS, CLOTHES, DYED, HAIR_COLOURS, HAIR_STYLES, IRISES, Face
from uol.errors import CallError
from uol.ratings.numerics import normal_quantile
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.ratings import Ratings
from uol.ratings.scale import Scale

__all__ = [
    "PANELS",
    "Panel",
    "dispersion",
    "draw_faces",
    "latent_attractiveness",
    "load_synthetic",
    "rate",
    "sample_parameters",
]

Floats = npt.NDArray[np.float64]

_SHAPES = (
    *("face_width", "jaw", "chin", "eye_size", "eye_spacing", "eye_height", "eye_tilt", "brow_height"),
    *("brow_thickness", "nose_width", "nose_length", "mouth_width", "lip_fullness", "bend", "lopsidedness"),
)
_PROPORTIONS = ["face_width", "jaw", "eye_spacing", "nose_width", "nose_length", "mouth_width"]
_HAIR_COLOUR_SHARES = (0.22, 0.22, 0.14, 0.12, 0.08, 0.08, 0.035, 0.035, 0.035, 0.035)
_HAIR_SHARES = (0.08, 0.14, 0.13, 0.14, 0.13, 0.13, 0.13, 0.08, 0.04)
_SMILE_MEAN, _SMILE_SD = 0.25, 0.38
_LATENT_MEAN, _LATENT_SD = -0.854, 0.928  # of the sum in `latent_attractiveness`, over the population of drawn faces
_SKIN_BANDS = ("light", "medium", "dark")


def sample_parameters(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw n faces at random: one row each, the fields of `Face` as columns.

    The i-th row takes the i-th row of a matrix of uniform numbers, so it does not depend on n.
    """
    uniform = dict(zip(Face._fields, rng.random((n, len(Face._fields))).T, strict=True))
    columns: dict[str, npt.NDArray[np.generic]] = {name: _normal(uniform[name]) for name in _SHAPES}
    for name in ("skin", "blush", "hair_length", "accent"):
        columns[name] = uniform[name]
    for name in ("undertone", "light"):
        columns[name] = 2 * uniform[name] - 1
    columns["smile"] = np.clip(_SMILE_MEAN + _SMILE_SD * _normal(uniform["smile"]), -1, 1)
    columns["unevenness"] = uniform["unevenness"] ** 1.5
    columns["beard"] = _sometimes(uniform["beard"], 0.28)
    columns["makeup"] = _sometimes(1 - uniform["beard"], 0.36)  # the same number: never both
    columns["glasses"] = _sometimes(uniform["glasses"], 0.25)
    columns["freckles"] = _sometimes(uniform["freckles"], 0.2)
    columns["iris"] = _choice(tuple(IRISES), uniform["iris"])
    columns["hair"] = _choice(HAIR_STYLES, uniform["hair"], _HAIR_SHARES)
    columns["hair_colour"] = _choice(tuple(HAIR_COLOURS), uniform["hair_colour"], _HAIR_COLOUR_SHARES)
    columns["background"] = (uniform["background"] * len(BACKGROUNDS)).astype(int)
    columns["clothes"] = (uniform["clothes"] * len(CLOTHES)).astype(int)
    columns["rotation"] = 3.0 * _normal(uniform["rotation"])
    columns["shift_x"], columns["shift_y"] = (0.03 * _normal(uniform[name]) for name in ("shift_x", "shift_y"))
    columns["zoom"] = 1 + 0.03 * _normal(uniform["zoom"])
    columns["grain"] = (uniform["grain"] * 2**32).astype(np.int64)
    return pd.DataFrame({name: columns[name] for name in Face._fields})


def latent_attractiveness(parameters: pd.DataFrame) -> Floats:
    """What the simulated raters judge, mean 0 and standard deviation 1 over the population of drawn faces.

        m (1.2 − 0.1 a) + 0.75 tanh(0.8 eye size) − 0.1 a − 0.1 o − 1.6 unevenness,  then standardised,

    with the merriness m = tanh(standardised smile), the asymmetry a = √(bend² + lopsidedness²), and the oddness o, the
    mean squared deviation of six proportions from the average face. An arbitrary rule of a drawing game that says
    nothing about people. Skin tone, hair, what is worn, light and pose have no part in it.
    """
    smile = (parameters["smile"].to_numpy() - _SMILE_MEAN) / _SMILE_SD
    asymmetry = np.hypot(parameters["bend"].to_numpy(), parameters["lopsidedness"].to_numpy())
    oddness = (parameters[_PROPORTIONS].to_numpy() ** 2).mean(axis=1)
    total = (
        np.tanh(smile) * (1.2 - 0.1 * asymmetry)
        + 0.75 * np.tanh(0.8 * parameters["eye_size"].to_numpy())
        - 0.1 * asymmetry
        - 0.1 * oddness
        - 1.6 * parameters["unevenness"].to_numpy()
    )
    return np.asarray((total - _LATENT_MEAN) / _LATENT_SD)


def dispersion(parameters: pd.DataFrame) -> Floats:
    """Thurstone's discriminal dispersion of each face: how far opinions differ, from 0.46 to 1.38 latent units.

    0.46 · 3^min(1, c), where c sums what splits opinion: beard, make-up and glasses (each by how bold it is), dyed
    hair, and a mohawk.
    """
    contested = (
        0.6 * parameters["beard"].to_numpy()
        + 0.6 * parameters["makeup"].to_numpy()
        + 0.5 * parameters["glasses"].to_numpy()
        + 0.5 * parameters["hair_colour"].isin(DYED).to_numpy()
        + 0.5 * (parameters["hair"] == "mohawk").to_numpy()
    )
    return np.asarray(0.46 * 3.0 ** np.minimum(contested, 1.0))


@dataclass(frozen=True)
class Panel:
    """Raters who share a scale and a standard: which rating they give for how much of the latent.

    `leniency` is the standard deviation of the raters' own shifts of the latent; each rates a random `coverage` of
    the faces.
    """

    name: str
    scale: Scale
    raters: int
    standard: Callable[[Floats], Floats]
    leniency: float
    coverage: float = 1.0

    @property
    def levels(self) -> Floats:
        """The whole numbers from the lowest to the highest rating."""
        return np.arange(self.scale.low, self.scale.high + 1)


def _even(x: Floats) -> Floats:
    return 3.0 + 0.69 * x


def _severe(x: Floats) -> Floats:
    """Convex: the severe panel keeps its high ratings for few faces."""
    return 0.6 + 2.6 * np.exp(0.5 * x)


PANELS = {
    "a": Panel("a", Scale(1, 5), 60, _even, leniency=0.3),
    "b": Panel("b", Scale(1, 10), 40, _severe, leniency=0.5, coverage=0.7),
}


def rate(panel: Panel, latent: Floats, dispersions: Floats, rng: np.random.Generator) -> Floats:
    """The panel's ratings, faces × raters, NaN where a rater did not rate.

    standard(latent_i + dispersion_i · ε_ij + leniency_j), rounded to the nearest level of the scale. The ratings of
    face i do not depend on how many faces follow it.
    """
    for_leniency, for_noise, for_gaps = rng.spawn(3)
    shape = len(latent), panel.raters
    leniency = panel.leniency * for_leniency.standard_normal(panel.raters)
    noise = normal_quantile(for_noise.random(shape))
    impression = latent[:, None] + dispersions[:, None] * noise + leniency
    ratings = np.clip(np.rint(panel.standard(impression)), panel.scale.low, panel.scale.high)
    ratings[for_gaps.random(shape) >= panel.coverage] = np.nan
    return ratings


def load_synthetic(n: int = 1500, test: int = 500, seed: int = 0, panel: str = "a", size: int = 96) -> RatedImages:
    """Draw n faces, `test` of them to test on, and have a panel rate them.

    Panel "a" gives 1 to 5 with the spread of SCUT-FBP5500's ratings; panel "b" gives 1 to 10, severely and with gaps.
    One seed gives the same faces for every panel and every n: face i is the i-th drawn, and the first are the test.

    >>> rated = load_synthetic(n=40, test=10, size=32)
    >>> rated.images.shape, rated.names[0]
    ((40, 32, 32, 3), 'face-0001')
    """
    if panel not in PANELS:
        raise CallError(f"unknown panel {panel!r} of the synthetic data set: choose {' or '.join(PANELS)}")
    if test < 1 or n < test + 2:
        raise CallError(
            f"{n} synthetic faces with {test} to test on: ask for n of at least test + 2, and test of at least 1"
        )
    if seed < 0 or size < 16:
        raise CallError(f"synthetic faces with seed {seed} and {size} pixels: the seed must be ≥ 0 and the size ≥ 16")
    chosen = PANELS[panel]
    parameters = sample_parameters(n, np.random.default_rng(seed))
    names = tuple(f"face-{number:04d}" for number in range(1, n + 1))
    matrix = rate(
        chosen,
        latent_attractiveness(parameters),
        dispersion(parameters),
        np.random.default_rng([seed, *panel.encode()]),
    )
    raters = tuple(f"{panel}-{number:02d}" for number in range(1, chosen.raters + 1))
    ratings = Ratings(matrix=matrix, images=names, raters=raters)
    return RatedImages(
        name=f"synthetic-{panel}",
        images=_drawn(n, seed, size),
        names=names,
        scores=ratings.mean,
        scale=chosen.scale,
        variances=ratings.variance,
        counts=ratings.count,
        histograms=ratings.histogram(chosen.levels),
        levels=chosen.levels,
        groups=_groups(parameters),
        splits={"default": Split(train=np.arange(test, n), test=np.arange(test))},
        ratings=ratings,
    )


@lru_cache(maxsize=1)
def _drawn(n: int, seed: int, size: int) -> npt.NDArray[np.uint8]:
    """The faces of a seed, cached until others are requested: two panels that rate them need one drawing."""
    faces = draw_faces(sample_parameters(n, np.random.default_rng(seed)), size)
    faces.setflags(write=False)
    return faces


def _groups(parameters: pd.DataFrame) -> pd.DataFrame:
    """What one may slice by: the visible attributes that have no part in the latent."""
    band = np.minimum((parameters["skin"].to_numpy() * len(_SKIN_BANDS)).astype(int), len(_SKIN_BANDS) - 1)
    return pd.DataFrame(
        {
            "skin": np.array(_SKIN_BANDS, object)[band],
            "hair": parameters["hair"].to_numpy(object),
            "hair_colour": parameters["hair_colour"].to_numpy(object),
            "beard": np.where(parameters["beard"] > 0, "beard", "none"),
            "makeup": np.where(parameters["makeup"] > 0, "make-up", "none"),
            "glasses": np.where(parameters["glasses"] > 0, "glasses", "none"),
        }
    )


def _normal(uniform: Floats) -> Floats:
    """A standard normal number, cut at ±2.5, from a uniform one."""
    return np.asarray(normal_quantile(0.00621 + (1 - 2 * 0.00621) * uniform))


def _sometimes(uniform: Floats, share: float) -> Floats:
    """0 for most; for a `share` of the faces a strength between 0.3 and 1."""
    return np.where(uniform < share, 0.3 + 0.7 * uniform / share, 0.0)


def _choice(of: tuple[str, ...], uniform: Floats, shares: tuple[float, ...] | None = None) -> npt.NDArray[np.object_]:
    """One of the words for each uniform number, with equal or given shares."""
    edges = np.cumsum(shares if shares is not None else np.full(len(of), 1 / len(of)))
    return np.array(of, object)[np.searchsorted(edges[:-1], uniform, side="right")]


DATASET = DatasetInfo(
    name="synthetic",
    title="Drawn faces and simulated raters",
    images=0,
    scale=None,
    terms="generated: free to use for anything",
    expects="no folder",
    load=load_synthetic,
    needs_folder=False,
)
