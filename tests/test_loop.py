"""The loop: losses fall, runs repeat, a killed run resumes to the same weights, trouble is said in one line."""

from __future__ import annotations

import math

import pytest
import torch

from quick import quick_recipe
from uol import methods
from uol.errors import UolError
from uol.training.batches import PackedImages
from uol.training.checkpoint import Progress, load_checkpoint, read_progress, save_checkpoint
from uol.training.loop import learning_rate, train


def fresh(drawn, recipe):
    torch.manual_seed(recipe.seed)
    return methods.find(recipe.method)(recipe, drawn.scale), PackedImages.pack(drawn, recipe)


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


@pytest.mark.parametrize("name", methods.names())
def test_losses_fall(drawn, name):
    reports = []
    trained_weights(drawn, quick_recipe(method=name, epochs=8), report=reports.append)
    assert [report.epoch for report in reports] == list(range(1, 9))
    assert reports[-1].losses["total"] < reports[0].losses["total"]


def test_the_same_seed_gives_the_same_weights(drawn):
    recipe = quick_recipe(epochs=2, deterministic=True)
    assert same(trained_weights(drawn, recipe), trained_weights(drawn, recipe))
    assert not same(trained_weights(drawn, recipe), trained_weights(drawn, quick_recipe(epochs=2, seed=1)))
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_killed_run_resumes_to_the_weights_of_an_uninterrupted_one(drawn, tmp_path):
    recipe = quick_recipe(epochs=4)
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


def test_a_damaged_checkpoint_is_named(drawn, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(b"damaged")
    with pytest.raises(UolError, match="damaged checkpoint; delete it"):
        trained_weights(drawn, quick_recipe(), checkpoint=checkpoint)


def test_checkpoints_hold_weights_and_optimiser(tmp_path):
    def network():
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2)
        return net, torch.optim.Adam(net.parameters(), lr=0.1)

    def step(net, optimizer):
        optimizer.zero_grad()
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()

    net, optimizer = network()
    step(net, optimizer)
    save_checkpoint(tmp_path / "c", net, optimizer, Progress(5, "recipe", "data"))
    step(net, optimizer)
    other, other_optimizer = network()
    assert load_checkpoint(tmp_path / "c", other, other_optimizer) == 5
    step(other, other_optimizer)
    assert torch.equal(net.weight, other.weight)


def test_moments_are_restored_in_the_memory_layout_of_their_weights(tmp_path):
    def network():
        net = torch.nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)
        return net, torch.optim.Adam(net.parameters())

    net, optimizer = network()
    net(torch.ones(1, 4, 5, 5)).sum().backward()
    optimizer.step()
    save_checkpoint(tmp_path / "c", net, optimizer, Progress(1, "recipe", "data"))
    other, other_optimizer = network()
    load_checkpoint(tmp_path / "c", other, other_optimizer)
    moment = other_optimizer.state[other.weight]["exp_avg"]
    assert moment.stride() == other.weight.stride()
    assert torch.equal(moment, optimizer.state[net.weight]["exp_avg"])
