"""Where the real data are: they belong to others, and tests that need them skip where they are absent.

All of these tests are slow: they read thousands of photographs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets: UOL_DATA, or shared/data beside the repository."""
    given = os.environ.get("UOL_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder}: set UOL_DATA to a folder with scut-fbp5500/, mebeauty/, mifs/, …")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
