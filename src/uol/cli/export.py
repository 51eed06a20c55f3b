"""uol export: a model for onnxruntime, which needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uol.cli.output import print_json, print_table, say


def export(
    model: Annotated[str, typer.Argument(help="A model folder, or the name of a model that ships.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write; it can be moved as a whole.")],
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of a model that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a model with ONNX graphs beside it, so that onnxruntime can score without torch, and check them.

    Example: uol export uol-demo/model --out light-model
    """
    from uol.scoring.folder import check_target, load_model
    from uol.scoring.onnx_export import export_onnx
    from uol.scoring.released import find_model

    folder = find_model(model)
    if out.resolve() != folder.resolve():
        check_target(out, replace)
    difference = export_onnx(load_model(folder), out, source=folder)
    files = [{"file": path.name, "bytes": path.stat().st_size} for path in sorted(out.iterdir())]
    if as_json:
        print_json({"model": str(out), "files": files, "largest_difference": difference})
    else:
        print_table(files, {"file": "file", "bytes": "bytes"})
        say(f"largest difference from PyTorch: {difference:.1g} (scores as on a scale of 1 to 5, and probabilities)")
