"""uol export: a model for onnxruntime, which does not need torch."""

from __future__ import annotations

from typing import Annotated

import typer

from uol.cli.options import JsonOption, ModelOutOption, ReplaceOption
from uol.cli.output import print_json, print_table, say


def export(
    model: Annotated[str, typer.Argument(help="A shipped model, or a model folder.")],
    out: ModelOutOption,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a model folder with ONNX graphs, which onnxruntime scores without torch, and check the graphs.

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
        say(f"largest difference from PyTorch: {difference:.1g} (scores, on a scale of 1 to 5, and probabilities)")
