from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from uol.datasets.drawn_faces import draw_face, draw_faces
from uol.datasets.face_shapes import DYED, HAIR_COLOURS, HAIR_STYLES, IRISES, Face
from uol.datasets.synthetic import sample_parameters


@pytest.fixture(scope="module")
def parameters() -> pd.DataFrame:
    return sample_parameters(12, np.random.default_rng(5))


@pytest.fixture
def plain(parameters: pd.DataFrame) -> Face:
    """An average, symmetric, smiling face without anything worn."""
    first = Face(*parameters.iloc[0])
    zeros = {name: 0.0 for name, value in first._asdict().items() if isinstance(value, float)}
    words = {"iris": "brown", "hair": "crop", "hair_colour": "brown"}
    return first._replace(**(zeros | words | {"skin": 0.4, "smile": 0.5, "zoom": 1.0}))


def difference(a: Face, b: Face, size: int = 48) -> float:
    return float(np.abs(draw_face(a, size).astype(float) - draw_face(b, size)).mean())


@pytest.mark.parametrize("size", [16, 96, 129, 256])
def test_pictures_are_square_rgb_and_not_blank(parameters: pd.DataFrame, size: int) -> None:
    pictures = draw_faces(parameters.iloc[:2], size)
    assert pictures.shape == (2, size, size, 3)
    assert pictures.dtype == np.uint8
    assert (pictures.reshape(2, -1).std(axis=1) > 15).all()


def test_a_picture_depends_on_its_row_only(parameters: pd.DataFrame) -> None:
    pictures = draw_faces(parameters, 48)
    shuffled = parameters.iloc[::-1]
    np.testing.assert_array_equal(draw_faces(shuffled, 48), pictures[::-1])
    np.testing.assert_array_equal(draw_face(Face(*parameters.iloc[3]), 48), pictures[3])


def test_no_faces_give_no_pictures(parameters: pd.DataFrame) -> None:
    assert draw_faces(parameters.iloc[:0], 32).shape == (0, 32, 32, 3)


def test_every_parameter_can_be_seen(plain: Face) -> None:
    # What shows only together with something else is looked at together with it.
    needs = {"accent": {"makeup": 1.0}, "hair_length": {"hair": "long"}}
    words = {"iris": "blue", "hair": "bob", "hair_colour": "pink"}
    for name, value in plain._asdict().items():
        start = plain._replace(**needs.get(name, {}))
        changed = words[name] if name in words else value + (0.5 if isinstance(value, float) else 1)
        assert difference(start, start._replace(**{name: changed})) > 0.01, name


@pytest.mark.parametrize(
    "name", ["smile", "unevenness", "eye_size", "bend", "lopsidedness", "beard", "makeup", "glasses"]
)
def test_what_the_panels_see_changes_the_picture_in_measure(plain: Face, name: str) -> None:
    base = getattr(plain, name)
    near, far = (plain._replace(**{name: base + step}) for step in (0.1, 0.5))
    assert 0 < difference(plain, near) < difference(plain, far)


def test_an_upright_symmetric_face_is_its_own_mirror_image(plain: Face) -> None:
    upright = plain._replace(hair="bun")
    picture = draw_face(upright, 96).astype(float)
    lopsided = draw_face(upright._replace(lopsidedness=2.0), 96).astype(float)
    assert np.abs(picture - picture[:, ::-1]).mean() < 4
    assert np.abs(lopsided - lopsided[:, ::-1]).mean() > np.abs(picture - picture[:, ::-1]).mean() + 0.5


def test_darker_skin_gives_a_darker_cheek(plain: Face) -> None:
    cheeks = [draw_face(plain._replace(skin=tone), 96)[58:64, 34:40].mean() for tone in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert (np.diff(cheeks) < -8).all()


@pytest.mark.parametrize("style", HAIR_STYLES)
def test_every_hair_style_draws_at_the_ends_of_its_range(plain: Face, style: str) -> None:
    drawn = [
        draw_face(plain._replace(hair=style, hair_length=length, face_width=width, accent=accent, light=light), 32)
        for length, width, accent, light in ((0.0, -2.5, 0.0, -1.0), (1.0, 2.5, 1.0, 1.0))
    ]
    assert all(picture.std() > 15 for picture in drawn)


def test_palettes_are_complete_colours() -> None:
    assert set(DYED) < set(HAIR_COLOURS)
    for palette in (HAIR_COLOURS, IRISES):
        assert all(len(colour) == 3 for colour in palette.values())
