"""Co-attention with landmarks: the parts of one face by hand, mirrored with it, and settings that would move them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.errors import CallError
from uol.images.faces import transform
from uol.methods.co_attention import CoAttention, draw_parts, mean_parts, mirrored_parts
from uol.training.batches import Feed, plan_epoch
from uol.training.landmarks import parts_of
from uol.training.packed import PackedImages

ELLIPSES = ((0.3, 0.4), (0.7, 0.4), (0.5, 0.3), (0.5, 0.6), (0.5, 0.75), (0.5, 0.9))  # the centres of six parts
RADII = (0.06, 0.04)
COUNTS = (8, 8, 20, 13, 13, 7)  # landmarks of each part
STARTS = (42, 50, 22, 60, 73, 8)
LANDMARKS = quick_recipe(method="co-attention", landmarks=True, scoring={"mirror": False})


def landmarks_of_a_face():
    """86 points, those of each part evenly around its ellipse."""
    points = np.full((86, 2), 0.5)
    for centre, count, start in zip(ELLIPSES, COUNTS, STARTS, strict=True):
        for k in range(count):
            angle = 2 * math.pi * k / count
            points[start + k] = centre[0] + RADII[0] * math.cos(angle), centre[1] + RADII[1] * math.sin(angle)
    return points


@pytest.fixture
def rated(drawn, tmp_path):
    """Three photographs of SCUT-FBP5500's folder: with landmarks, turned and shrunk, and an empty file."""
    (tmp_path / "Images").mkdir()
    folder = tmp_path / "facial landmark"
    folder.mkdir()
    turned = transform(np.array([[0.0, -0.5, 0.8], [0.5, 0.0, 0.1]]), landmarks_of_a_face())
    for name, points in (("AF1", landmarks_of_a_face()), ("AF2", turned)):
        header = np.array([86], "<i4").tobytes()
        (folder / f"{name}.pts").write_bytes(header + (points * 350).astype("<f4").tobytes())
    (folder / "CM152.pts").write_bytes(bytes(4))
    names = ["AF1.jpg", "AF2.jpg", "CM152.jpg"]
    images = [tmp_path / "Images" / name for name in names]
    return replace(drawn.subset([0, 1, 2]), name="scut-fbp5500", names=names, images=images, splits={})


def test_the_parts_of_one_face_are_the_ellipses_of_its_landmarks(rated):
    found = parts_of(rated, aligned=False)
    assert found.shape == (3, 6, 4)
    for part, centre, count in zip(found[0], ELLIPSES, COUNTS, strict=True):
        around = 2 * math.pi * np.arange(count) / count
        ends = [(np.cos(around).min() + np.cos(around).max()) / 2, (np.sin(around).min() + np.sin(around).max()) / 2]
        assert part[:2] == pytest.approx([c + r * e for c, r, e in zip(centre, RADII, ends, strict=True)], abs=1e-6)
        assert part[2:] == pytest.approx(RADII, abs=1e-6)
    assert np.isnan(found[2]).all()


def test_landmarks_move_with_the_face_when_it_is_aligned(rated):
    straight, turned = parts_of(rated, aligned=True)[:2]
    np.testing.assert_allclose(turned, straight, atol=1e-5)


def test_other_data_sets_have_no_landmarks(rated, drawn, tmp_path):
    assert np.isnan(parts_of(drawn, aligned=True)).all()
    assert np.isnan(parts_of(replace(rated, name="mebeauty"), aligned=True)).all()
    (tmp_path / "facial landmark").rename(tmp_path / "elsewhere")
    assert np.isnan(parts_of(rated, aligned=True)).all()


def mask_by_hand(part, row, column, side, shown):
    """The mean of a Gaussian bump over one of side × side positions, by its points of a grid of 112."""
    along = [0.5 + shown * ((k + 0.5) / 112 - 0.5) for k in range(112)]
    step = 112 // side
    x, y, wide, high = part
    total = 0.0
    for i in range(row * step, (row + 1) * step):
        for j in range(column * step, (column + 1) * step):
            total += math.exp(-(((along[j] - x) / wide) ** 2 + ((along[i] - y) / high) ** 2) / 2)
    return total / step**2


@pytest.mark.parametrize("shown", [1.0, 0.875])
def test_masks_of_one_face_by_hand(shown):
    parts = torch.tensor([[*centre, *RADII] for centre in ELLIPSES])[None]
    masks = draw_parts(parts, (4, 4), shown)[0]
    assert masks.shape == (7, 4, 4)
    assert masks.sum((1, 2)).tolist() == pytest.approx([1.0] * 7, abs=1e-5)
    for number in (0, 4):
        wanted = [mask_by_hand(parts[0, number].tolist(), i, j, 4, shown) for i in range(4) for j in range(4)]
        assert masks[number].flatten().tolist() == pytest.approx([w / sum(wanted) for w in wanted], abs=1e-5)


def test_a_mirrored_face_has_mirrored_masks_and_its_eyes_change_places():
    parts = torch.rand(3, 6, 4) * 0.2 + torch.tensor([0.3, 0.3, 0.05, 0.05])
    shown = draw_parts(mirrored_parts(parts, torch.tensor([True, False, True])), (8, 8))
    plain = draw_parts(parts, (8, 8))
    swapped = [1, 0, 2, 3, 4, 5, 6]
    for face in (0, 2):
        assert torch.allclose(shown[face], plain[face, swapped].flip(-1), atol=1e-5)
    assert torch.equal(shown[1], plain[1])


def test_batches_say_which_images_are_mirrored_and_have_what_is_known(drawn):
    recipe = quick_recipe()
    data = PackedImages.pack(drawn, recipe.model)
    known = torch.arange(len(drawn) * 24, dtype=torch.float32).view(-1, 24)
    feed, plan = Feed(data, recipe, torch.device("cpu"), known=known), plan_epoch(drawn, recipe, 0)
    feed.load(plan)
    feed.stage(0)
    batch = feed.batch()
    assert torch.equal(batch.attributes, known[plan.images[0]])
    assert set(batch.mirrored.tolist()) == {True, False}
    for row, shown, mirrored in zip(plan.images[0], batch.images, batch.mirrored, strict=True):
        assert torch.equal(shown, data.pixels[row].flip(-1) if mirrored else data.pixels[row])


def test_images_without_landmarks_have_the_parts_of_the_mean_face(drawn):
    method = CoAttention(LANDMARKS, drawn.scale).eval()
    data = PackedImages.pack(drawn, LANDMARKS.model).subset(np.arange(4))
    known = method.known_of(data)
    assert torch.equal(known, mean_parts().flatten().expand(4, 24))
    with torch.no_grad():
        images = data.centre.float() / 255
        assert torch.allclose(method.features(images, known), method.features(images), atol=1e-5)
    plain = CoAttention(quick_recipe(method="co-attention"), drawn.scale)
    assert torch.equal(plain.known_of(data), data.attributes)


@pytest.mark.parametrize("changes", [
    {"augmentation": {"rotation": 5.0}}, {"augmentation": {"random_crop": True}}, {"augmentation": {"mix": 0.5}},
    {"scoring": {"mirror": True}}, {"scoring": {"mirror": False, "zooms": [1.0, 1.1]}},
])  # fmt: skip
def test_landmarks_are_refused_where_images_move_without_them(changes):
    with pytest.raises(CallError, match="landmarks: images may only be mirrored in training"):
        CoAttention.check(
            quick_recipe(**{"method": "co-attention", "landmarks": True, "scoring": {"mirror": False}} | changes)
        )


@pytest.mark.parametrize("name", ["uol", "regression", "r3cnn"])
def test_methods_without_parts_refuse_landmarks(name):
    with pytest.raises(CallError, match=f"method {name} has no use for landmarks"):
        methods.find(name).check(quick_recipe(method=name, landmarks=True))
