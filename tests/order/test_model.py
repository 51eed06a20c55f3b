"""The comparator's split first layer against concatenated inputs, and the model around it."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from uol.order.config import ModelConfig
from uol.order.gaussians import Gaussians, sample
from uol.order.model import Comparator, OrderModel

D, H = 6, 8


def naive(comparator, a, b):
    """One pair of points: both concatenated through three layers."""
    x = torch.relu(comparator.first(torch.cat([a, b])))
    return comparator.third(torch.relu(comparator.second(x)))


@pytest.fixture
def comparator():
    torch.manual_seed(0)
    return Comparator(D, H)


def test_forward_broadcasts_like_concatenation(comparator):
    a, b = torch.randn(5, D), torch.randn(4, D)
    logits = comparator(a[:, None], b[None])
    for i in range(5):
        for j in range(4):
            assert torch.allclose(logits[i, j], naive(comparator, a[i], b[j]), atol=1e-5)


def test_pairs_pick_rows(comparator):
    points, first, second = torch.randn(3, 5, D), torch.tensor([0, 4, 2]), torch.tensor([1, 3, 2])
    logits = comparator.pairs(points, first, second)
    for t in range(3):
        for p in range(3):
            expected = naive(comparator, points[t, first[p]], points[t, second[p]])
            assert torch.allclose(logits[t, p], expected, atol=1e-5)


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("both", [False, True])
def test_against_references_equals_the_slow_mean_over_samples(comparator, T, both):
    images, references = torch.randn(T, 5, D), torch.randn(T, 7, D)
    with torch.no_grad():
        logits = comparator.against(images, comparator.left(references), comparator.right(references), both)
        for n in range(5):
            for r in range(7):
                expected = sum(naive(comparator, images[t, n], references[t, r]) for t in range(T)) / T
                if both:
                    back = sum(naive(comparator, references[t, r], images[t, n]) for t in range(T)) / T
                    expected = (expected + back.flip(0)) / 2
                assert torch.allclose(logits[n, r], expected, atol=1e-5)


@pytest.mark.parametrize("T", [1, 4])
def test_images_at_once_are_images_one_by_one(comparator, T):
    images, references = torch.randn(T, 5, D), torch.randn(T, 7, D)
    halves = comparator.left(references), comparator.right(references)
    one_by_one = comparator.against(images, *halves, both_directions=True, at_once=1)
    for at_once in (2, 5, 100):
        together = comparator.against(images, *halves, both_directions=True, at_once=at_once)
        assert torch.allclose(together, one_by_one, atol=1e-6)


def test_both_directions_mirror_when_images_are_swapped(comparator):
    a, b = torch.randn(1, 3, D), torch.randn(1, 3, D)
    with torch.no_grad():
        forth = comparator.against(a, comparator.left(b), comparator.right(b), both_directions=True)
        back = comparator.against(b, comparator.left(a), comparator.right(a), both_directions=True)
    assert torch.allclose(forth, back.transpose(0, 1).flip(-1), atol=1e-6)


def test_model_gives_gaussians():
    config = ModelConfig(backbone="test_byobnet", resize=32, crop=32, dimensions=D, hidden=H)
    gaussians = OrderModel(config)(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8))
    assert gaussians.mean.shape == gaussians.log_variance.shape == (4, D)
    assert torch.allclose(gaussians.log_variance, torch.tensor(-2.0))  # as initialised, whatever the image


def test_a_comparator_starts_with_differences_or_at_random():
    halves = {}
    for of_differences in (True, False):
        torch.manual_seed(0)
        made = Comparator(D, H, of_differences)
        halves[of_differences] = made.first.weight.detach().split(D, 1)
    (left, right), (same, own) = halves[True], halves[False]
    assert torch.equal(right, -left)
    assert torch.equal(same, left)  # what is drawn is the same
    assert not torch.allclose(own, -same)


def test_images_may_be_less_the_mean_alone():
    config = ModelConfig(backbone="test_byobnet", resize=32, crop=32)
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    divided, plain = OrderModel(config), OrderModel(config.model_copy(update={"normalise": "mean"}))
    plain.load_state_dict(divided.state_dict())
    backbone = plain.backbone
    assert torch.equal(backbone.deviation, torch.ones(3, 1, 1))
    assert torch.equal(backbone.mean, divided.backbone.mean)
    mean, deviation = divided.backbone.mean, divided.backbone.deviation
    with torch.no_grad():
        undone = mean + (images / 255 - mean) * deviation  # which division makes images less the mean again
        assert torch.allclose(plain.eval()(images).mean, divided.eval()(undone).mean, atol=1e-5)
        assert not torch.allclose(plain(images).mean, divided(images).mean, atol=1e-3)


def test_points_have_no_spread():
    config = ModelConfig(backbone="test_byobnet", resize=32, crop=32, dimensions=D, hidden=H, uncertain=False)
    gaussians = OrderModel(config)(torch.zeros(2, 3, 32, 32))
    assert (gaussians.deviation == 0).all()


def test_config_refuses_what_it_does_not_know():
    with pytest.raises(ValidationError):
        ModelConfig.model_validate({"backbon": "vgg16"})


def test_without_sampling_the_first_layer_is_exact(comparator):
    torch.manual_seed(1)
    gaussians = Gaussians(torch.randn(3, D), torch.randn(3, D) - 1)
    first, second = torch.tensor([0, 2]), torch.tensor([1, 0])
    points = sample(gaussians, 200_000)
    hidden = (comparator.left(points)[:, first] + comparator.right(points)[:, second]).relu().mean(0)
    slow = comparator.third(comparator.second(hidden).relu())
    assert torch.allclose(comparator.expected(gaussians, first, second), slow, atol=3e-3)
    points = Gaussians(gaussians.mean, torch.full((3, D), -40.0))
    assert torch.allclose(
        comparator.expected(points, first, second), comparator.pairs(points.mean[None], first, second)[0], atol=1e-5
    )
