"""Statistics of norms: those of the given images, the obvious way; networks without such norms are left alone."""

from __future__ import annotations

import torch

from uol.model import OrderModel
from uol.model_config import ModelConfig
from uol.norms import with_statistics

SMALL = {"resize": 32, "crop": 32, "dimensions": 8, "hidden": 8}


def test_norms_have_the_statistics_of_the_images():
    torch.manual_seed(0)
    model = OrderModel(ModelConfig(backbone="test_resnet", **SMALL)).eval()
    images = torch.randint(0, 256, (48, 3, 32, 32), dtype=torch.uint8)
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
    one, two = with_statistics(model, images), with_statistics(model, images)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())
    counted = next(value for name, value in one.state_dict().items() if name.endswith("num_batches_tracked"))
    assert counted == 2  # the single image left over is no batch


def test_a_network_without_such_norms_is_itself():
    model = OrderModel(ModelConfig(backbone="test_vit", **SMALL))
    assert with_statistics(model, torch.zeros(2, 3, 32, 32, dtype=torch.uint8)) is model
