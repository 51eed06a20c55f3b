"""Read a finished run: its result, with its figures on other data sets and all statistics of its predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uol.errors import UolError
from uol.runs.folder import RunFolder
from uol.runs.predictions import fill_in_statistics
from uol.runs.result import Makeup, Result, Transfer
from uol.storage.validation import check_values, read_object


def read_run(run: RunFolder) -> Result:
    """A run's result with its evaluations on other data sets, and with missing statistics filled in."""
    result = run.read_result()
    changes: dict[str, Any] = {"transfer": dict(result.transfer)}
    trained = {result.trained_on, *result.provenance.learnt_from}
    for path in run.evaluation_files():
        values = read_object(path)
        if "accuracy" in values:
            changes["makeup"] = check_values(Makeup, values, path)
        elif not values.get("unrated") and path.stem not in trained:
            changes["transfer"][path.stem] = transfer_of(path, values)
    return fill_in_statistics(result.model_copy(update=changes), run)


def transfer_of(path: Path, values: dict[str, Any]) -> Transfer:
    """Figures on another data set, which must be on all of its images."""
    found = check_values(Transfer, values, path)
    if found.split is not None:
        raise UolError(f"{path}: figures on the split {found.split} alone; tables report whole data sets")
    return found
