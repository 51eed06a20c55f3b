"""The loop: losses fall, runs repeat, a killed run resumes to the same weights, trouble is said in one line."""

from __future__ import annotations

import math
import re

import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.errors import CallError, UolError
from uol.methods.uol import Uol
from uol.order.backbones import Backbone
from uol.training import stepper
from uol.training.batches import fixed_batches
from uol.training.checkpoint import read_progress
from uol.training.loop import train
from uol.training.packed import PackedImages
from uol.training.stepper import choose_engine, depthwise_in_float32, learning_rate, make_optimizer


def fresh(drawn, recipe):
    torch.manual_seed(recipe.seed)
    return methods.find(recipe.method)(recipe, drawn.scale, 5), PackedImages.pack(drawn, recipe.model)


def trained_weights(drawn, recipe, **options):
    method, data = fresh(drawn, recipe)
    train(method, data, recipe, accelerator="cpu", **options)
    return method.state_dict()


def same(a, b):
    return all(torch.equal(a[key], b[key]) for key in a)


def test_schedule():
    recipe = quick_recipe(learning_rate=1.0, final_learning_rate=0.1, warmup_steps=4)
    rates = [learning_rate(step, 20, recipe) for step in range(20)]
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates[4] == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(0.1)
    assert rates[4:] == sorted(rates[4:], reverse=True)
    paper = quick_recipe(learning_rate=1e-4, final_learning_rate=1e-6)
    assert [learning_rate(s, 101, paper) for s in (0, 50, 100)] == pytest.approx([1e-4, 5.05e-5, 1e-6])


def test_linear_and_stepped_schedules():
    linear = quick_recipe(schedule="linear", learning_rate=1.0, final_learning_rate=0.2, warmup_steps=2)
    assert [learning_rate(step, 7, linear) for step in range(7)] == pytest.approx([0.5, 1, 1, 0.8, 0.6, 0.4, 0.2])
    steps = quick_recipe(schedule="steps", learning_rate=2.0, epochs=5, milestones=[[1, 0.1], [3, 0.5]], warmup_steps=1)
    rates = [learning_rate(step, 15, steps) for step in range(15)]
    assert rates == pytest.approx([2] * 3 + [0.2] * 6 + [1.0] * 6)
    flat = quick_recipe(schedule="steps", learning_rate=2.0)
    assert {learning_rate(step, 15, flat) for step in range(15)} == {2.0}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"milestones": [[1, 0.1]]}, "milestones: for schedule steps, not cosine"),
        ({"schedule": "steps", "milestones": [[3, 0.1], [3, 0.01]]}, "each later than the one before"),
        ({"schedule": "steps", "milestones": [[0, 0.1]]}, "epochs must start from 1"),
        ({"schedule": "steps", "milestones": [[1, 0]]}, "factors must be above 0"),
    ],
)
def test_wrong_milestones_are_refused_in_one_line(settings, complaint):
    with pytest.raises(CallError, match=complaint) as refused:
        quick_recipe(**settings)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_stochastic_gradient_descent_equals_its_slow_reading(drawn):
    recipe = quick_recipe(
        method="regression", optimizer="sgd", schedule="steps", milestones=[[1, 0.1]], learning_rate=0.01,
        weight_decay=0.1, epochs=2, batch_size=80, augmentation={"flip": False},
    )  # fmt: skip
    method, data = fresh(drawn, recipe)
    weights = {name: value.detach().clone() for name, value in method.named_parameters()}
    velocity = {name: torch.zeros_like(value) for name, value in weights.items()}
    for epoch in range(2):
        batch = fixed_batches(data, recipe, torch.device("cpu"))[0]
        known = [value.requires_grad_() for value in weights.values()]
        slopes = torch.autograd.grad(torch.func.functional_call(method, weights, (batch,))["total"], known)
        for (name, value), slope in zip(weights.items(), slopes, strict=True):
            velocity[name] = 0.9 * velocity[name] + slope + 0.1 * value.detach()
            weights[name] = value.detach() - 0.01 * 0.1**epoch * velocity[name]
    method, _ = fresh(drawn, recipe)
    train(method, data, recipe, accelerator="cpu")
    for name, value in method.named_parameters():
        assert torch.allclose(value, weights[name], rtol=1e-3, atol=1e-5), name


@pytest.mark.slow
def test_layers_of_the_backbone_learn_ever_less_towards_the_first(drawn):
    model = {"backbone": "test_vit", "resize": 32, "crop": 32, "dimensions": 16, "hidden": 16}
    settings = {"model": model, "optimizer": "sgd", "epochs": 1, "batch_size": 80}
    moved = {}
    for decay in (1.0, 0.5):
        recipe = quick_recipe(**settings, layer_decay=decay)
        before = {name: value.detach().clone() for name, value in fresh(drawn, recipe)[0].named_parameters()}
        after = trained_weights(drawn, recipe)
        moved[decay] = {name: after[name] - value for name, value in before.items()}
    blocks = len(Backbone("test_vit").net.blocks)
    checked = set()
    for name, whole in moved[1.0].items():
        block = re.search(r"backbone\.net\.blocks\.(\d+)", name)
        early = "backbone.net" in name and ("patch_embed" in name or "pos_embed" in name or "cls_token" in name)
        share = 0.5 ** (blocks - 1 - int(block[1])) if block else 0.5**blocks if early else 1.0
        assert torch.allclose(moved[0.5][name], share * whole, rtol=1e-3, atol=1e-7), name
        checked.add(share)
    assert len(checked) == blocks + 1


def test_layers_of_both_backbones_learn_less_than_what_follows_them(drawn):
    recipe = quick_recipe(method="co-attention", second_backbone="test_resnet", layer_decay=0.5)
    method, _ = fresh(drawn, recipe)
    rates = {
        value: float(group["lr"])
        for group in make_optimizer(method, recipe, torch.device("cpu")).param_groups
        for value in group["params"]
    }
    backbones = [module for module in method.modules() if isinstance(module, Backbone)]
    assert len(backbones) == 2
    for backbone in backbones:
        own = [rates.pop(value) for value in backbone.net.parameters()]
        assert min(own) < 0.5 * recipe.learning_rate
        assert max(own) == pytest.approx(recipe.learning_rate)
    assert list(rates.values()) == pytest.approx([recipe.learning_rate] * len(rates))


@pytest.mark.slow
def test_losses_fall(drawn):
    """Of the other methods too: tests/methods."""
    reports = []
    trained_weights(drawn, quick_recipe(epochs=8), report=reports.append)
    assert [report.epoch for report in reports] == list(range(1, 9))
    assert reports[-1].losses["total"] < reports[0].losses["total"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights(drawn):
    recipe = quick_recipe(epochs=2, deterministic=True)
    assert same(trained_weights(drawn, recipe), trained_weights(drawn, recipe))
    assert not same(trained_weights(drawn, recipe), trained_weights(drawn, quick_recipe(epochs=2, seed=1)))
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "layer_decay"), [("adam", 1.0), ("sgd", 1.0), ("adamw", 0.7)])
def test_a_killed_run_resumes_to_the_weights_of_an_uninterrupted_one(drawn, tmp_path, optimizer, layer_decay):
    recipe = quick_recipe(epochs=4, optimizer=optimizer, layer_decay=layer_decay)
    checkpoint = tmp_path / "checkpoint.safetensors"

    def kill(report):
        if report.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained_weights(drawn, recipe, checkpoint=checkpoint, report=kill)
    assert read_progress(checkpoint).epoch == 2
    reports = []
    resumed = trained_weights(drawn, recipe, checkpoint=checkpoint, report=reports.append)
    assert [report.epoch for report in reports] == [3, 4]
    assert same(resumed, trained_weights(drawn, recipe))


@pytest.mark.slow
def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_checkpoint(drawn, tmp_path):
    recipe = quick_recipe(epochs=3)
    method, data = fresh(drawn, recipe)
    checkpoint = tmp_path / "checkpoint.safetensors"

    def poison(report):
        with torch.no_grad():
            method.model.mean.weight.fill_(math.nan)

    with pytest.raises(
        UolError, match="the loss became nan in epoch 2: lower the learning_rate; the state after epoch 1"
    ):
        train(method, data, recipe, checkpoint, poison, accelerator="cpu")
    assert read_progress(checkpoint).epoch == 1


@pytest.mark.slow
def test_weights_that_are_no_numbers_are_not_kept(drawn, tmp_path):
    """The last step of an epoch may be too large: the loss before it was fine."""
    recipe = quick_recipe(epochs=1, final_learning_rate=1e38, learning_rate=1e-3)
    method, data = fresh(drawn, recipe)
    with pytest.raises(UolError, match="in epoch 1: lower the learning_rate"):
        train(method, data, recipe, tmp_path / "c", accelerator="cpu")
    assert not (tmp_path / "c").exists()


def test_a_damaged_checkpoint_is_named(drawn, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(b"damaged")
    with pytest.raises(UolError, match="damaged checkpoint; delete the run folder"):
        trained_weights(drawn, quick_recipe(), checkpoint=checkpoint)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        MemoryError(),
    ],
)
def test_memory_that_does_not_suffice_is_said_in_one_line(drawn, tmp_path, monkeypatch, error):
    recipe = quick_recipe()
    method, data = fresh(drawn, recipe)

    def starve(*_):
        raise error

    monkeypatch.setattr(method, "forward", starve)
    with pytest.raises(UolError, match=r"too small for this training: lower batch_size \(now 16\); the finished"):
        train(method, data, recipe, tmp_path / "c", accelerator="cpu")


@pytest.mark.slow
def test_held_out_images_are_watched_and_change_nothing(drawn):
    recipe = quick_recipe(epochs=4, validate_every=3)
    _, data = fresh(drawn, recipe)
    held_out = data.subset(torch.arange(20).numpy())
    reports = []
    watched = trained_weights(drawn, recipe, report=reports.append, held_out=held_out)
    assert [math.isnan(report.held_out) for report in reports] == [True, True, False, False]
    assert same(watched, trained_weights(drawn, recipe))


def test_engines():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert choose_engine(quick_recipe(engine="compiled"), cpu, 10**6) == "eager"
    assert choose_engine(quick_recipe(), gpu, 100) == "graph"
    assert choose_engine(quick_recipe(), gpu, 10**5) == "compiled"
    assert choose_engine(quick_recipe(engine="eager"), gpu, 10**5) == "eager"


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("engine", ["graph", "compiled"])
def test_recorded_steps_train_as_single_operations_do(drawn, engine):
    """Same seeds, so the losses of an epoch agree as far as rounding and the order of random draws allow."""
    losses = {}
    for name in ("eager", engine):
        recipe = quick_recipe(epochs=20, engine=name, validate_every=0)
        method, data = fresh(drawn, recipe)
        reports = []
        train(method, data, recipe, report=reports.append, accelerator="cuda")
        losses[name] = [report.losses["total"] for report in reports]
    assert losses[engine][-1] < losses[engine][0]
    assert losses[engine][-1] == pytest.approx(losses["eager"][-1], rel=0.25)


@pytest.mark.slow
def test_in_mixed_precision_scores_stay_exact(drawn):
    recipe = quick_recipe(epochs=1, precision="bf16-mixed")
    seen = []

    class Watched(Uol):
        def forward(self, batch):
            seen.append({value.dtype for value in batch if value.is_floating_point()})
            return super().forward(batch)

    method = Watched(recipe, drawn.scale)
    train(method, PackedImages.pack(drawn, recipe.model), recipe, accelerator="cpu")
    assert seen
    assert all(dtypes == {torch.float32} for dtypes in seen)


@pytest.mark.slow
def test_training_in_bfloat16_keeps_depthwise_convolutions_in_float32(drawn, monkeypatch):
    seen = set()
    original = stepper._in_float32

    def noted(forward, maps):
        answer = original(forward, maps)
        seen.add(answer.dtype)
        return answer

    monkeypatch.setattr(stepper, "_in_float32", noted)
    recipe = quick_recipe(epochs=1, precision="bf16-mixed", model={"backbone": "test_efficientnet"})
    train(*fresh(drawn, recipe), recipe, accelerator="cpu")
    assert seen == {torch.float32}


def test_depthwise_convolutions_stay_in_float32_under_autocast():
    torch.manual_seed(0)
    depthwise, whole = torch.nn.Conv2d(4, 4, 5, padding=2, groups=4), torch.nn.Conv2d(4, 4, 1)
    network, images = torch.nn.Sequential(whole, depthwise), torch.rand(2, 4, 8, 8)
    with depthwise_in_float32(network, True), torch.autocast("cpu", torch.bfloat16):
        inside = whole(images)
        answer = network(images)
        answer.sum().backward()
    assert (inside.dtype, answer.dtype) == (torch.bfloat16, torch.float32)
    noted = depthwise.weight.grad.clone()
    depthwise.zero_grad()
    depthwise(inside.detach().float()).sum().backward()
    assert torch.equal(noted, depthwise.weight.grad)
    with torch.autocast("cpu", torch.bfloat16):
        assert network(images).dtype == torch.bfloat16  # as before
    with depthwise_in_float32(network, True), depthwise_in_float32(network, True):
        pass
    assert "forward" not in depthwise.__dict__
    with depthwise_in_float32(network, False), torch.autocast("cpu", torch.bfloat16):
        assert network(images).dtype == torch.bfloat16
