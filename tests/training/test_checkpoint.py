"""Checkpoints: what is restored is what was saved, and a write that fails loses nothing."""

from __future__ import annotations

import pytest
import torch
from safetensors import SafetensorError

from uol.errors import UolError
from uol.training.checkpoint import CheckpointWriter, Progress, load_checkpoint, read_progress


def save(path, net, optimizer, progress):
    with CheckpointWriter(path, net, optimizer) as writer:
        writer.save(progress)


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
    save(tmp_path / "c", net, optimizer, Progress(5, "recipe", "data"))
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
    save(tmp_path / "c", net, optimizer, Progress(1, "recipe", "data"))
    other, other_optimizer = network()
    load_checkpoint(tmp_path / "c", other, other_optimizer)
    moment = other_optimizer.state[other.weight]["exp_avg"]
    assert moment.stride() == other.weight.stride()
    assert torch.equal(moment, optimizer.state[net.weight]["exp_avg"])


def test_what_is_written_is_the_state_at_the_call_not_at_the_write(tmp_path):
    net = torch.nn.Linear(300, 300)
    optimizer = torch.optim.Adam(net.parameters())
    with CheckpointWriter(tmp_path / "c", net, optimizer) as writer:
        before = net.weight.detach().clone()
        writer.save(Progress(1, "recipe", "data"))
        with torch.no_grad():
            net.weight.zero_()
    other = torch.nn.Linear(300, 300)
    load_checkpoint(tmp_path / "c", other, torch.optim.Adam(other.parameters()))
    assert torch.equal(other.weight, before)


def test_a_full_disk_is_said_in_one_line_and_the_checkpoint_before_is_kept(tmp_path, monkeypatch):
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    writer = CheckpointWriter(tmp_path / "c", net, optimizer)
    writer.save(Progress(1, "recipe", "data"))
    writer.wait()

    def full(*_):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    writer.save(Progress(2, "recipe", "data"))
    with pytest.raises(UolError, match="cannot write .*No space left.*; the state after epoch 1 is kept; make room"):
        writer.save(Progress(3, "recipe", "data"))
    assert read_progress(tmp_path / "c").epoch == 1
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
