"""Augmentation: moves are real moves of the image, colours stay in range, and nothing happens unasked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from uol.order.backbones import IMAGENET_MEAN
from uol.training import augmentation
from uol.training.augmentation import augment, blend, draw_blend_shares
from uol.training.recipe import Augmentation

STILL = {"flip": False}


def images(count=6, size=20):
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_nothing_asked_is_the_centre():
    pixels = images()
    assert torch.equal(augment(pixels, 20, Augmentation(**STILL)), pixels)
    assert torch.equal(augment(pixels, 14, Augmentation(**STILL)), pixels[..., 3:17, 3:17])


def test_crops_are_places_in_the_image_and_mirrors_of_them():
    pixels = images(64)
    shown = augment(pixels, 16, Augmentation(random_crop=True))
    found = set()
    for before, after in zip(pixels, shown, strict=True):
        places = [
            (row, column, mirrored)
            for row in range(5)
            for column in range(5)
            for mirrored in (False, True)
            if torch.equal(after, before[:, row : row + 16, column : column + 16].flip(-1 if mirrored else ()))
        ]
        assert len(places) == 1
        found.add(places[0])
    assert {place[2] for place in found} == {False, True}
    assert {place[0] for place in found} == {place[1] for place in found} == set(range(5))


@pytest.mark.parametrize(("crop", "random_crop"), [(20, False), (14, False)])
def test_a_warp_by_nothing_is_the_crop(monkeypatch, crop, random_crop):
    monkeypatch.setattr(augmentation, "_within", lambda amount, count, device: torch.zeros(count))
    pixels = images()
    shown = augment(pixels, crop, Augmentation(flip=False, rotation=10, zoom=0.1, shift=0.1, random_crop=random_crop))
    margin = (20 - crop) // 2
    centre = pixels[..., margin : margin + crop, margin : margin + crop]
    assert torch.allclose(shown, centre / 255, atol=1e-5)


@pytest.mark.parametrize("crop", [64, 48])
def test_a_bend_moves_points_smoothly_and_about_as_far_as_asked(crop):
    size, amount = 64, 0.1
    along = torch.linspace(0, 255, size).byte()  # one colour tells the column, one the row
    picture = torch.stack([along.expand(size, size), along[:, None].expand(size, size), along.expand(size, size)])
    shown = augment(picture.expand(8, 3, size, size), crop, Augmentation(**STILL, bend=amount)) * (size - 1)
    margin = (size - crop) // 2
    there = margin + torch.arange(crop)
    moved = torch.stack([shown[:, 0] - there, shown[:, 1] - there[:, None]], 1)[..., 8:-8, 8:-8]
    farthest = amount * crop / 2  # of what is shown
    for direction in range(2):
        assert 0.6 * farthest < moved[:, direction].abs().max() < 1.5 * farthest  # cubics go beyond their knots
    assert max(moved.diff(dim=side).abs().max() for side in (-2, -1)) < 1  # no fold
    for one, other in ((moved[0], moved[1]), (moved[:, 0], moved[:, 1])):  # each image, and each direction, otherwise
        assert (one - other).abs().max() > 1
    corners = moved[..., [0, 0, -1, -1], [0, -1, 0, -1]].unflatten(-1, (2, 2))
    straight = torch.nn.functional.interpolate(corners, moved.shape[-2:], mode="bilinear", align_corners=True)
    assert (moved - straight).abs().max() > 0.5 * farthest  # more than a stretch of the whole


def test_a_bend_by_nothing_is_the_picture_and_one_that_folds_is_refused():
    assert torch.allclose(augment(images(), 20, Augmentation(**STILL, bend=1e-9)), images() / 255, atol=1e-4)
    with pytest.raises(ValueError, match=r"less than or equal to 0\.15"):
        Augmentation(bend=0.2)


def test_warps_turn_and_shift_the_picture(monkeypatch):
    monkeypatch.setattr(augmentation, "_within", lambda amount, count, device: torch.full((count,), amount))
    pixels = images()
    turned = augment(pixels, 20, Augmentation(**STILL, rotation=90))
    assert torch.allclose(turned, torch.rot90(pixels, 1, (-2, -1)) / 255, atol=1e-4)
    moved = augment(pixels, 20, Augmentation(**STILL, shift=0.2))  # a fifth of half the width: two pixels
    assert torch.allclose(moved[..., :-2, :-2], pixels[..., 2:, 2:] / 255, atol=1e-4)


def test_a_warp_mirrors_half_of_the_images(monkeypatch):
    monkeypatch.setattr(augmentation, "_within", lambda amount, count, device: torch.zeros(count))
    pixels = images(40)
    shown = augment(pixels, 20, Augmentation(zoom=0.1))
    kept = [torch.allclose(a, b / 255, atol=1e-4) for a, b in zip(shown, pixels, strict=True)]
    mirrored = [torch.allclose(a, b.flip(-1) / 255, atol=1e-4) for a, b in zip(shown, pixels, strict=True)]
    assert all(k != m for k, m in zip(kept, mirrored, strict=True))
    assert 5 < sum(kept) < 35


@settings(max_examples=examples(25), deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "rotation": st.floats(0, 180),
            "zoom": st.floats(0, 0.9),
            "shift": st.floats(0, 0.9),
            "contrast": st.floats(0, 1),
            "brightness": st.floats(0, 1),
            "grey": st.floats(0, 1),
            "channel_gain": st.floats(0, 0.9),
            "mask": st.floats(0, 1),
            "erase": st.floats(0, 1),
        }
    )
)
def test_values_stay_in_range(amounts):
    shown = augment(images(4), 16, Augmentation(**amounts, saturation=(0.5, 1.5), random_crop=True))
    assert shown.shape == (4, 3, 16, 16)
    if shown.dtype != torch.uint8:
        assert torch.isfinite(shown).all()
        assert float(shown.min()) >= 0
        assert float(shown.max()) <= 1


def test_grey_images_have_one_colour():
    shown = augment(images(), 20, Augmentation(**STILL, grey=1.0))
    assert torch.allclose(shown[:, 0], shown[:, 1], atol=1e-6)
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    assert torch.allclose(shown[:, 0], (images() / 255 * weights).sum(1), atol=1e-5)


def test_the_mask_keeps_the_face_and_blanks_the_corners():
    pixels = images(3, 64)
    shown = augment(pixels, 64, Augmentation(**STILL, mask=1.0))
    mean = torch.tensor(IMAGENET_MEAN)
    assert torch.allclose(shown[:, :, 0, 0], mean.expand(3, 3))
    assert torch.allclose(shown[:, :, 25:40, 25:40], pixels[:, :, 25:40, 25:40] / 255)


def test_erasing_blanks_one_box():
    pixels = torch.zeros(20, 3, 64, 64, dtype=torch.uint8)
    blank = augment(pixels, 64, Augmentation(**STILL, erase=1.0))[:, 0] > 0
    assert blank.any((1, 2)).all()
    for box in blank.numpy():
        rows, columns = np.flatnonzero(box.any(1)), np.flatnonzero(box.any(0))
        assert box[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()


def test_blends_are_of_an_image_and_the_one_before_it():
    torch.manual_seed(0)
    share = torch.tensor([1.0, 0.5, 0.75])
    images = torch.randint(0, 256, (3, 3, 4, 4), dtype=torch.uint8)
    shown, unit = blend(images, share), images / 255
    assert torch.equal(shown[0], unit[0])
    assert torch.allclose(shown[1], (unit[1] + unit[0]) / 2)
    assert torch.allclose(shown[2], 0.75 * unit[2] + 0.25 * unit[1])


def test_what_is_unknown_of_a_neighbour_does_not_spoil_a_whole_image():
    told = blend(torch.tensor([torch.nan, 2.0, 4.0]), torch.tensor([0.5, 1.0, 0.5]))
    assert torch.equal(told[1:], torch.tensor([2.0, 3.0]))
    assert told[0].isnan()


@pytest.mark.parametrize("mix", [0.0, 0.3, 1.0])
def test_as_many_are_blended_as_asked_and_none_is_less_than_half(mix):
    torch.manual_seed(0)
    share = draw_blend_shares(4000, Augmentation(mix=mix), torch.device("cpu"))
    assert (share < 1).float().mean() == pytest.approx(mix, abs=0.03)
    assert share.min() >= 0.5
