"""A process that frames image files for another one: it imports neither torch nor a model, and starts in a moment.

Pixels go through shared memory, which also has the names of all files. A request is three numbers: the first file, the
one after the last, and the place of the first one's pixels. An answer is a line of JSON: for each file null, its face,
or the error for which it has no pixels (an empty list if all are null), and warnings for the user.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from uol.images import detector
from uol.images.face_cache import FaceCache
from uol.images.fast_jpeg import read_plain_jpeg, same_as_pillow
from uol.images.framing import FaceRecord, Framer, Framing, Pixels, middle, reason
from uol.images.packages import opencv

Found: TypeAlias = FaceRecord | str | None
"""What is found in a file besides its pixels: nothing, a face, or the error for which it has none."""

REQUEST = struct.Struct("=qqq")
_PAGE = 4096


class Layout(NamedTuple):
    """What is in the shared memory: pixels (places, crop, crop, 3), where each name begins, and the names."""

    places: int
    crop: int
    files: int

    @property
    def offsets_at(self) -> int:
        """Where the numbers begin that say where names begin."""
        return -(-self.places * self.crop * self.crop * 3 // _PAGE) * _PAGE

    @property
    def names_at(self) -> int:
        """Where the names begin."""
        return self.offsets_at + 8 * (self.files + 1)

    def pixels(self, memory: mmap.mmap) -> Pixels:
        """The pixels in mapped memory."""
        shape = (self.places, self.crop, self.crop, 3)
        return np.frombuffer(memory, np.uint8, int(np.prod(shape))).reshape(shape)

    def write_names(self, shared: int, names: Sequence[str]) -> None:
        """Put the names of all files in shared memory, which grows to hold them."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        os.ftruncate(shared, self.names_at + int(offsets[-1]))
        with open(os.dup(shared), "wb") as file:
            file.seek(self.offsets_at)
            file.write(offsets.tobytes())
            file.writelines(encoded)

    def names(self, memory: mmap.mmap, first: int, end: int) -> list[str]:
        """The names of some of the files."""
        offsets = np.frombuffer(memory, np.int64, end - first + 1, self.offsets_at + 8 * first)
        places = (offsets + self.names_at).tolist()
        return [memory[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(places)]


class Task(NamedTuple):
    """What a process is started for, as the arguments of its command line."""

    shared: int
    layout: Layout
    resize: int
    framing: Framing
    cache: tuple[str, int] | None

    @classmethod
    def of(cls, shared: int, layout: Layout, framer: Framer) -> Task:
        """The task to frame files as `framer` does."""
        cache = None if framer.cache is None else (str(framer.cache.folder.parent), framer.cache.size)
        return cls(shared, layout, framer.resize, framer.framing, cache)

    @classmethod
    def read(cls, text: str) -> Task:
        """The task in a command line."""
        shared, layout, *rest = json.loads(text)
        return cls(shared, Layout(*layout), *rest)

    @property
    def framer(self) -> Framer:
        """How images are framed."""
        return Framer(self.resize, self.layout.crop, self.framing, FaceCache(*self.cache) if self.cache else None)


def frame_into(target: Pixels, paths: Sequence[str], framer: Framer, fast: bool = False) -> list[Found]:
    """Frame files into the first places of `target`; `fast` decodes plain JPEG files by OpenCV, to the same pixels."""
    found: list[Found] = []
    for place, path in enumerate(paths):
        try:
            plain = read_plain_jpeg(path, framer.resize) if fast and framer.framing == "whole" else None
            if plain is None:
                target[place], face = framer.one(path)
                found.append(face)
            else:
                target[place] = middle(plain, framer.crop)
                found.append(None)
        except Exception as error:  # a fault in a decoder or the detector costs this image, not the run
            found.append(reason(path, error))
    return found


def serve(task: Task) -> None:
    """Report to be ready, then frame the requested files into shared memory until the input ends."""
    answers = open(os.dup(1), "wb", buffering=0)  # noqa: SIM115 (until the end)
    os.dup2(2, 1)  # what a library prints is no answer
    memory = mmap.mmap(task.shared, 0)
    pixels, framer = task.layout.pixels(memory), task.framer
    opencv().setNumThreads(1)  # each core has a process
    if framer.framing == "whole":
        same_as_pillow()
    elif framer.cache is None:  # with a cache they may not be needed
        detector.load_networks()
    answers.write(b"\n")
    while len(request := sys.stdin.buffer.read(REQUEST.size)) == REQUEST.size:
        first, end, place = REQUEST.unpack(request)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("default")
            found = frame_into(pixels[place:], task.layout.names(memory, first, end), framer, fast=True)
        texts = [str(one.message) for one in warned if one.category is UserWarning]
        answers.write(json.dumps([found if any(found) else [], texts]).encode() + b"\n")


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        serve(Task.read(sys.argv[1]))
