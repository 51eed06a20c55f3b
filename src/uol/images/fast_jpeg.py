"""Read plain JPEG files as Pillow does, by OpenCV, in two thirds of the time: for files of the size that a model wants.

Pixels are the same: both decode by libjpeg-turbo, and where they do not (`same_as_pillow` tries), nothing is read here.
Pillow reads all other files: `uol.images.read.read_image`.
"""

from __future__ import annotations

import io
import re
import stat
from functools import cache
from os import stat as stat_of

import numpy as np
import numpy.typing as npt
from PIL import Image

from uol.images.packages import opencv

Pixels = npt.NDArray[np.uint8]

_START, _END = b"\xff\xd8\xff", b"\xff\xd9"
_FRAMES = frozenset({0xC0, 0xC1})  # Huffman-coded and in one pass: baseline and extended
_SCAN = 0xDA
# Tables, restarts, comments, JFIF, colour profiles and Adobe's transform. Exif and XMP, which can state an orientation,
# are in other segments.
_PASSED = frozenset({0xC4, 0xDB, 0xDD, 0xFE, 0xE0, 0xE2, 0xEE})
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7]")  # in a scan: no stuffed byte and no restart


def read_plain_jpeg(path: str, side: int) -> Pixels | None:
    """The pixels (side, side, 3) of a plain JPEG file of that size; None for others, which Pillow reads or refuses."""
    if not same_as_pillow():
        return None
    try:
        if not stat.S_ISREG(stat_of(path).st_mode):  # reading a pipe could wait for ever
            return None
        with open(path, "rb", buffering=0) as file:
            header = file.read(1 << 16)
            if not header.startswith(_START):
                return None
            content = header + file.read() if len(header) == 1 << 16 else header
    except (OSError, ValueError):
        return None
    return decoded(content) if plain_jpeg_size(content) == (side, side) else None


def decoded(content: bytes) -> Pixels | None:
    """The pixels (H, W, 3) of a plain JPEG file in memory; None if it is damaged."""
    cv2 = opencv()
    try:
        pixels: Pixels | None = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:
        return None
    return pixels


def plain_jpeg_size(content: bytes) -> tuple[int, int] | None:
    """Height and width of an 8-bit JPEG of one or three components in one whole scan, without an orientation, or None.

    Damage that Pillow reports and OpenCV passes over shows as a marker within the scan.
    """
    if not content.startswith(_START) or not content.endswith(_END):
        return None
    at, size = 2, None
    while at + 10 <= len(content) and content[at] == 0xFF:
        marker, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4])
        if marker in _FRAMES and size is None and content[at + 4] == 8 and content[at + 9] in (1, 3):
            size = int.from_bytes(content[at + 5 : at + 7]), int.from_bytes(content[at + 7 : at + 9])
        elif marker == _SCAN:
            end = _MARKER.search(content, at + 2 + length)
            return size if end is not None and end.start() == len(content) - len(_END) else None
        elif marker not in _PASSED:
            return None
        at += 2 + length
    return None


@cache
def same_as_pillow() -> bool:
    """Whether OpenCV decodes small pictures to the pixels that Pillow gives: other builds may have other decoders."""
    noise = np.random.default_rng(0).integers(0, 256, (35, 35, 3), np.uint8)
    smooth = np.add.outer(np.arange(35), np.arange(35))[..., None] * [3, 1, 2] % 256
    for pixels in (noise, smooth.astype(np.uint8)):
        for subsampling in (0, 1, 2):
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "JPEG", quality=80, subsampling=subsampling)
            again = decoded(file.getvalue())
            if again is None or not np.array_equal(again, np.asarray(Image.open(file))):
                return False
    return True
