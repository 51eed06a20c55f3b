"""The loss that trains each method, against the same sum written out in numpy, each term with its weight."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.training.batches import fixed_batches
from uol.training.packed import PackedImages

ALPHA, BETA, MARGIN, SAMPLES = 0.7, 3.0, 0.4, 3
UNIT = 2.25  # of the scale of 1 to 10
HAND_TOLERANCE = {"rel": 2e-5}


@pytest.fixture(scope="module")
def batch_of(drawn_b):
    """A method whose weights are random, and one batch of 80 images for it; some have no known variance."""

    def make(name, **changes):
        recipe = quick_recipe(
            method=name, alpha=ALPHA, beta=BETA, margin=MARGIN, samples=SAMPLES, batch_size=80, **changes
        )
        data = PackedImages.pack(drawn_b, recipe.model)
        torch.manual_seed(3)
        method = methods.find(name)(recipe, drawn_b.scale, levels=10).eval()
        with torch.no_grad():
            for key, parameter in method.named_parameters():
                if "backbone" not in key:
                    parameter.add_(torch.randn_like(parameter) * 0.3)
        (batch,) = fixed_batches(data, recipe, torch.device("cpu"))
        variance = batch.rating_variance.clone()
        variance[::7] = torch.nan
        pair_weight, triplet_weight = batch.pair_weight.clone(), batch.triplet_weight.clone()
        pair_weight[::3], pair_weight[1::5], triplet_weight[::4] = 0.0, 2.0, 0.0  # empty places, and balanced pairs
        return method, batch._replace(rating_variance=variance, pair_weight=pair_weight, triplet_weight=triplet_weight)

    return make


def array(tensor):
    return tensor.detach().double().numpy()


def linear(layer, values):
    return values @ array(layer.weight).T + (0 if layer.bias is None else array(layer.bias))


def relu(values):
    return np.maximum(values, 0)


def log_softmax(row):
    return row - math.log(sum(math.exp(value) for value in row))


def in_units(batch):
    return array(batch.scores) / UNIT


def squared(score, batch):
    return float(np.mean([(a - b) ** 2 for a, b in zip(score, in_units(batch), strict=True)]))


def compare_by_hand(comparator, one, two):
    """Three layers on both points, joined."""
    hidden = relu(linear(comparator.first, np.concatenate([one, two])))
    return linear(comparator.third, relu(linear(comparator.second, hidden)))


def order_by_hand(comparator, points, batch):
    """Cross entropy of the mean logits over T points of each image."""
    loss = total = 0.0
    for i, j, target, weight in zip(batch.first, batch.second, array(batch.target), array(batch.pair_weight),
                                    strict=True):  # fmt: skip
        logits = np.mean([compare_by_hand(comparator, point[int(i)], point[int(j)]) for point in points], 0)
        loss -= weight * float(target @ log_softmax(logits))
        total += weight
    return loss / total


def ordinal_by_hand(mean, deviation, batch):
    def distance(i, j):
        return math.sqrt(((mean[i] - mean[j]) ** 2).sum() + ((deviation[i] - deviation[j]) ** 2).sum())

    loss = total = 0.0
    for a, near, far, weight in zip(batch.anchor, batch.near, batch.far, array(batch.triplet_weight), strict=True):
        loss += weight * max(0.0, distance(int(a), int(near)) + MARGIN - distance(int(a), int(far)))
        total += weight
    return loss / total


def dispersion_by_hand(deviation, batch):
    """KL of the degrees √Σ σ² from the raters' variances, both as shares of the images whose variance is known."""
    truth = array(batch.rating_variance)
    known = [n for n in range(len(truth)) if not math.isnan(truth[n])]
    p = {n: truth[n] / sum(truth[m] for m in known) for n in known}
    degree = {n: math.sqrt((deviation[n] ** 2).sum()) for n in known}
    return sum(p[n] * math.log(p[n] / (degree[n] / sum(degree.values()))) for n in known if p[n] > 0)


def gaussians_by_hand(method, features):
    mean, log_variance = linear(method.mean, features), linear(method.log_variance, features)
    return mean, np.exp(log_variance / 2)


def seeded(call):
    torch.manual_seed(11)
    return call()


def drawn_points(mean, deviation):
    noise = array(seeded(lambda: torch.randn(SAMPLES, *mean.shape)))
    return mean + deviation * noise


@pytest.mark.parametrize("helpers", [{}, {"score_weight": 2.5, "histogram_weight": 0.6}])
def test_uol_is_order_plus_ordinal_plus_dispersion_plus_helpers(batch_of, helpers):
    method, batch = batch_of("uol", **helpers)
    losses = seeded(lambda: method(batch))
    features = array(method.model.features(batch.images))
    mean, deviation = gaussians_by_hand(method.model, features)
    parts = {
        "order": order_by_hand(method.model.comparator, drawn_points(mean, deviation), batch),
        "ordinal": ordinal_by_hand(mean, deviation, batch),
        "dispersion": dispersion_by_hand(deviation, batch),
    }
    weights = {"order": 1.0, "ordinal": ALPHA, "dispersion": BETA}
    if helpers:
        score = linear(method.score_head, features)[:, 0]
        rows = zip(linear(method.histogram_head, features), array(batch.histogram), strict=True)
        parts["score"] = squared(score, batch)
        parts["histogram"] = float(np.mean([-(share @ log_softmax(row)) for row, share in rows]))
        weights |= {"score": 2.5, "histogram": 0.6}
    assert losses.keys() == {"total", *parts}
    for name, value in parts.items():
        assert value > 0.01, name  # a term that is zero would prove nothing
        assert losses[name].item() == pytest.approx(value, **HAND_TOLERANCE), name
    total = sum(weights[name] * value for name, value in parts.items())
    assert losses["total"].item() == pytest.approx(total, **HAND_TOLERANCE)


def test_uol_in_closed_form_takes_the_mean_after_rectification(batch_of):
    method, batch = batch_of("uol", sampling="closed-form")
    mean, deviation = gaussians_by_hand(method.model, array(method.model.features(batch.images)))
    comparator, found = method.model.comparator, []
    for i, j in list(zip(batch.first.tolist(), batch.second.tolist(), strict=True))[:20]:
        middle = linear(comparator.first, np.concatenate([mean[i], mean[j]]))
        both = np.concatenate([deviation[i], deviation[j]]) ** 2
        spread = np.sqrt((array(comparator.first.weight) ** 2) @ both)
        hidden = [
            m * 0.5 * (1 + math.erf(m / s / math.sqrt(2))) + s * math.exp(-((m / s) ** 2) / 2) / math.sqrt(2 * math.pi)
            for m, s in zip(middle, spread, strict=True)
        ]
        found.append(linear(comparator.third, relu(linear(comparator.second, np.array(hidden)))))
    gaussians = method.model(batch.images)
    logits = comparator.expected(gaussians, batch.first[:20], batch.second[:20])
    np.testing.assert_allclose(array(logits), found, rtol=1e-4, atol=1e-4)


def test_order_learning_is_the_cross_entropy_of_points_alone(batch_of):
    method, batch = batch_of("order-learning")
    mean = linear(method.model.mean, array(method.model.features(batch.images)))
    losses = method(batch)
    assert losses.keys() == {"total"}
    by_hand = order_by_hand(method.model.comparator, [mean], batch)
    assert losses["total"].item() == pytest.approx(by_hand, **HAND_TOLERANCE)


@pytest.mark.parametrize("name", ["regression", "aanet", "co-attention"])
def test_methods_of_one_squared_error(batch_of, name):
    method, batch = batch_of(name)
    features = array(method.features(batch.images, batch.attributes))
    score = (
        linear(method.head[2], relu(linear(method.head[0], features))) if name == "co-attention"
        else linear(method.head, features)
    )[:, 0]  # fmt: skip
    assert method(batch)["total"].item() == pytest.approx(squared(score, batch), **HAND_TOLERANCE)


def test_uncertain_regression_is_squared_error_plus_dispersion(batch_of):
    method, batch = batch_of("uncertain-regression")
    losses = seeded(lambda: method(batch))
    mean, deviation = gaussians_by_hand(method, array(method.features(batch.images)))
    score = np.mean([linear(method.head, point)[:, 0] for point in drawn_points(mean, deviation)], 0)
    total = squared(score, batch) + BETA * dispersion_by_hand(deviation, batch)
    assert losses["total"].item() == pytest.approx(total, **HAND_TOLERANCE)


def test_ldl_is_the_divergence_from_the_histograms(batch_of):
    method, batch = batch_of("ldl")
    logits = linear(method.head, array(method.features(batch.images)))
    by_hand = np.mean(
        [
            sum(p * (math.log(p) - q) for p, q in zip(share, log_softmax(row), strict=True) if p > 0)
            for share, row in zip(array(batch.histogram), logits, strict=True)
        ]
    )
    assert method(batch)["total"].item() == pytest.approx(float(by_hand), **HAND_TOLERANCE)


def classes_by_hand(batch):
    """The nearest of five levels, which are a unit apart."""
    return [round((score - 1) / UNIT) for score in array(batch.scores)]


def test_crnet_weighs_classes_four_and_error_six_tenths(batch_of):
    method, batch = batch_of("crnet")
    features = array(method.features(batch.images))

    def head(layers):
        return linear(layers[6], relu(linear(layers[3], relu(linear(layers[0], features)))))

    logits = head(method.class_head)
    entropy = np.mean([-log_softmax(row)[k] for row, k in zip(logits, classes_by_hand(batch), strict=True)])
    total = 0.4 * entropy + 0.6 * squared(head(method.head)[:, 0], batch)
    assert method(batch)["total"].item() == pytest.approx(total, **HAND_TOLERANCE)


def test_comboloss_is_twice_the_error_plus_expectation_plus_weighted_classes(batch_of, drawn_b):
    method, batch = batch_of("comboloss")
    method.prepare_for(PackedImages.pack(drawn_b, method.recipe.model))
    features, truth = array(method.features(batch.images)), in_units(batch)
    score, logits = linear(method.head, features)[:, 0], linear(method.class_head, features)
    classes = classes_by_hand(batch)
    levels = [1 / UNIT + step for step in range(5)]
    expected = [sum(math.exp(q) * level for q, level in zip(log_softmax(row), levels, strict=True)) for row in logits]
    weight = {k: 80 / (5 * classes.count(k)) for k in set(classes)}
    entropy = sum(-weight[k] * log_softmax(row)[k] for row, k in zip(logits, classes, strict=True))
    entropy /= sum(weight[k] for k in classes)
    total = 2 * np.abs(score - truth).mean() + np.abs(np.array(expected) - truth).mean() + entropy
    assert method(batch)["total"].item() == pytest.approx(float(total), **HAND_TOLERANCE)


def test_r3cnn_adds_a_tenth_of_the_ranking_in_the_second_half(batch_of):
    method, batch = batch_of("r3cnn")
    gender = torch.tensor([-1.0, 1.0, 0.0, 1.0] * 20)
    batch = batch._replace(attributes=torch.stack([gender, gender], 1))
    features, truth = array(method.features(batch.images)), in_units(batch)
    hinges = []
    for i in range(80):
        for j in range(80):
            gap = truth[i] - truth[j]
            if 1e-5 < abs(gap) <= 1 + 1e-5 and gender[i] * gender[j] >= 0:
                rank = linear(method.ranking_head, relu(features[i] - features[j]))[0]
                hinges.append(max(0.0, 3.0 - math.copysign(1, gap) * rank))
    score, ranking = squared(linear(method.head, features)[:, 0], batch), float(np.mean(hinges))
    for epoch, weight in enumerate([0.0, 0.0, 0.1, 0.1]):
        method.begin_epoch(epoch, 4)
        assert method(batch)["total"].item() == pytest.approx(score + weight * ranking, **HAND_TOLERANCE)


@pytest.mark.parametrize(("epoch", "delta", "cut"), [(0, 0.7, 2.0), (4, 0.3, 1.0)])
def test_cnn_er_is_the_mean_of_six_losses(batch_of, epoch, delta, cut):
    method, batch = batch_of("cnn-er")
    method.begin_epoch(epoch, 5)
    features, truth = array(method.features(batch.images)), in_units(batch)

    def member(head):
        if hasattr(head, "unit"):
            return linear(head.unit, relu(linear(head.branches[0], features)))[:, 0] - truth
        return linear(head, features)[:, 0] - truth

    def huber(n):
        return n * n / 2 if n < delta else delta * (n - delta / 2)

    def smooth(n):
        return n * n / 2 if n < delta else n + delta**2 / 2 - delta

    def tukey(n):
        return cut**2 / 6 * (1 - (1 - (n / cut) ** 2) ** 3) if n < cut else cut**2 / 6

    losses = [lambda n: n * n, lambda n: n * n, huber, huber, smooth, tukey]
    total = np.mean(
        [np.mean([loss(abs(error)) for error in member(head)]) for loss, head in zip(losses, method.heads, strict=True)]
    )
    assert method(batch)["total"].item() == pytest.approx(float(total), **HAND_TOLERANCE)


def test_every_method_is_here():
    assert set(methods.names()) == {
        "uol", "order-learning", "regression", "aanet", "co-attention", "uncertain-regression", "ldl", "crnet",
        "comboloss", "r3cnn", "cnn-er",
    }  # fmt: skip
