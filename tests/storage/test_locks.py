"""One writer at a time: what is said where a lock cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from uol.errors import CallError, UolError
from uol.storage.locks import holding


def test_one_holds_it(tmp_path):
    with (
        holding(tmp_path / ".lock", "busy"),
        pytest.raises(CallError, match="busy"),
        holding(tmp_path / ".lock", "busy"),
    ):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="requires /proc, in which nobody can make files")
def test_a_folder_that_cannot_be_written_is_named():
    with pytest.raises((UolError, PermissionError)) as refused, holding(Path("/proc/.lock"), "busy"):
        pass
    assert "/proc" in str(refused.value)
    assert "busy" not in str(refused.value)
