"""What a CUDA graph forbids, as far as a processor can tell: no loss needs the host, and buffers keep their places."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from quick import quick_recipe
from uol import methods
from uol.training.batches import Feed, fixed_batches, plan_epoch
from uol.training.packed import PackedImages
from uol.training.panels import join

CPU = torch.device("cpu")

# Operations that wait for the device, or whose result has a shape that depends on data.
_FORBIDDEN = {
    "aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::masked_select", "aten::unique_dim",
    "aten::_unique2", "aten::bincount", "aten::equal", "aten::is_nonzero", "aten::repeat_interleave.Tensor",
}  # fmt: skip


class Watch(TorchDispatchMode):
    """Notes which forbidden operations are called, and index operations with masks."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        name = function.name()
        if name in _FORBIDDEN or name.split(".")[0] in _FORBIDDEN:
            self.found.add(name)
        indices = arguments[1] if name.startswith("aten::index.") else ()
        if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
            self.found.add(f"{name} with a mask")
        if name.startswith("aten::lift_fresh"):  # torch.tensor(...) of numbers: a copy from the host in every step
            self.found.add(name)
        return function(*arguments, **(options or {}))


def variants():
    yield from ((name, {}) for name in methods.names())
    yield from ((name, {"second_backbone": "test_resnet"}) for name in ("cnn-er", "co-attention"))
    yield "uol", {"score_weight": 1.0, "histogram_weight": 1.0}


def prepared(drawn, name, settings):
    recipe = quick_recipe(method=name, **settings)
    packed = PackedImages.pack(drawn, recipe.model)
    torch.manual_seed(0)
    method = methods.find(name)(recipe, drawn.scale, levels=5)
    method.prepare_for(packed)
    method.begin_epoch(1, 3)
    return method, fixed_batches(packed, recipe, CPU)[0]


@pytest.mark.parametrize(("name", "settings"), variants())
def test_losses_and_gradients_never_ask_the_host(drawn, name, settings):
    method, batch = prepared(drawn, name, settings)
    with Watch() as watch:
        method(batch)["total"].backward()
    assert not watch.found


def test_the_watch_sees_what_it_should():
    values = torch.arange(4.0)
    with Watch() as watch:
        values[values > 1].sum().item()
        torch.tensor([1.0])
    assert {name.split(".")[0] for name in watch.found} >= {"aten::_local_scalar_dense", "aten::lift_fresh"}
    assert any("mask" in name for name in watch.found)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), variants())
def test_losses_are_one_graph_and_the_same_when_compiled(drawn, name, settings):
    method, batch = prepared(drawn, name, settings)
    torch._dynamo.reset()
    whole = torch.compile(method.forward, backend="eager", fullgraph=True, dynamic=False)
    torch.manual_seed(1)
    expected = method.forward(batch)
    torch.manual_seed(1)
    made = whole(batch)
    with torch._dynamo.config.patch(error_on_recompile=True):  # what one step leaves behind does not hinder the next
        whole(batch)
        method.begin_epoch(1, 3)
        whole(batch)
    assert list(made) == list(expected)
    for loss in expected:
        assert torch.allclose(made[loss], expected[loss], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "settings"), variants())
def test_what_changes_with_the_epochs_keeps_its_place(drawn, name, settings):
    method, batch = prepared(drawn, name, settings)
    before = {key: value.data_ptr() for key, value in method.named_buffers()}
    method(batch)
    for epoch in range(3):
        method.begin_epoch(epoch, 3)
    assert {key: value.data_ptr() for key, value in method.named_buffers()} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uol", "order-learning"])
def test_steps_of_several_panels_are_one_recording(drawn, drawn_b, name):
    """Batches of either panel go through the same compiled step, and an epoch's plan through the same memory."""
    recipe = quick_recipe(method=name, score_weight=1.0, histogram_weight=1.0, pairs="all")
    both = join([PackedImages.pack(rated, recipe.model) for rated in (drawn, drawn_b)])
    method = methods.find(name)(recipe, drawn.scale, 10, panels=2)
    feed = Feed(both, recipe, CPU)
    torch._dynamo.reset()
    whole = torch.compile(method.forward, backend="eager", fullgraph=True, dynamic=False)
    feed.load(plan_epoch(both.rated, recipe, 0, both.panel))
    places = {key: values.data_ptr() for key, values in feed._plan.items()}
    whole(feed.batch())["total"].backward()
    plan = plan_epoch(both.rated, recipe, 1, both.panel)
    feed.load(plan)
    assert {key: values.data_ptr() for key, values in feed._plan.items()} == places
    seen = set()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in plan.images:
            batch = feed.batch()
            seen.add(int(batch.panel[0]))
            whole(batch)
            feed.position += 1
    assert seen == {0, 1}
    feed.position.zero_()
    with Watch() as watch:
        method(feed.batch())["total"].backward()
    assert not watch.found
