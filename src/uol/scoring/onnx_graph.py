"""What is in an ONNX graph, and a part of it, without the package onnx, which asking a model does not need.

An ONNX file is a protobuf message: fields with a number and a kind, of which those that matter here (messages and
strings) are a length and that many bytes. Numbers are those of onnx.proto, which never change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_GRAPH, _METADATA = 7, 14  # of a model
_NODE, _INITIALIZER, _OUTPUT, _VALUE_INFO = 1, 5, 12, 13  # of a graph
_NODE_INPUT, _NODE_OUTPUT, _TENSOR_NAME, _EXTERNAL, _VALUE_NAME = 1, 2, 8, 13, 1
_BYTES = 2  # the kind of fields that are a length and that many bytes
_SIZES = {1: 8, 5: 4}  # of fields of other kinds; kind 0 is a varint


def cut_graph(model: bytes, outputs: Sequence[str], metadata: tuple[str, str]) -> bytes:
    """A model that computes `outputs` alone, without nodes and weights that they do not need, with other metadata.

    Nodes are in the order of their computation, as ONNX requires, and none has a graph inside, as none has that
    `uol.scoring.onnx_export` writes.
    """
    parts = [raw for number, _, raw in _fields(model) if number not in (_GRAPH, _METADATA)]
    (graph,) = (content for number, content, _ in _fields(model) if number == _GRAPH)
    key, value = (_field(number, text.encode()) for number, text in enumerate(metadata, 1))
    return b"".join([*parts, _field(_GRAPH, _cut(graph, set(outputs))), _field(_METADATA, key + value)])


def external_files(model: bytes) -> set[str]:
    """The files from which a model reads its weights; `ValueError` if it is damaged."""
    try:
        graphs = [content for number, content, _ in _fields(model) if number == _GRAPH]
        tensors = (tensor for graph in graphs for number, tensor, _ in _fields(graph) if number == _INITIALIZER)
        entries = (entry for tensor in tensors for number, entry, _ in _fields(tensor) if number == _EXTERNAL)
        pairs = ({number: content for number, content, _ in _fields(entry)} for entry in entries)
        return {pair.get(2, b"").decode() for pair in pairs if pair.get(1) == b"location"}
    except (IndexError, KeyError) as error:
        raise ValueError("not an ONNX graph") from error


def _cut(graph: bytes, outputs: set[str]) -> bytes:
    fields = list(_fields(graph))
    needed, nodes = set(outputs), []
    for number, content, raw in reversed(fields):
        if number == _NODE and needed & _names(content, _NODE_OUTPUT):
            needed |= _names(content, _NODE_INPUT)
            nodes.append(raw)
    kept = [*reversed(nodes)]
    for number, content, raw in fields:
        named = {_INITIALIZER: (_TENSOR_NAME, needed), _OUTPUT: (_VALUE_NAME, outputs)}.get(number)
        if number not in (_NODE, _VALUE_INFO) and (named is None or _names(content, named[0]) & named[1]):
            kept.append(raw)
    return b"".join(kept)


def _names(message: bytes, field: int) -> set[str]:
    return {content.decode() for number, content, _ in _fields(message) if number == field}


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, content (empty for numbers) and all bytes of each field."""
    at = 0
    while at < len(message):
        tag, start = _varint(message, at)
        content, kind = b"", tag & 7
        if kind == _BYTES:
            length, first = _varint(message, start)
            end = first + length
            content = message[first:end]
        else:
            end = start + _SIZES[kind] if kind else _varint(message, start)[1]
        yield tag >> 3, content, message[at:end]
        at = end


def _field(number: int, content: bytes) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(content)) + content


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        shift += 7
        if shift > 70:
            raise ValueError("a number of more than 64 bits")
        at += 1
        if message[at - 1] < 128:
            return value, at


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
