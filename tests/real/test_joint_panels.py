"""SCUT-FBP5500 and MEBeauty as panels that train together: copies of test images are left out of training."""

from __future__ import annotations

from pathlib import Path

import pytest

from uol import datasets
from uol.order.config import ModelConfig
from uol.training.packed import PackedImages
from uol.training.panels import join, without_copies

SMALL = ModelConfig(resize=64, crop=64)


@pytest.fixture(scope="module")
def panels(shared_data: Path) -> list[PackedImages]:
    """Both data sets, at a size that is quick to read."""
    for name in ("scut-fbp5500", "mebeauty"):
        if not (shared_data / name).is_dir():
            pytest.skip(f"no {name} in {shared_data}")
    return [PackedImages.pack(datasets.load(name, shared_data / name), SMALL) for name in ("scut-fbp5500", "mebeauty")]


def test_eleven_training_images_of_mebeauty_are_copies_of_test_images(panels):
    splits = [panels[0].rated.splits["fold-1"], panels[1].rated.splits["2022"]]
    scut, mebeauty = without_copies(list(zip(panels, splits, strict=True)))
    assert len(splits[1].train) - len(mebeauty) == 11
    assert len(splits[0].train) == len(scut)  # SCUT-FBP5500 has near copies, but none pixel for pixel


def test_both_panels_come_to_one_scale(panels):
    joined = join(panels)
    assert joined.rated.scale == panels[0].rated.scale
    assert joined.rated.scores.min() >= 1
    assert joined.rated.scores.max() <= 5
    assert joined.rated.histograms.shape == (len(joined), 10)
