"""Models as ONNX graphs, from pixels to scores: onnxruntime alone can then compute a model.

Read top to bottom: what the graphs compute, how they are written, how they are checked. Weights are stored once: the
graphs refer to the tensors in model.safetensors and references.safetensors by their places in these files.
"""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import struct
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from uol.errors import CallError, UolError
from uol.order.bradley_terry import GRID, STEEPEST
from uol.order.calibration import LEAST_DEGREE, Calibration
from uol.order.gaussians import Gaussians
from uol.order.model import Comparator
from uol.order.order import Order
from uol.order.views import views
from uol.scoring.base import BaseScorer
from uol.scoring.config import COMPARE_GRAPH, CONFIG, MODEL, SCORE_GRAPH
from uol.scoring.digests import write_digests
from uol.scoring.folder import CARD, check_target
from uol.scoring.onnx import FINGERPRINT, GAUSSIAN, SCORES, OnnxScorer, open_graph
from uol.scoring.panels import PANELS, REFERENCES
from uol.scoring.released import fingerprint
from uol.scoring.scorer import Scorer
from uol.storage.files import replacing, replacing_folder

if TYPE_CHECKING:
    import onnx

TOLERANCE = 1e-3  # of probabilities, and of scores as on a scale of 1 to 5

_OPSET = 18
_STEPS = 8  # from within a cell three suffice; were each a mere halving, eight would end at 1/65,000 of the scale


# -------------------------------------------------------------------- what the graphs compute


class ScoringGraph(nn.Module):
    """Framed images, uint8 (N, 3, crop, crop), to their Gaussians (N, D) and their scores (N,).

    Comparing an image with R references takes a few times R·H numbers at once, 0.7 MB each for 340 references and
    H = 512, where VGG16's first maps take 13 MB: the network sets the limit to N.
    """

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        self.model = copy.deepcopy(scorer.model).cpu().float().eval()
        _write_padding_as_numbers(self.model)
        self.panel, self.scoring = scorer.panel, scorer.scoring
        self.bradley_terry, self.calibration = scorer.bradley_terry, scorer.calibration
        self.references: Tensor
        self.reference_scores: Tensor
        self.register_buffer("references", scorer.references.gaussians.mean.detach().cpu().float().clone())
        self.register_buffer("reference_scores", torch.from_numpy(scorer.references.scores).double())

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the order of `GAUSSIAN` and `SCORES`."""
        mean, log_variance = self.embed(images)
        left, right = self.model.comparator.left(self.references), self.model.comparator.right(self.references)
        outcomes = _probabilities(self.model.comparator, mean[:, None], left, right, self.scoring.both_directions)
        raw, error = self.maximum(outcomes)
        if self.model.levels is not None and self.scoring.histogram_share > 0:
            share = self.scoring.histogram_share
            raw = (1 - share) * raw + share * self.model.level_mean(mean, self.panel.scale)
        low, high = self.panel.low, self.panel.high
        calibration = self.calibration
        value = (calibration.intercept + calibration.slope * raw).clamp(low, high)
        half = calibration.quantile * ((calibration.scale * error) ** 2 + calibration.floor**2).sqrt()
        dispersion = _dispersion(log_variance, calibration)
        figures = (value, (value - half).clamp(low, high), (value + half).clamp(low, high), dispersion, error)
        return mean, log_variance, *(figure.float() for figure in figures)

    def embed(self, images: Tensor) -> Gaussians:
        """Gaussians, averaged over the views in the scoring settings."""
        shown = [*views(images, self.scoring)]
        if len(shown) == 1:
            return self.model(shown[0])  # type: ignore[no-any-return]
        both = self.model(torch.cat(shown))
        return Gaussians(*(column.unflatten(0, (len(shown), -1)).mean(0) for column in both))

    def maximum(self, outcomes: Tensor) -> tuple[Tensor, Tensor]:
        """The Bradley-Terry score of each image and its standard error, as `bradley_terry.estimate` finds them.

        Outcomes (N, R, 3). The score is bracketed on a grid by one matrix product, then found by Newton's steps, each
        of which falls back to halving the bracket.
        """
        low, high, delta = self.panel.low, self.panel.high, self.bradley_terry.delta
        k = min(self.bradley_terry.k, STEEPEST / (high - low))
        r = self.reference_scores
        if self.scoring.outcomes == "hard":
            likeliest = outcomes.argmax(-1)
            not_less, not_greater = (likeliest != Order.LESS).double(), (likeliest != Order.GREATER).double()
        else:
            not_less, not_greater = 1 - outcomes[..., Order.LESS], 1 - outcomes[..., Order.GREATER]

        grid = torch.linspace(low, high, GRID + 1, dtype=torch.float64)
        x = k * (grid - r[:, None])
        slope = not_less @ (delta - x).sigmoid() - not_greater @ (delta + x).sigmoid()  # (N, G), falling along G
        inside = (slope[:, 0] > 0) & (slope[:, -1] < 0)
        cell = ((slope > 0).long().sum(1, keepdim=True) - 1).clamp(0, GRID - 1)
        width = (high - low) / GRID
        below = low + width * cell[:, 0].double()
        above = below + width
        rising, falling = slope.gather(1, cell)[:, 0], -slope.gather(1, cell + 1)[:, 0]
        start = below + width * rising / (rising + falling).clamp(min=1e-300)
        s = torch.where(inside, start, torch.where(slope[:, 0] <= 0, low, high).double())
        for _ in range(_STEPS):
            gradient, information = _derivatives(s, r, not_less, not_greater, k, delta)
            below, above = torch.where(gradient > 0, s, below), torch.where(gradient > 0, above, s)
            proposal = s + gradient / information.clamp(min=1e-300)
            proposal = torch.where((proposal >= below) & (proposal <= above), proposal, 0.5 * (below + above))
            s = torch.where(inside, proposal, s)
        _, information = _derivatives(s, r, not_less, not_greater, k, delta)
        return s, 1 / information.clamp(min=(high - low) ** -2.0).sqrt()


class SameConvolution(torch.autograd.Function):
    """A convolution with as many zeros before and after the maps (top, left, bottom, right) as `pads` states.

    In a graph it is one node. As PyTorch writes it, with the zeros counted from the maps' shape and added by another
    node, EfficientNet-lite0 takes a quarter more time.
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, pads: list[int], stride: list[int], groups: int) -> Tensor:
        """PyTorch's pads are the last axis's first."""
        top, left, bottom, right = pads
        return nn.functional.conv2d(
            nn.functional.pad(maps, [left, right, top, bottom]), weight, None, stride, 0, 1, groups
        )

    @staticmethod
    def symbolic(graph: Any, maps: Any, weight: Any, pads: list[int], stride: list[int], groups: int) -> Any:
        """The node of a graph."""
        return graph.op("Conv", maps, weight, pads_i=pads, strides_i=stride, group_i=groups)


def _write_padding_as_numbers(model: nn.Module) -> None:
    """Replace timm's convolutions with TensorFlow's padding by `SameConvolution`."""
    for layer in model.modules():
        if type(layer).__name__ == "Conv2dSame" and getattr(layer, "bias", None) is None and layer.dilation == (1, 1):
            layer.forward = partial(_same_convolution, layer)  # type: ignore[arg-type]


def _same_convolution(layer: nn.Conv2d, maps: Tensor) -> Tensor:
    """A convolution with TensorFlow's padding: one output for each `stride` inputs, the odd zero after the maps."""
    sides = [int(side) for side in maps.shape[2:]]
    zeros = [
        max((-(-side // stride) - 1) * stride + kernel - side, 0)
        for side, stride, kernel in zip(sides, layer.stride, layer.kernel_size, strict=True)
    ]
    pads = [zero // 2 for zero in zeros] + [zero - zero // 2 for zero in zeros]
    moved: Tensor = SameConvolution.apply(maps, layer.weight, pads, list(layer.stride), layer.groups)
    return moved


class ComparingGraph(nn.Module):
    """Two Gaussians for each of N pairs, (N, D) → probabilities of less, similar and greater (N, 3)."""

    def __init__(self, graph: ScoringGraph) -> None:
        super().__init__()
        self.model = graph.model
        self.both_directions = graph.scoring.both_directions

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Means are compared: spreads would matter to samples alone."""
        comparator = self.model.comparator
        left, right = comparator.left(second), comparator.right(second)
        return _probabilities(comparator, first, left, right, self.both_directions).float()


def _probabilities(comparator: Comparator, points: Tensor, left: Tensor, right: Tensor, both: bool) -> Tensor:
    """`Comparator.against`, softmax included, with broadcasting in place of its loop over images."""
    logits = comparator.judge(comparator.left(points), right)
    if both:
        logits = (logits + comparator.judge(left, comparator.right(points)).flip(-1)) / 2
    return logits.double().softmax(-1)


def _derivatives(
    s: Tensor, r: Tensor, not_less: Tensor, not_greater: Tensor, k: float, delta: float
) -> tuple[Tensor, Tensor]:
    """dL/ds and −d²L/ds² of the log-likelihood at scores s (N,)."""
    x = k * (s[:, None] - r)
    sigma_u, sigma_v = (x - delta).sigmoid(), (x + delta).sigmoid()
    rising, falling = not_less * (1 - sigma_u), not_greater * sigma_v
    gradient = k * (rising - falling).sum(1)
    return gradient, k**2 * (rising * sigma_u + falling * (1 - sigma_v)).sum(1)


def _dispersion(log_variance: Tensor, calibration: Calibration) -> Tensor:
    """As `Calibration.dispersion` of `dispersion_degree`; NaN where unknown."""
    spread = log_variance.double().clamp(min=-1000.0)  # a point has −∞, of which runtimes make NaN
    highest = spread.amax(-1, keepdim=True)
    log_degree = 0.5 * (highest[:, 0] + (spread - highest).exp().sum(-1).log())
    if calibration.dispersion_intercept is None:
        return log_degree * float("nan")
    log_degree = log_degree.clamp(min=float(np.log(LEAST_DEGREE)))
    return (calibration.dispersion_intercept + calibration.dispersion_slope * log_degree).exp()


# -------------------------------------------------------------------- how they are written


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


# -------------------------------------------------------------------- how they are checked


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
        raise UolError("export requires onnx and onnxruntime: pip install 'uol[export]'") from error
