"""A recipe for tests that train, and a scorer that nothing has trained."""

from __future__ import annotations

import numpy as np
import torch

from uol.order.bradley_terry import BradleyTerry
from uol.order.calibration import Calibration
from uol.order.config import ModelConfig
from uol.order.model import OrderModel
from uol.order.references import ReferenceSet
from uol.scoring.config import PanelConfig
from uol.scoring.scorer import Scorer
from uol.training.recipe import Recipe, check_recipe


def quick_recipe(**changes: object) -> Recipe:
    """A recipe that trains a tiny network for moments."""
    settings: dict[str, object] = {
        "model": {"backbone": "test_byobnet", "resize": 32, "crop": 32, "dimensions": 16, "hidden": 16},
        "epochs": 3,
        "batch_size": 16,
        "learning_rate": 3e-3,
        "pairs_per_image": 6,
        "samples": 2,
        "held_out": 0.2,
    }
    return check_recipe(settings | changes, "test")


CALIBRATION = Calibration(
    intercept=0.2, slope=0.9, scale=3.0, floor=0.05, dispersion_intercept=-0.3, dispersion_slope=0.5
)


def forget_digests(folder):
    """Make a model folder one of an older version, or made by hand: without a manifest."""
    for path in folder.rglob("manifest.json"):
        path.unlink()
    return folder


def noise(count, size=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 3, size, size), np.uint8)


def untrained(scoring=None, panel=(1.0, 5.0), k=5.0, delta=0.8, calibration=CALIBRATION, **model):
    """A scorer of random weights whose comparisons are not all alike."""
    torch.manual_seed(0)
    size = model.get("crop", 32)
    settings = {"backbone": "test_byobnet", "resize": size, "crop": size, "dimensions": 16, "hidden": 24}
    network = OrderModel(ModelConfig(**settings | model)).eval()
    with torch.no_grad():
        network.mean.weight *= 30
        network.comparator.third.weight *= 10
        if network.log_variance is not None:
            network.log_variance.weight.normal_(0, 0.05)
    gaussians = network.embed(torch.from_numpy(noise(40, size, 1)))
    references = ReferenceSet(gaussians, np.linspace(1, 5, 40))
    panel = PanelConfig(name="panel", low=panel[0], high=panel[1])
    return Scorer(network, references, panel, BradleyTerry(k, delta), calibration, scoring)
