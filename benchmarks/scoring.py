"""What comparing and solving cost beside the bare backbone, and what each way of running costs, in one run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from uol.order.bradley_terry import BradleyTerry
from uol.order.config import ModelConfig, ScoringConfig
from uol.order.gaussians import Gaussians
from uol.order.model import OrderModel
from uol.order.references import ReferenceSet
from uol.scoring.config import PanelConfig
from uol.scoring.released import names, open_model
from uol.scoring.scorer import Scorer

REFERENCES, IMAGES = 340, 8
MODELS = {
    "VGG16, 512 dimensions": (ModelConfig(pooling="positions"), 0.05),
    "EfficientNet-lite0, 128 dimensions": (
        ModelConfig(backbone="tf_efficientnet_lite0", pooling="positions", dimensions=128, hidden=128),
        0.30,
    ),
}


def median_seconds(work: Callable[[], object], repeats: int = 7) -> float:
    """Median wall-clock time of `work` after one warm-up."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return sorted(times)[repeats // 2]


def scorer_of(config: ModelConfig) -> Scorer:
    """A scorer with random weights and references: what it says is nonsense, what it costs is not."""
    torch.manual_seed(0)
    model = OrderModel(config)
    gaussians = Gaussians(torch.randn(REFERENCES, config.dimensions), torch.zeros(REFERENCES, config.dimensions))
    references = ReferenceSet(gaussians, np.linspace(1, 5, REFERENCES))
    return Scorer(
        model, references, PanelConfig(name="random", low=1, high=5), BradleyTerry(10.0, 3.0), None, ScoringConfig()
    )


@torch.inference_mode()
def main() -> None:
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (IMAGES, 3, 224, 224), dtype=np.uint8))
    per_image: dict[str, float] = {}
    for name, (config, most) in MODELS.items():
        scorer = scorer_of(config)
        bare = median_seconds(lambda s=scorer: s.model.backbone.feature_maps(pixels)) / IMAGES  # type: ignore[misc]
        whole = median_seconds(lambda s=scorer: s.score_pixels(pixels)) / IMAGES  # type: ignore[misc]
        line = f"{name}: bare backbone {1000 * bare:.1f} ms, scored {1000 * whole:.1f} ms per image"
        print(f"{line}: {whole / bare - 1:+.1%} (at most {most:+.0%})")
        per_image[name] = whole
        try:
            from uol.scoring.onnx import OnnxScorer
            from uol.scoring.onnx_export import export_onnx
        except ImportError:
            continue
        with tempfile.TemporaryDirectory() as folder:
            export_onnx(scorer, Path(folder) / "model")
            graph = OnnxScorer(Path(folder) / "model")
            seconds = median_seconds(lambda g=graph: g.score_pixels(pixels.numpy())) / IMAGES  # type: ignore[misc]
        per_image[f"{name}, onnxruntime"] = seconds
        print(f"  with onnxruntime {1000 * seconds:.1f} ms per image")
    large, fast = next(iter(per_image.values())), min(per_image.values())
    print(f"large model in torch against the fastest: {large / fast:.1f} times")
    for name in names():
        shipped = open_model(name, runtime="onnx", device="cpu")
        seconds = median_seconds(lambda m=shipped: m.score_pixels(pixels.numpy())) / IMAGES  # type: ignore[misc]
        print(f"{name}, with onnxruntime: {1000 * seconds:.1f} ms per image")


if __name__ == "__main__":
    main()
