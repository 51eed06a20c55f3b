"""Statistics of norms: those of the given images, the obvious way; networks without such norms are left alone."""

from __future__ import annotations

import copy

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from uol.order.config import ModelConfig
from uol.order.model import OrderModel
from uol.order.norms import normalised_by_batch, with_statistics

SMALL = {"resize": 32, "crop": 32, "dimensions": 8, "hidden": 8}


def trained_on_noise(backbone: str) -> OrderModel:
    """A network whose norms have seen many batches of other images."""
    model = OrderModel(ModelConfig(backbone=backbone, **SMALL)).train()
    with torch.no_grad():
        for _ in range(30):
            model.features(torch.rand(8, 3, 32, 32) * 0.2)
    return model


def batch_norms(model: torch.nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def test_norms_behind_the_feature_maps_have_them_too():
    torch.manual_seed(0)
    model = trained_on_noise("mobilenetv4_conv_small_050")
    own = with_statistics(model, torch.randint(0, 256, (20, 3, 32, 32), dtype=torch.uint8))
    assert {int(norm.num_batches_tracked) for norm in batch_norms(own)} == {1}
    assert hasattr(own.backbone.net, "norm_head")


def test_batches_are_drawn_at_random():
    """Images may come in an order that tells something; batches of neighbours would have too small a variance."""
    torch.manual_seed(0)
    model = trained_on_noise("test_resnet")
    level = torch.arange(128, dtype=torch.uint8).view(-1, 1, 1, 1)
    images = level.expand(128, 3, 32, 32) + torch.randint(0, 100, (128, 3, 32, 32), dtype=torch.uint8)
    variance = batch_norms(with_statistics(model, images))[0].running_var
    of_neighbours = [batch_norms(with_statistics(model, part))[0].running_var for part in images.split(64)]
    assert (variance > torch.stack(of_neighbours).mean(0)).all()


def test_a_batch_is_normalised_by_itself_and_nothing_is_learnt_of_it():
    torch.manual_seed(0)
    model = trained_on_noise("test_resnet").eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images = torch.rand(6, 3, 32, 32)
    with torch.no_grad():
        with normalised_by_batch(model):
            told = model.features(images)
        assert torch.allclose(told, with_statistics_of(model, images), atol=1e-4)
        assert not torch.allclose(told, model.features(images), atol=1e-2)
    assert not any(module.training for module in model.modules())
    assert all(norm.track_running_stats for norm in batch_norms(model))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def with_statistics_of(model: OrderModel, images: torch.Tensor) -> torch.Tensor:
    other = copy.deepcopy(model).train()
    return other.features(images)


def test_norms_have_the_statistics_of_the_images():
    torch.manual_seed(0)
    model = trained_on_noise("test_resnet").eval()
    images = torch.randint(0, 200, (48, 3, 32, 32), dtype=torch.uint8)
    own = with_statistics(model, images)
    seen = []
    first = next(module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d))
    handle = first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.backbone.feature_maps(images)
    handle.remove()
    norm = next(module for module in own.modules() if isinstance(module, torch.nn.BatchNorm2d))
    assert torch.allclose(norm.running_mean, seen[0].mean((0, 2, 3)), atol=1e-5)
    assert torch.allclose(norm.running_var, seen[0].transpose(0, 1).flatten(1).var(1), rtol=1e-3)
    assert not any(module.training for module in own.modules())
    learnt = [name for name, _ in model.named_parameters()]
    assert all(torch.equal(own.state_dict()[name], model.state_dict()[name]) for name in learnt)


def test_the_network_itself_is_left_as_it_was_and_the_outcome_repeats():
    torch.manual_seed(0)
    model = OrderModel(ModelConfig(backbone="test_resnet", **SMALL)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images = torch.randint(0, 256, (129, 3, 32, 32), dtype=torch.uint8)
    learning = []
    first = next(module for module in model.modules() if isinstance(module, torch.nn.Conv2d))
    first.register_forward_hook(lambda module, *_: learning.append(module.training))
    one, two = with_statistics(model, images), with_statistics(model, images)
    assert learning
    assert not any(learning)  # norms alone look at batches; what drops features in training does not
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())
    counted = next(value for name, value in one.state_dict().items() if name.endswith("num_batches_tracked"))
    assert counted == 2  # the single image left over is no batch


def test_a_network_without_such_norms_is_itself():
    model = OrderModel(ModelConfig(backbone="test_vit", **SMALL))
    assert with_statistics(model, torch.zeros(2, 3, 32, 32, dtype=torch.uint8)) is model
