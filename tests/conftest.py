"""What many tests share: small rated sets and a model that was trained for moments.

Heavy imports wait until a fixture needs them: the process that hands tests out to others needs none of them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, cast

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: more threads than cores slow all of them down

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from uol.methods.uol import Uol
    from uol.ratings.rated_images import RatedImages

settings.register_profile("quick", max_examples=10, deadline=None)


def pytest_configure(config):
    """Developers who wait for an answer (`make quick`) try fewer examples; `make test` tries all."""
    gc.disable()  # until all is imported
    if config.option.markexpr == "not slow":
        settings.load_profile("quick")


SLOW = {"asked", "serve", "held", "joint", "whole_run", "run_with_torch", "run_uol"}
"""Fixtures that start a process, or train networks for the tests of one module: these tests are slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests by their fixtures; modules with slow tests come first, so that processes end at the same time."""
    for item in items:
        if SLOW & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
    slow = Counter(item.path for item in items if "slow" in item.keywords)
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish():
    """What is imported by now lives as long as the tests: Python need not search it for garbage again and again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    gc.unfreeze()


@pytest.fixture(scope="session")
def drawn() -> RatedImages:
    """Eighty drawn faces, rated by the panel of 1 to 5."""
    from uol.datasets.synthetic import load_synthetic

    return load_synthetic(80, 20, size=32)


@pytest.fixture(scope="session")
def drawn_b(drawn: RatedImages) -> RatedImages:
    """The same faces, rated by the panel of 1 to 10."""
    from uol.datasets.synthetic import load_synthetic

    return load_synthetic(80, 20, size=32, panel="b")


@pytest.fixture(scope="session")
def folded(drawn: RatedImages) -> RatedImages:
    """The drawn faces in two folds: odd rows train the first and test the second, even rows the reverse."""
    from uol.ratings.rated_images import Split

    odd, even = np.arange(1, 80, 2), np.arange(0, 80, 2)
    return replace(drawn, splits={"fold-1": Split(odd, even), "fold-2": Split(even, odd)})


@pytest.fixture(scope="session")
def trained(drawn: RatedImages) -> Uol:
    """UOL after a few moments of training."""
    from quick import quick_recipe
    from uol.runs.run import run
    from uol.training.packed import PackedImages

    method = run(PackedImages.pack(drawn, quick_recipe().model), quick_recipe(), accelerator="cpu")
    return cast("Uol", method)


@pytest.fixture(scope="session")
def model_folder(trained: Uol, tmp_path_factory: pytest.TempPathFactory):
    """A saved model folder, to be read but not changed."""
    folder = tmp_path_factory.mktemp("models") / "model"
    trained.scorer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def finished_run(drawn: RatedImages, tmp_path_factory: pytest.TempPathFactory):
    """The folder of a finished run with the quick recipe, to be read or copied but not changed."""
    from quick import quick_recipe
    from uol.runs.train_and_test import Origin, train_and_test
    from uol.training.packed import PackedImages

    folder, recipe = tmp_path_factory.mktemp("runs") / "run", quick_recipe()
    packed = PackedImages.pack(drawn, recipe.model)
    train_and_test(packed, "default", drawn.splits["default"], recipe, folder, Origin("quick", {"epochs": 3}))
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
    """Tests keep decoded images and aligned faces to themselves, and torch to one thread."""
    import torch

    torch.set_num_threads(1)
    os.environ["UOL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _only_slow_tests_train(request, monkeypatch):
    """A test that trains is marked slow; fixtures that a module or a session shares train once for many tests."""
    if "slow" in request.keywords:
        return
    from uol.training.stepper import Stepper

    whole = Stepper.epoch

    def epoch(*arguments):
        whole(*arguments)
        pytest.fail("this test trains a network: mark it slow")

    monkeypatch.setattr(Stepper, "epoch", epoch)


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
