from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from uol.datasets.face_shapes import Face
from uol.datasets.synthetic import (
    PANELS,
    dispersion,
    latent_attractiveness,
    load_synthetic,
    rate,
    sample_parameters,
)
from uol.errors import CallError
from uol.ratings.rated_images import RatedImages
from uol.ratings.scale import Scale

MANY = 6000


@pytest.fixture(scope="module")
def population() -> pd.DataFrame:
    return sample_parameters(MANY, np.random.default_rng(11))


@pytest.fixture(scope="module")
def small() -> RatedImages:
    return load_synthetic(n=40, test=10, seed=3, size=24)


def ratings(population: pd.DataFrame, panel: str) -> np.ndarray:
    latent, spread = latent_attractiveness(population), dispersion(population)
    return rate(PANELS[panel], latent, spread, np.random.default_rng(2))


def correlation(a: object, b: object) -> float:
    return float(np.corrcoef(np.asarray(a, float), np.asarray(b, float))[0, 1])


def test_parameters_have_one_column_for_each_field_and_stay_in_range(population: pd.DataFrame) -> None:
    assert tuple(population.columns) == Face._fields
    assert not population.isna().to_numpy().any()
    for name in ("skin", "unevenness", "blush", "hair_length", "beard", "makeup", "glasses", "freckles"):
        assert population[name].between(0, 1).all()
    assert population["smile"].between(-1, 1).all()
    assert not ((population["beard"] > 0) & (population["makeup"] > 0)).any()
    assert 0.2 < (population["glasses"] > 0).mean() < 0.3
    assert population["hair"].nunique() == 9


def test_a_face_does_not_depend_on_how_many_follow(population: pd.DataFrame) -> None:
    few = sample_parameters(7, np.random.default_rng(11))
    pd.testing.assert_frame_equal(few, population.iloc[:7])


def test_latent_is_standardised_over_the_population() -> None:
    latent = latent_attractiveness(sample_parameters(100_000, np.random.default_rng(8)))
    assert abs(latent.mean()) < 0.01
    assert latent.std() == pytest.approx(1, abs=0.01)


def test_latent_is_blind_to_skin_hair_and_nuisance(population: pd.DataFrame) -> None:
    latent = latent_attractiveness(population)
    blind = ["skin", "undertone", "hair_length", "light", "rotation", "shift_x", "shift_y", "zoom", "background"]
    for name in [*blind, "beard", "makeup", "glasses"]:
        assert abs(correlation(population[name], latent)) < 0.05, name
    other = population.assign(skin=0.5, hair="bob", hair_colour="pink", beard=0.0, rotation=0.0, grain=1)
    np.testing.assert_array_equal(latent_attractiveness(other), latent)


def test_latent_follows_its_formula_on_one_face() -> None:
    average = {name: 0.0 for name in Face._fields if name not in ("iris", "hair", "hair_colour")}
    row = average | {"iris": "blue", "hair": "crop", "hair_colour": "red", "smile": 0.25}
    odd = row | {"nose_width": 2.0, "bend": 3.0, "lopsidedness": 4.0, "eye_size": 1.0, "smile": 0.63, "unevenness": 0.5}
    plain, changed = latent_attractiveness(pd.DataFrame([row, odd]))
    expected = np.tanh(1) * (1.2 - 0.1 * 5) + 0.75 * np.tanh(0.8) - 0.1 * 5 - 0.1 * 4 / 6 - 1.6 * 0.5
    sd = 0.928
    assert changed - plain == pytest.approx(expected / sd)


@pytest.mark.parametrize(("name", "sign"), [("smile", 1), ("eye_size", 1), ("unevenness", -1)])
def test_latent_moves_with_what_can_be_seen(population: pd.DataFrame, name: str, sign: int) -> None:
    assert sign * correlation(population[name], latent_attractiveness(population)) > 0.3


def test_dispersion_spans_a_factor_of_three_and_ignores_the_latent(population: pd.DataFrame) -> None:
    spread = dispersion(population)
    assert spread.max() / spread.min() == pytest.approx(3)
    assert abs(correlation(spread, latent_attractiveness(population))) < 0.05
    dyed = population.assign(beard=0.0, makeup=0.0, glasses=0.0, hair="crop", hair_colour="blue")
    assert (dispersion(dyed) > dispersion(dyed.assign(hair_colour="brown"))).all()


def test_panel_a_is_like_scut_fbp5500(population: pd.DataFrame) -> None:
    given = ratings(population, "a")
    means = given.mean(axis=1)
    assert set(np.unique(given)) == {1, 2, 3, 4, 5}
    assert means.mean() == pytest.approx(3, abs=0.15)
    assert means.std() == pytest.approx(0.69, abs=0.04)
    assert given.var(axis=1, ddof=1).mean() == pytest.approx(0.42, abs=0.04)
    assert correlation(means, latent_attractiveness(population)) > 0.97


def test_panel_b_orders_like_panel_a_by_a_curved_standard(population: pd.DataFrame) -> None:
    a, b = ratings(population, "a").mean(axis=1), np.nanmean(ratings(population, "b"), axis=1)
    assert spearmanr(a, b).statistic > 0.95
    bend, _, _ = np.polyfit((a - a.mean()) / a.std(), (b - b.mean()) / b.std(), 2)
    assert bend > 0.15
    standard = PANELS["b"].standard(np.linspace(-3, 3, 50))
    assert (np.diff(standard) > 0).all()
    assert (np.diff(standard, 2) > 0).all()


def test_panel_b_has_gaps(population: pd.DataFrame) -> None:
    rated = ~np.isnan(ratings(population, "b"))
    assert rated.shape == (MANY, 40)
    assert rated.mean() == pytest.approx(0.7, abs=0.01)
    assert rated.any(axis=1).all()


def test_variance_of_the_ratings_tells_the_dispersion(population: pd.DataFrame) -> None:
    given = ratings(population, "a")
    assert correlation(given.std(axis=1), dispersion(population)) > 0.85


def test_without_dispersion_and_leniency_all_raters_agree() -> None:
    latent = np.linspace(-2, 2, 9)
    panel = PANELS["a"]
    quiet = rate(
        type(panel)("quiet", Scale(1, 5), 4, panel.standard, 0.0), latent, np.zeros(9), np.random.default_rng(0)
    )
    np.testing.assert_array_equal(quiet, np.rint(3 + 0.69 * latent)[:, None].repeat(4, axis=1))


def test_leniency_shifts_a_rater_on_every_face() -> None:
    latent = np.random.default_rng(0).standard_normal(4000)
    given = rate(PANELS["a"], latent, np.full(4000, 0.5), np.random.default_rng(1))
    halves = given[:2000].mean(axis=0), given[2000:].mean(axis=0)
    assert correlation(*halves) > 0.95


def test_the_data_set_is_complete(small: RatedImages) -> None:
    assert isinstance(small.images, np.ndarray)
    assert small.images.shape == (40, 24, 24, 3)
    assert small.names[0] == "face-0001"
    assert small.scale == Scale(1, 5)
    assert small.ratings is not None
    assert small.histograms is not None
    assert small.levels is not None
    matrix = small.ratings.matrix
    np.testing.assert_allclose(small.scores, matrix.mean(axis=1))
    np.testing.assert_allclose(small.variances, matrix.var(axis=1, ddof=1))
    np.testing.assert_allclose(small.histograms @ small.levels / small.counts, small.scores)
    assert set(small.groups["skin"]) <= {"light", "medium", "dark"}
    assert len(small.groups) == 40
    split = small.splits["default"]
    assert sorted([*split.train, *split.test]) == list(range(40))
    assert len(split.test) == 10
    assert len(small.subset(split.test)) == 10


def test_one_seed_one_data_set_another_seed_another(small: RatedImages) -> None:
    again, other = load_synthetic(n=40, test=10, seed=3, size=24), load_synthetic(n=40, test=10, seed=4, size=24)
    np.testing.assert_array_equal(again.images, small.images)
    np.testing.assert_array_equal(again.scores, small.scores)
    assert not np.array_equal(other.images, small.images)
    assert not np.array_equal(other.scores, small.scores)


def test_faces_and_ratings_do_not_depend_on_n(small: RatedImages) -> None:
    few = load_synthetic(n=15, test=10, seed=3, size=24)
    np.testing.assert_array_equal(few.images, small.images[:15])
    np.testing.assert_array_equal(few.scores, small.scores[:15])
    np.testing.assert_array_equal(few.splits["default"].test, small.splits["default"].test)


def test_both_panels_rate_the_same_faces(small: RatedImages) -> None:
    other = load_synthetic(n=40, test=10, seed=3, panel="b", size=24)
    np.testing.assert_array_equal(other.images, small.images)
    assert other.scale == Scale(1, 10)
    assert other.ratings is not None
    assert small.ratings is not None
    assert not set(other.ratings.raters) & set(small.ratings.raters)
    assert (other.counts < 40).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"panel": "c"}, "unknown panel 'c'"),
        ({"n": 500}, "at least test"),
        ({"test": 0}, "at least 1"),
        ({"seed": -1}, "seed"),
        ({"size": 4}, "size"),
    ],
)
def test_a_wrong_call_gets_one_clear_line(options: dict[str, object], words: str) -> None:
    with pytest.raises(CallError, match=words) as caught:
        load_synthetic(**options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
