"""What many tests share: small rated sets and a model that was trained for moments."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: more threads than cores slow all of them down

import numpy as np
import pytest
import torch

from quick import quick_recipe
from uol.datasets.synthetic import load_synthetic
from uol.methods.uol import Uol
from uol.ratings.rated_images import RatedImages
from uol.runs.run import run
from uol.training.packed import PackedImages

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def drawn() -> RatedImages:
    """Eighty drawn faces, rated by the panel of 1 to 5."""
    return load_synthetic(80, 20, size=32)


@pytest.fixture(scope="session")
def drawn_b(drawn: RatedImages) -> RatedImages:
    """The same faces, rated by the panel of 1 to 10."""
    return load_synthetic(80, 20, size=32, panel="b")


@pytest.fixture(scope="session")
def trained(drawn: RatedImages) -> Uol:
    """UOL after a few moments of training."""
    method = run(PackedImages.pack(drawn, quick_recipe().model), quick_recipe(), accelerator="cpu")
    assert isinstance(method, Uol)
    return method


@pytest.fixture(scope="session")
def model_folder(trained: Uol, tmp_path_factory: pytest.TempPathFactory):
    """A saved model folder, to be read but not changed."""
    folder = tmp_path_factory.mktemp("models") / "model"
    trained.scorer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def image_files(drawn: RatedImages, tmp_path_factory: pytest.TempPathFactory):
    """Ten of the drawn faces as PNG files."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("images")
    for name, pixels in zip(drawn.names[:10], drawn.images[:10], strict=True):
        Image.fromarray(np.asarray(pixels)).save(folder / f"{name}.png")
    return folder


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Tests keep decoded images and aligned faces to themselves."""
    os.environ["UOL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def uol(monkeypatch, capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""
    from uol.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["uol", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
