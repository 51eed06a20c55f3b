"""The views of an image that a network is asked about: zoomed, mirrored, and the mean of its answers."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError

from quick import quick_recipe
from uol.order.config import ScoringConfig
from uol.order.model import OrderModel
from uol.order.views import views

SIZE = 20


def drawn_at_random(count=2, size=SIZE, seed=0):
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=torch.manual_seed(seed))


def shown(images, **scoring):
    return list(views(images, ScoringConfig(**scoring)))


def cubic(distance, a=-0.75):
    """The weight of a pixel so far from where one looks, in bicubic interpolation."""
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def slowly_zoomed(image, margin):
    """The image (S, S) with `margin` pixels more on each side, fewer where negative: pixel by pixel, tap by tap."""
    size = len(image)
    wide = size + 2 * margin

    def seen(row, column):  # what is cut off is not looked at; beyond the border it is repeated
        row, column = (min(max(index, 0), wide - 1) - margin for index in (row, column))
        return image[min(max(row, 0), size - 1)][min(max(column, 0), size - 1)]

    result = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(size):
            y, x = ((index + 0.5) * wide / size - 0.5 for index in (i, j))
            total = sum(
                cubic(y - row) * cubic(x - column) * seen(row, column)
                for row in range(math.floor(y) - 1, math.floor(y) + 3)
                for column in range(math.floor(x) - 1, math.floor(x) + 3)
            )
            result[i][j] = min(max(total, 0.0), 1.0)
    return torch.tensor(result)


def test_the_whole_image_is_shown_as_it_is():
    images = drawn_at_random()
    (same,) = shown(images)
    assert same is images
    first, _ = shown(images, zooms=(1.0, 0.8))
    assert torch.equal(first, images / 255)


def test_bytes_and_values_up_to_one_are_the_same_image():
    images = drawn_at_random()
    scoring = {"zooms": (1.0, 0.8, 1.2), "mirror": True}
    for one, two in zip(shown(images, **scoring), shown(images / 255, **scoring), strict=True):
        assert one.dtype == two.dtype == torch.float32
        assert one.shape == images.shape
        assert torch.allclose(one, two, atol=1e-6)
        assert 0 <= one.min() <= one.max() <= 1


@pytest.mark.parametrize(("share", "margin"), [(0.8, -2), (0.6, -4), (1.1, 1), (1.2, 2), (1.4, 4)])
def test_a_zoom_shows_the_middle_or_repeats_the_border(share, margin):
    images = drawn_at_random(1)
    (view,) = shown(images, zooms=(share,))
    for channel in range(3):
        slow = slowly_zoomed((images[0, channel] / 255).tolist(), margin)
        assert torch.allclose(view[0, channel], slow, atol=1e-5)


def test_what_a_zoom_leaves_out_does_not_matter_and_what_it_adds_is_the_border():
    images = drawn_at_random()
    other = drawn_at_random(seed=1)
    other[..., 2:-2, 2:-2] = images[..., 2:-2, 2:-2]
    assert torch.equal(shown(images, zooms=(0.8,))[0], shown(other, zooms=(0.8,))[0])
    framed = torch.full((1, 3, SIZE, SIZE), 51, dtype=torch.uint8)
    framed[..., 4:-4, 4:-4] = 204
    (far,) = shown(framed, zooms=(1.4,))
    assert torch.allclose(far[..., :4, :], torch.tensor(0.2))
    assert far[0, 0, SIZE // 2, SIZE // 2] == pytest.approx(0.8)
    assert (far[0, 0] > 0.5).sum() < (framed[0, 0] > 100).sum()


def test_mirror_images_stand_beside_each_zoom():
    images = drawn_at_random()
    zooms = (1.0, 0.8, 1.2)
    plain, mirrored = shown(images, zooms=zooms), shown(images, zooms=zooms, mirror=True)
    assert (len(plain), len(mirrored)) == (3, 6)
    assert all(torch.equal(one, two) for one, two in zip(plain, mirrored[::2], strict=True))
    assert all(torch.equal(one.flip(-1), two) for one, two in zip(plain, mirrored[1::2], strict=True))
    for one, two in zip(shown(images.flip(-1), zooms=zooms), mirrored[1::2], strict=True):
        assert torch.allclose(one, two, atol=1e-5)


def test_a_models_answer_is_the_mean_over_the_views():
    torch.manual_seed(0)
    model = OrderModel(quick_recipe().model).eval()
    torch.nn.init.normal_(model.log_variance.weight, 0, 0.05)
    images = drawn_at_random(5, 32)
    scoring = ScoringConfig(zooms=(1.0, 0.9, 1.1), mirror=True)
    found = model.embed(images, scoring, batch_size=2)
    asked = []
    for share in (1.0, 0.9, 1.1):
        (near,) = shown(images / 255, zooms=(share,))
        asked += [model(near), model(near.flip(-1))]
    assert torch.allclose(found.mean, sum(one.mean for one in asked) / 6, atol=1e-5)
    assert torch.allclose(found.log_variance, sum(one.log_variance for one in asked) / 6, atol=1e-5)
    assert not torch.allclose(found.mean, model.embed(images).mean, atol=1e-3)
    assert torch.allclose(model.embed(images).mean, model(images).mean, atol=1e-6)


@pytest.mark.parametrize("zooms", [(), (0.5,), (1.0, 1.5), (float("nan"),)])
def test_zooms_that_show_nothing_sensible_are_refused(zooms):
    with pytest.raises(ValidationError):
        ScoringConfig(zooms=zooms)
