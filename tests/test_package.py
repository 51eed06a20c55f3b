"""The package's exports: every name imports, and none needs torch until it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import uol
from uol.errors import CallError, ImageError, UolError


@pytest.mark.parametrize("name", uol.__all__)
def test_every_export_imports(name):
    assert getattr(uol, name) is not None


def test_exports_are_the_objects_of_their_modules():
    from uol import datasets
    from uol.scoring.base import BaseScorer
    from uol.scoring.scorer import Scorer

    assert uol.load is datasets.load
    assert uol.Scorer is uol.BaseScorer is BaseScorer
    assert issubclass(Scorer, uol.Scorer)
    assert (uol.CallError, uol.ImageError, uol.UolError) == (CallError, ImageError, UolError)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'scorer_of'"):
        uol.scorer_of  # noqa: B018


@pytest.mark.parametrize("names", ["", "open_model, Score, BaseScorer, Scale, Scorer, UolError, RatedImages"])
def test_import_waits_for_no_torch(names):
    code = f"import sys, uol\n{f'from uol import {names}' if names else ''}\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
