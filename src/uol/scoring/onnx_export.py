"""Models as ONNX graphs, from pixels to scores: onnxruntime alone can then compute a model.

`onnx_modules` has what the graphs compute; here they are written and checked. Weights are stored once: the graphs refer
to the tensors in model.safetensors and references.safetensors by their places in these files.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from uol.errors import CallError, UolError, install
from uol.order.gaussians import Gaussians
from uol.scoring.base import BaseScorer
from uol.scoring.config import COMPARE_GRAPH, CONFIG, MODEL, SCORE_GRAPH
from uol.scoring.digests import write_digests
from uol.scoring.folder import check_target
from uol.scoring.onnx import FINGERPRINT, GAUSSIAN, SCORES, OnnxScorer, open_graph
from uol.scoring.onnx_modules import ComparingGraph, ScoringGraph
from uol.scoring.panels import PANELS, REFERENCES
from uol.scoring.released import CARD, fingerprint
from uol.scoring.scorer import Scorer
from uol.storage.files import replacing, replacing_folder

if TYPE_CHECKING:
    import onnx

TOLERANCE = 1e-3  # of probabilities, and of scores as on a scale of 1 to 5

_OPSET = 18


class StoredTensor(NamedTuple):
    """A tensor's place in a safetensors file."""

    file: str
    kind: str
    shape: list[int]
    offset: int
    length: int


def export_onnx(
    scorer: BaseScorer, folder: str | os.PathLike[str], source: str | os.PathLike[str] | None = None
) -> float:
    """Write a model folder with graphs, whole or not at all; returns the largest difference from PyTorch.

    The folder can be moved as a whole. With `source`, the model folder that the scorer was loaded from, its files are
    copied unchanged, float16 included.
    """
    network, *others = scorer.members
    if others:
        raise CallError("an ensemble cannot be exported; train one network with it as a teacher, and export that")
    if not isinstance(network, Scorer):
        raise CallError("this model is exported already")
    _check_exportable(network)
    check_target(folder)
    with replacing_folder(folder) as temporary:
        if source is None:
            network.save_pretrained(temporary)
        else:
            for name in (CONFIG, MODEL, REFERENCES, CARD):
                if (Path(source) / name).is_file():
                    shutil.copyfile(Path(source) / name, temporary / name)
            if (Path(source) / PANELS).is_dir():
                shutil.copytree(Path(source) / PANELS, temporary / PANELS)
        return write_graphs(network, temporary)


def write_graphs(scorer: Scorer, folder: str | os.PathLike[str]) -> float:
    """Write the graphs of the model that `folder` holds into it; returns the largest difference from PyTorch."""
    _check_exportable(scorer)
    folder = Path(folder)
    graph = ScoringGraph(scorer)
    images = torch.zeros(2, 3, scorer.config.crop, scorer.config.crop, dtype=torch.uint8)
    try:
        _write_graph(folder / SCORE_GRAPH, _traced(graph, {"images": images}, [*GAUSSIAN, *SCORES]))
        _write_graph(folder / COMPARE_GRAPH, _comparing(graph, scorer.config.dimensions))
        write_digests(folder)
        return check_graphs(scorer, folder)
    except BaseException:
        for name in (SCORE_GRAPH, COMPARE_GRAPH):
            (folder / name).unlink(missing_ok=True)
        write_digests(folder)
        raise


def _write_graph(path: Path, graph: onnx.ModelProto) -> None:
    from onnx.helper import set_model_props

    _refer_to_files(graph, _stored_tensors(path.parent))
    set_model_props(graph, {FINGERPRINT: fingerprint(path.parent)})
    with replacing(path) as temporary:
        temporary.write_bytes(graph.SerializeToString())


def _comparing(graph: ScoringGraph, dimensions: int) -> onnx.ModelProto:
    """The graph of comparisons, which takes whole Gaussians: onnxruntime refuses undeclared inputs."""
    from onnx import TensorProto
    from onnx.helper import make_tensor_value_info

    sides = ("first", "second")
    means = {f"{side}_mean": torch.zeros(2, dimensions) for side in sides}
    comparing = _traced(ComparingGraph(graph), means, ["probabilities"])
    comparing.graph.input.extend(
        make_tensor_value_info(f"{side}_log_variance", TensorProto.FLOAT, ["n", dimensions]) for side in sides
    )
    return comparing


def _traced(module: nn.Module, inputs: Mapping[str, Tensor], outputs: list[str]) -> onnx.ModelProto:
    """A module as a graph whose first dimensions may be of any size, nothing folded: weights stay as stored.

    Tracing takes tenths of a second where torch.export takes many seconds, and keeps the names of parameters.
    """
    import onnx

    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # on tracing as such: shapes are fixed but for the first dimension
        try:
            torch.onnx.export(
                module.eval(),
                tuple(inputs.values()),
                buffer,  # type: ignore[arg-type]
                dynamo=False,
                opset_version=_OPSET,
                training=torch.onnx.TrainingMode.PRESERVE,  # in evaluation mode norms are folded into convolutions
                do_constant_folding=False,
                input_names=list(inputs),
                output_names=outputs,
                dynamic_axes={name: {0: "n"} for name in (*inputs, *outputs)},
            )
        except Exception as error:  # of many classes: an unknown operation, a branch that tracing cannot follow
            reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
            raise UolError(f"PyTorch cannot write this model as a graph ({reason})") from error
    return onnx.load_model_from_string(buffer.getvalue())


def _refer_to_files(proto: onnx.ModelProto, stored: Mapping[str, StoredTensor]) -> None:
    """Replace weights by their places in files; those stored in another precision are cast on reading."""
    from onnx import TensorProto, helper

    kinds = {"F16": TensorProto.FLOAT16, "BF16": TensorProto.BFLOAT16, "F32": TensorProto.FLOAT,
             "F64": TensorProto.DOUBLE, "I64": TensorProto.INT64}  # fmt: skip
    casts = []
    for tensor in proto.graph.initializer:
        place = stored.get(tensor.name)
        if place is None or place.kind not in kinds or place.shape != list(tensor.dims):
            continue
        kind, wanted, name = kinds[place.kind], tensor.data_type, tensor.name
        tensor.Clear()
        tensor.dims.extend(place.shape)
        tensor.data_type = kind
        tensor.name = name
        if kind != wanted:
            tensor.name = f"{name}.stored"
            casts.append(helper.make_node("Cast", [tensor.name], [name], to=wanted))
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", place.file), ("offset", place.offset), ("length", place.length)):
            tensor.external_data.add(key=key, value=str(value))
    nodes = [*casts, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)


def _stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Where each tensor of the graphs lies in the folder's files, by its name in `ScoringGraph`."""
    weights = {f"model.{key}": place for key, place in _places(folder / MODEL).items()}
    references = _places(folder / REFERENCES)
    return weights | {"references": references["mean"], "reference_scores": references["score"]}


def _places(path: Path) -> dict[str, StoredTensor]:
    """The header of a safetensors file: its length in eight bytes, then names, kinds, shapes and offsets in JSON."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return {
        key: StoredTensor(path.name, entry["dtype"], entry["shape"], 8 + length + begin, end - begin)
        for key, entry in header.items()
        if key != "__metadata__"
        for begin, end in [entry["data_offsets"]]
    }


def check_graphs(scorer: Scorer, folder: str | os.PathLike[str]) -> float:
    """The largest difference between a folder's graphs and PyTorch on noise, black and white; raises if it matters.

    Differences are of probabilities, and of scores as on a scale of 1 to 5.
    """
    folder = Path(folder)
    size = scorer.config.crop
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, size, size), np.uint8)
    pixels[2:] = np.array([0, 255], np.uint8)[:, None, None, None]
    graphs = OnnxScorer(folder)
    apart = [_apart(graphs.on_panel(panel.name), scorer.on_panel(panel.name), pixels) for panel in scorer.panels]
    embedded = scorer.embed_pixels(pixels)
    pairs = [(embedded.rows(slice(one, one + 1)), embedded.rows(slice(one + 1, one + 2))) for one in (0, 2)]
    theirs = np.concatenate([scorer.outcomes(*pair)[0] for pair in pairs])
    ours = _compared(folder, pairs)
    largest = float(np.max([*apart, np.abs(ours - theirs).max()]))
    if not largest <= TOLERANCE:
        raise UolError(f"the graphs are {largest:.2g} from PyTorch, more than {TOLERANCE:g}; nothing was written")
    return largest


def _apart(graphs: OnnxScorer, scorer: Scorer, pixels: npt.NDArray[np.uint8]) -> float:
    """The largest difference between the scores of two engines, as on a scale of 1 to 5."""
    ours, theirs = (np.array([astuple(score) for score in engine.score_pixels(pixels)]) for engine in (graphs, scorer))
    apart = np.abs(ours - theirs) / np.maximum(np.abs(theirs), scorer.panel.scale.unit)
    apart[np.isnan(ours) & np.isnan(theirs)] = 0  # an unknown dispersion
    return float(apart.max())


def _compared(folder: Path, pairs: Sequence[tuple[Gaussians, Gaussians]]) -> npt.NDArray[np.float32]:
    """What the graph of comparisons answers about pairs: (P, 3)."""
    inputs = {
        f"{side}_{name}": torch.cat([getattr(one, name) for one in several]).cpu().numpy()
        for side, several in zip(("first", "second"), zip(*pairs, strict=True), strict=True)
        for name in GAUSSIAN
    }
    (probabilities,) = open_graph(folder / COMPARE_GRAPH).run(None, inputs)
    return np.asarray(probabilities)


def _check_exportable(scorer: Scorer) -> None:
    if scorer.scoring.samples > 0:
        raise CallError("a model that scores by samples cannot be exported; set scoring.samples to 0")
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise UolError(f"export requires onnx and onnxruntime: {install('export')}") from error
