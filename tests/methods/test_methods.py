"""Every method on the one interface: finite predictions inside the scale, intervals that contain the value."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.errors import CallError, UolError
from uol.methods.aanet import AaNet
from uol.methods.cnn_er import CnnEr
from uol.methods.co_attention import AttentionPooling, CoAttention, PartPooling, part_masks
from uol.methods.comboloss import ComboLoss
from uol.methods.ldl import Ldl
from uol.methods.r3cnn import R3Cnn
from uol.methods.uol import Uol
from uol.order.calibration import calibrate
from uol.order.losses import huber, nearest_level, ranking_hinge, smooth_l1, tukey
from uol.runs.run import check_before_reading, hold_out, run
from uol.training.batches import fixed_batches
from uol.training.packed import PackedImages

DOCS = Path(__file__).parents[2] / "docs"
POSITIONS = {
    "backbone": "test_byobnet", "resize": 32, "crop": 32, "dimensions": 16, "hidden": 16, "pooling": "positions",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(drawn, tmp_path_factory):
    """Trains a method when it is first asked for: images, recipe, run folder, reports of epochs, predictions."""

    @cache
    def finish(name):
        recipe, folder, reports = quick_recipe(method=name, epochs=6), tmp_path_factory.mktemp("method"), []
        packed = PackedImages.pack(drawn, recipe.model)
        predictions = run(packed, recipe, folder, reports.append, accelerator="cpu").predict(packed.centre)
        return packed, recipe, folder, reports, predictions

    return finish


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.names())
def test_predictions(drawn, finished, name):
    *_, predictions = finished(name)
    low, high = drawn.scale
    assert len(predictions.value) == 80
    assert ((low <= predictions.low) & (predictions.low <= predictions.value)).all()
    assert ((predictions.value <= predictions.high) & (predictions.high <= high)).all()
    assert np.isfinite(predictions.value).all()
    if name in ("uol", "ldl", "uncertain-regression"):
        assert np.ptp(predictions.dispersion) > 0
    elif name == "order-learning":
        assert np.ptp(predictions.dispersion) == pytest.approx(0)
    else:
        assert np.isnan(predictions.dispersion).all()


@pytest.mark.parametrize("name", methods.names())
def test_losses_have_a_total_and_gradients(drawn, name):
    recipe = quick_recipe(method=name)
    method = methods.find(name)(recipe, drawn.scale, levels=5)
    data = PackedImages.pack(drawn, recipe.model)
    losses = method(fixed_batches(data, recipe, torch.device("cpu"))[0])
    losses["total"].backward()
    assert all(parameter.grad is not None for parameter in method.parameters())


def test_unknown_methods_and_untrained_scorers(drawn):
    with pytest.raises(CallError, match="no method called 'oul'"):
        methods.find("oul")
    with pytest.raises(UolError, match="not trained yet"):
        Uol(quick_recipe(), drawn.scale).scorer  # noqa: B018


def test_helpers_add_their_losses_and_are_not_in_the_model(drawn):
    recipe = quick_recipe(score_weight=2.0, histogram_weight=0.5, frozen=1, model=POSITIONS)
    data = PackedImages.pack(drawn, recipe.model)
    batch = fixed_batches(data, recipe, torch.device("cpu"))[0]
    method = Uol(recipe, drawn.scale, levels=5)
    torch.manual_seed(0)
    losses = method(batch)
    torch.manual_seed(0)
    plain = method.order_losses(method.model(batch.images), batch)
    features = method.model.features(batch.images)
    score = ((method.score_head(features)[:, 0] - batch.scores) ** 2).mean()
    shares = -(method.histogram_head(features).log_softmax(-1) * batch.histogram).sum(-1).mean()
    assert torch.allclose(losses["total"], plain["total"] + 2 * score + 0.5 * shares)
    assert not any("head" in key for key in method.model.state_dict() if key.startswith(("score", "histogram")))


def test_without_histograms_there_is_no_histogram_helper(drawn):
    assert Uol(quick_recipe(histogram_weight=0.5), drawn.scale).histogram_head is None


def test_histograms_told_from_places_are_learnt_and_kept(drawn):
    recipe = quick_recipe(histogram_weight=0.5).with_changes({"model.levels": 5})
    batch = fixed_batches(PackedImages.pack(drawn, recipe.model), recipe, torch.device("cpu"))[0]
    method = Uol(recipe, drawn.scale, levels=5)
    assert method.histogram_head is None
    assert "levels.weight" in method.model.state_dict()
    losses = method(batch)
    places = method.model(batch.images).mean
    shares = -(method.model.levels(places).log_softmax(-1) * batch.histogram).sum(-1).mean()
    assert torch.allclose(losses["histogram"], shares)
    losses["total"].backward()
    assert method.model.levels.weight.grad.any()


def test_histograms_that_cannot_be_told_are_refused(drawn):
    recipe = quick_recipe(histogram_weight=0.5).with_changes({"model.levels": 5})
    for levels, panels in ((10, 1), (10, 2), (4, 2)):
        with pytest.raises(CallError, match=f"model.levels: 5: the histograms have {levels} rating levels"):
            Uol(recipe, drawn.scale, levels, panels)
    for panels in (1, 2):
        with pytest.raises(CallError, match="model.levels: 5: no histograms of ratings are known"):
            Uol(recipe, drawn.scale, 0, panels)
    with pytest.raises(CallError, match="requires histogram_weight above 0"):
        quick_recipe().with_changes({"model.levels": 5})
    with pytest.raises(CallError, match="two levels at least"):
        recipe.with_changes({"model.levels": 1})
    with pytest.raises(CallError, match="method ldl has no use for model.levels"):
        methods.find("ldl").check(recipe.with_changes({"method": "ldl"}))


@pytest.mark.slow
def test_frozen_convolutions_keep_their_weights(drawn):
    recipe = quick_recipe(frozen=2, epochs=1)
    packed = PackedImages.pack(drawn, recipe.model)
    torch.manual_seed(recipe.seed)
    before = [p.clone() for p in Uol(recipe, drawn.scale).model.backbone.parameters()]
    after = list(run(packed, recipe, accelerator="cpu").model.backbone.parameters())
    same = [torch.equal(a, b) for a, b in zip(before, after, strict=True)]
    assert any(same)
    assert not all(same)
    assert [p.requires_grad for p in after].count(False) >= 2
    with pytest.raises(CallError, match="convolutions; 99 of them cannot be frozen"):
        Uol(quick_recipe(frozen=99), drawn.scale)


@pytest.mark.slow
def test_regression_pools_and_mirrors_as_the_recipe_says(drawn):
    recipe = quick_recipe(method="regression", model=POSITIONS, scoring={"mirror": True})
    packed = PackedImages.pack(drawn, recipe.model)
    method = run(packed, recipe, accelerator="cpu")
    assert method.head.in_features == 2 * method.model.backbone.width
    pixels = packed.centre
    assert np.allclose(method.predict(pixels).value, method.predict(pixels.flip(-1)).value, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.names())
def test_losses_fall_and_a_checkpoint_brings_the_same_predictions_back(finished, name):
    packed, recipe, folder, reports, first = finished(name)
    assert reports[-1].losses["total"] < reports[0].losses["total"]
    again = run(packed, recipe, folder, reports.append, accelerator="cpu").predict(packed.centre)
    assert len(reports) == 6  # nothing was trained again
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one, two, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.names())
def test_another_panels_scale(drawn_b, name):
    recipe = quick_recipe(method=name, epochs=6)
    packed = PackedImages.pack(drawn_b, recipe.model)
    predictions = run(packed, recipe, accelerator="cpu").predict(packed.centre)
    assert ((predictions.value >= 1) & (predictions.value <= 10)).all()
    assert np.abs(predictions.value - drawn_b.scores).mean() < 3
    assert ((predictions.low <= predictions.value) & (predictions.value <= predictions.high)).all()


@pytest.mark.parametrize("name", methods.names())
def test_losses_are_of_32_bits_where_products_are_of_16(drawn, name):
    recipe = quick_recipe(method=name)
    method = methods.find(name)(recipe, drawn.scale, levels=5)
    batch = fixed_batches(PackedImages.pack(drawn, recipe.model), recipe, torch.device("cpu"))[0]
    with torch.autocast("cpu", torch.bfloat16):
        losses = method(batch)
    assert all(loss.dtype == torch.float32 and torch.isfinite(loss) for loss in losses.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ldl", "uncertain-regression"])
def test_dispersion_is_that_of_the_panel_where_known(drawn, finished, name):
    packed, recipe, _, _, predictions = finished(name)
    assert np.median(predictions.dispersion) == pytest.approx(np.median(np.sqrt(drawn.variances)), rel=0.25)
    unknown = PackedImages.pack(replace(drawn, variances=np.full(80, np.nan)), recipe.model)
    assert np.isnan(run(unknown, recipe, accelerator="cpu").predict(packed.centre).dispersion).all()


def test_ldl_without_histograms_is_refused_in_one_line(drawn):
    recipe = quick_recipe(method="ldl")
    packed = PackedImages.pack(replace(drawn, histograms=None), recipe.model)
    with pytest.raises(CallError, match="method ldl learns histograms of ratings: give data with") as refused:
        run(packed, recipe, accelerator="cpu")
    assert "\n" not in str(refused.value)


def test_ldl_predicts_the_mean_of_its_distribution(drawn_b):
    method = Ldl(quick_recipe(), drawn_b.scale, levels=10).eval()
    pixels = PackedImages.pack(drawn_b, quick_recipe().model).centre[:8]
    with torch.inference_mode():
        shares = method.head(method.model.features(pixels)).softmax(-1).double().numpy()
    levels = np.arange(1, 11)
    mean = shares @ levels
    assert np.allclose(method.predict(pixels).value, mean, atol=1e-5)
    spread = np.sqrt((shares * (levels - mean[:, None]) ** 2).sum(-1)) / drawn_b.scale.unit
    assert np.allclose(method.values(pixels)[1], spread, atol=1e-5)


@pytest.mark.slow
def test_comboloss_weighs_the_classes_of_the_training_images(drawn):
    recipe = quick_recipe(method="comboloss", epochs=1)
    method = run(PackedImages.pack(drawn, recipe.model), recipe, accelerator="cpu")
    assert isinstance(method, ComboLoss)
    fresh = ComboLoss(recipe, drawn.scale)
    assert fresh.class_weight.tolist() == [1] * 5
    fresh.prepare_for(PackedImages.pack(drawn, recipe.model))
    count = np.bincount(nearest_level(torch.from_numpy(drawn.scores), drawn.scale, 5), minlength=5)
    assert fresh.class_weight.tolist() == pytest.approx(list(80 / 5 / np.maximum(count, 1)))
    assert not torch.equal(method.class_weight, fresh.class_weight)  # the held-out images are not among its own


@pytest.fixture(scope="module")
def people(drawn):
    """The drawn faces with genders and ethnicities, some unknown."""
    return replace(
        drawn,
        groups=pd.DataFrame(
            {"gender": ["female", "male", "", "Female"] * 20, "ethnicity": ["asian", "caucasian"] * 40}
        ),
    )


def first_batch(rated, recipe):
    return fixed_batches(PackedImages.pack(rated, recipe.model), recipe, torch.device("cpu"))[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r3cnn", "aanet", "cnn-er", "co-attention"])
def test_saved_weights_bring_the_same_predictions_back(people, name):
    recipe = quick_recipe(method=name, scoring={"mirror": True})
    packed = PackedImages.pack(people, recipe.model)
    method = run(packed, recipe, accelerator="cpu")
    restored = methods.find(name)(recipe, people.scale, 5)
    restored.load_state_dict(method.state_dict())
    assert np.array_equal(restored.values(packed.centre)[0], method.values(packed.centre)[0])
    assert np.allclose(method.values(packed.centre)[0], method.values(packed.centre.flip(-1))[0], atol=1e-5)


@pytest.mark.slow
def test_the_loop_tells_each_epoch(drawn, monkeypatch):
    told = []
    monkeypatch.setattr(R3Cnn, "begin_epoch", lambda self, epoch, epochs: told.append((epoch, epochs, self.training)))
    recipe = quick_recipe(method="r3cnn")
    run(PackedImages.pack(drawn, recipe.model), recipe, accelerator="cpu")
    assert told == [(0, 3, True), (1, 3, True), (2, 3, True)]


@torch.no_grad()
def test_r3cnn_ranks_in_the_second_half(people):
    recipe = quick_recipe(method="r3cnn")
    method, batch = R3Cnn(recipe, people.scale), first_batch(people, recipe)
    place, weights = method.ranking_weight.data_ptr(), []
    for epoch in range(4):
        method.begin_epoch(epoch, 4)
        weights.append(float(method.ranking_weight))
        losses = method(batch)
        assert float(losses["total"]) == pytest.approx(float(losses["score"] + weights[-1] * losses["ranking"]))
    assert weights == pytest.approx([0, 0, 0.1, 0.1])
    assert method.ranking_weight.data_ptr() == place
    method.eval()
    features = method.model.features(batch.images)
    rank = torch.stack([method.ranking_head((one - features).relu())[:, 0] for one in features])
    expected = ranking_hinge(rank, batch.scores, batch.attributes[:, 0])
    assert float(method(batch)["ranking"]) == pytest.approx(float(expected), rel=1e-5)


@torch.no_grad()
def test_aanet_hides_a_tenth_of_the_attributes_in_training_alone(people):
    recipe = quick_recipe(method="aanet")
    method, batch = AaNet(recipe, people.scale), first_batch(people, recipe)
    seen = []
    method.embedding.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    for _ in range(60):
        method(batch)
    known = batch.attributes.any(1)
    shown = torch.stack(seen)[:, known]
    same, hidden = (shown == batch.attributes[known]).all(-1), (shown == 0).all(-1)
    assert (same ^ hidden).all()  # both attributes of an image, or none
    assert float(hidden.float().mean()) == pytest.approx(0.1, abs=0.03)
    method.eval()
    seen.clear()
    method(batch)
    assert torch.equal(seen[0], batch.attributes)


class Scaled(torch.nn.Module):
    """A convolution whose filters, and bias, are scaled, and its bias shifted: the slow way, for one image."""

    def __init__(self, layer, factor, shift):
        super().__init__()
        self.layer, self.factor, self.shift = layer, factor, shift

    def forward(self, images):
        layer = self.layer
        bias = None if layer.bias is None else layer.bias * self.factor + self.shift
        weight = layer.weight * self.factor[:, None, None, None]
        return torch.nn.functional.conv2d(
            images, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups
        )


@pytest.mark.parametrize("backbone", ["vgg11", "mobilenetv2_100", "test_resnet"])
@torch.no_grad()
def test_aanet_scales_the_filters_of_every_convolution(drawn, backbone):
    model = {"backbone": backbone, "resize": 32, "crop": 32, "dimensions": 16, "hidden": 16}
    method = AaNet(quick_recipe(method="aanet", model=model), drawn.scale).eval()
    images = torch.from_numpy(np.asarray(drawn.images)[:3].transpose(0, 3, 1, 2).copy())
    attributes = torch.tensor([[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]])
    plain = method.model.features(images)
    assert torch.equal(method.features(images, attributes), plain)  # it begins as regression
    torch.nn.init.normal_(method.tuner.weight, std=0.05)
    tuned = method.features(images, attributes)
    assert not torch.allclose(tuned[0], plain[0])
    assert torch.equal(method.features(images)[0], method.features(images, torch.zeros(3, 2))[0])
    network = method.model.backbone.net
    layers = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, torch.nn.Conv2d)]
    rows = method.tuner(method.embedding(attributes))[0].split(method._sizes)
    for (name, layer), row in zip(layers, rows, strict=True):
        factor, shift = (row, None) if layer.bias is None else row.chunk(2)
        parent, _, last = name.rpartition(".")
        setattr(network.get_submodule(parent), last, Scaled(layer, 1 + factor, shift))
    assert torch.allclose(method.model.features(images[:1])[0], tuned[0], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_aanet_is_told_attributes_in_calibration_and_at_test(people):
    recipe = quick_recipe(method="aanet", epochs=6)
    packed = PackedImages.pack(people, recipe.model)
    method = run(packed, recipe, accelerator="cpu")
    told, unknown = method.predict(packed.centre, packed.attributes), method.predict(packed.centre)
    assert not np.allclose(told.value, unknown.value)
    assert np.array_equal(unknown.value, method.predict(packed.centre, torch.zeros(80, 2)).value)
    _, held_out = hold_out(packed, recipe)
    value, _ = method.values(held_out.centre, held_out.attributes)
    expected = calibrate(held_out.rated.scores, value, np.ones_like(value), line=False)
    assert method.calibration == expected


def test_aanet_does_not_tune_frozen_convolutions(drawn):
    every, fewer = (AaNet(quick_recipe(method="aanet", frozen=frozen), drawn.scale) for frozen in (0, 2))
    assert len(every._sizes) - len(fewer._sizes) == 2
    with pytest.raises(CallError, match="test_byobnet has none that are trained: choose another backbone") as refused:
        AaNet(quick_recipe(method="aanet", frozen=len(every._sizes)), drawn.scale)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aanet", "r3cnn"])
def test_without_attributes_there_is_the_neutral_value(drawn, name):
    words = pd.DataFrame({"gender": ["femme", "homme"] * 40, "ethnicity": ["x"] * 80})
    recipe = quick_recipe(method=name)
    unknown, other = (PackedImages.pack(rated, recipe.model) for rated in (drawn, replace(drawn, groups=words)))
    assert not unknown.attributes.any()
    assert not other.attributes.any()
    first, second = (run(packed, recipe, accelerator="cpu").predict(packed.centre) for packed in (unknown, other))
    assert np.array_equal(first.value, second.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in methods.names() if name != "aanet"])
def test_other_methods_pass_attributes_over(people, name):
    recipe = quick_recipe(method=name, epochs=1)
    packed = PackedImages.pack(people, recipe.model)
    method = run(packed, recipe, accelerator="cpu")
    assert np.array_equal(method.predict(packed.centre, packed.attributes).value, method.predict(packed.centre).value)


@torch.no_grad()
def test_cnn_er_parameters_follow_a_cosine(drawn_b):
    recipe = quick_recipe(method="cnn-er")
    method, batch = CnnEr(recipe, drawn_b.scale).eval(), first_batch(drawn_b, recipe)
    places, thresholds, cuts = (method.threshold.data_ptr(), method.tukey_cut.data_ptr()), [], []
    for epoch in range(5):
        method.begin_epoch(epoch, 5)
        thresholds.append(float(method.threshold))
        cuts.append(float(method.tukey_cut))
    half = np.sqrt(0.5) / 2
    assert thresholds == pytest.approx([0.7, 0.5 + 0.4 * half, 0.5, 0.5 - 0.4 * half, 0.3])
    assert cuts == pytest.approx([2, 1.5 + half, 1.5, 1.5 - half, 1])
    assert places == (method.threshold.data_ptr(), method.tukey_cut.data_ptr())
    features = method.model.features(batch.images)
    error = [head(features)[:, 0] - batch.scores / 2.25 for head in method.heads]
    at, cut = torch.tensor(0.3), torch.tensor(1.0)
    parts = [error[n].square().mean() for n in (0, 1)] + [huber(error[n], at) for n in (2, 3)]
    parts += [smooth_l1(error[4], at), tukey(error[5], cut)]
    assert float(method(batch)["total"]) == pytest.approx(float(sum(parts)) / 6, rel=1e-4)
    asked = torch.stack([head(features)[:, 0] for head in method.heads]).mean(0)
    assert torch.allclose(method.estimate(features).score, asked)
    method.begin_epoch(0, 1)
    assert float(method.threshold) == pytest.approx(0.7)


@torch.no_grad()
def test_cnn_er_with_a_second_backbone_is_six_separate_networks(drawn):
    recipe = quick_recipe(method="cnn-er", second_backbone="test_resnet")
    method = CnnEr(recipe, drawn.scale).eval()
    networks = [method.model, *method.others]
    f, s = "test_byobnet", "test_resnet"
    assert [network.backbone.name for network in networks] == [f, f, s, s, f, s, f, s, f, s]
    images = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    features = [network.features(images) for network in networks]
    assert not torch.allclose(features[0], features[1])
    scores = method._scores(method.features(images))
    for head, parts, score in zip(method.heads, [(0,), (1, 2), (3,), (4, 5), (6, 7), (8, 9)], scores, strict=True):
        if len(parts) == 1:
            expected = head(features[parts[0]])
        else:
            halves = [branch(features[part]) for branch, part in zip(head.branches, parts, strict=True)]
            assert [half.shape[1] for half in halves] == [1024, 1024]
            expected = head.unit(torch.cat(halves, 1).relu())
        assert torch.allclose(score, expected[:, 0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn-er", "co-attention"])
def test_two_backbones_train_and_come_back(drawn, tmp_path, name):
    recipe = quick_recipe(method=name, second_backbone="test_resnet", epochs=4)
    packed = PackedImages.pack(drawn, recipe.model)
    reports = []
    first = run(packed, recipe, tmp_path / "run", reports.append, accelerator="cpu").predict(packed.centre)
    assert reports[-1].losses["total"] < reports[0].losses["total"]
    again = run(packed, recipe, tmp_path / "run", accelerator="cpu").predict(packed.centre)
    assert np.array_equal(first.value, again.value)


def test_second_backbones_where_none_is_wanted_or_weights_are_for_one(drawn):
    for name in set(methods.names()) - {"cnn-er", "co-attention"}:
        with pytest.raises(CallError, match=f"method {name} has one backbone; leave second_backbone out"):
            methods.find(name)(quick_recipe(method=name, second_backbone="test_resnet"), drawn.scale, 5)
    recipe = quick_recipe(method="cnn-er", second_backbone="test_resnet", init="weights.safetensors")
    with pytest.raises(CallError, match="a file has the weights of one backbone; with two, init is timm or none"):
        CnnEr(recipe, drawn.scale)
    with pytest.raises(CallError, match="test_mambaout gives none"):
        CoAttention(quick_recipe(method="co-attention", second_backbone="test_mambaout"), drawn.scale)
    with pytest.raises(CallError, match="timm has no model called 'resnext'"):
        check_before_reading(quick_recipe(method="cnn-er", second_backbone="resnext"))


def test_teachers_where_no_method_would_listen_are_refused(drawn):
    for name in set(methods.names()) - {"uol", "order-learning"}:
        recipe = quick_recipe(method=name, teachers=["runs/none"])
        told = f"method {name} learns from no teachers; leave teachers out"
        with pytest.raises(CallError, match=told):
            methods.find(name)(recipe, drawn.scale, 5)
        with pytest.raises(CallError, match=told):
            check_before_reading(recipe)


def test_part_masks_lie_where_the_parts_of_an_aligned_face_do():
    masks = part_masks((56, 56))
    assert masks.shape == (7, 56, 56)
    assert torch.allclose(masks.sum((1, 2)), torch.ones(7))
    along = (torch.arange(56) + 0.5) / 56
    x, y = (masks.sum(1) * along).sum(1), (masks.sum(2) * along).sum(1)
    expected = {0: (0.382, 0.448), 1: (0.626, 0.446), 3: (0.506, 0.602), 4: (0.506, 0.711)}
    for part, place in expected.items():
        assert (float(x[part]), float(y[part])) == pytest.approx(place, abs=0.005)
    assert y[2] < y[0] < y[3] < y[4] < y[5]  # brows, eyes, nose, mouth, jaw
    assert masks[6].argmin() in masks[:6].flatten(1).argmax(1)
    nearer = (part_masks((56, 56), 0.8)[0].sum(0) * along).sum()
    assert float(nearer) == pytest.approx(0.5 + (0.382 - 0.5) / 0.8, abs=0.005)
    for side in (1, 2, 3, 7):
        assert torch.isfinite(part_masks((side, side))).all()


@torch.no_grad()
def test_co_attention_sums_by_position_and_by_part(drawn):
    attended, weighted = AttentionPooling(8), PartPooling(part_masks((3, 4)))
    torch.nn.init.normal_(weighted.logits)
    maps = torch.randn(2, 8, 3, 4)
    weight = weighted.logits.softmax(0)
    for n in range(2):
        cells = [maps[n, :, r, c] for r in range(3) for c in range(4)]
        attention = torch.cat([attended.attention(cell) for cell in cells]).softmax(0)
        expected = sum(a * cell for a, cell in zip(attention, cells, strict=True))
        assert torch.allclose(attended(maps)[n], expected, atol=1e-5)
        parts = sum(weight[k] * (weighted.masks[k] * maps[n]).sum((1, 2)) for k in range(7))
        assert torch.allclose(weighted(maps)[n], parts, atol=1e-5)
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    for second in (None, "test_resnet", "test_vit"):
        method = CoAttention(quick_recipe(method="co-attention", second_backbone=second), drawn.scale).eval()
        first, other = method.model.backbone, (method.second or method.model).backbone
        maps, of_parts = (each.as_maps(each.feature_maps(images)) for each in (first, other))
        expected = torch.cat([method.attention(maps), method.parts(of_parts)], 1)
        assert torch.allclose(method.features(images), expected, atol=1e-5)


def test_co_attention_without_feature_maps_is_refused_in_one_line(drawn):
    model = {"backbone": "test_mambaout", "resize": 32, "crop": 32, "dimensions": 16, "hidden": 16}
    told = "method co-attention needs feature maps, and test_mambaout gives none"
    with pytest.raises(CallError, match=told) as refused:
        CoAttention(quick_recipe(method="co-attention", model=model), drawn.scale)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "heading", "name"),
    [("howto/add-a-method", "# Add a method", "absolute"), ("methods", "## Adding one", "balanced")],
)
def test_the_methods_of_the_pages_work(drawn, monkeypatch, page, heading, name):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    code, line, *_ = re.findall(r"```(?:python|{code-cell} python)\n(.*?)```", text[text.index(heading) :], re.S)
    module = types.ModuleType(f"uol.methods.{name}")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, f"uol.methods.{name}", module)
    for key, place in eval(f"{{{line}}}").items():
        monkeypatch.setitem(methods._METHODS, key, place)
    recipe = quick_recipe(method=name, epochs=5)
    packed, reports = PackedImages.pack(drawn, recipe.model), []
    method = run(packed, recipe, report=reports.append, accelerator="cpu")
    assert reports[-1].losses["total"] < reports[0].losses["total"]
    predictions = method.predict(packed.centre)
    assert ((predictions.low <= predictions.value) & (predictions.value <= predictions.high)).all()


def test_the_page_on_methods_tells_of_all():
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    for name in methods.names():
        assert f"| `{name}` |" in text
        assert f"**`{name}`" in text


def test_training_in_closed_form_draws_nothing(drawn):
    recipe = quick_recipe(sampling="closed-form")
    batch = fixed_batches(PackedImages.pack(drawn, recipe.model), recipe, torch.device("cpu"))[0]
    method = Uol(recipe, drawn.scale).eval()
    assert torch.equal(method(batch)["total"], method(batch)["total"])
    method(batch)["total"].backward()
    assert float(method.model.log_variance.bias.grad.abs().max()) > 0
