"""Files that a stranger might send: cut off, damaged, lying about their size, or no images at all."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "JPEG2000", "AVIF")
HEADS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"II*\0", b"MM\0*", b"P6\n", b"RIFF....WEBP")


def hostile_files() -> Iterator[tuple[str, bytes]]:
    """More than 300 files, each with a name that says what is wrong with it."""
    rng = np.random.default_rng(0)
    pixels = np.add.outer(np.arange(40), np.arange(48))[..., None] * [3, 2, 1]
    picture = Image.fromarray((pixels % 256).astype(np.uint8))
    for name in FORMATS:
        content = _saved(picture, name)
        yield f"plain.{name}", content  # without a face
        for part in (1, 4, 9, 16, 24, 31):
            yield f"cut-{part}.{name}", content[: len(content) * part // 32]
        for number in range(24):
            yield f"flipped-{number}.{name}", _flipped(content, rng, 1 + number * 3)
        yield f"doubled.{name}", content + content
        yield f"head-of-noise.{name}", content[:64] + rng.bytes(4000)
    yield from _bombs()
    yield from _others(rng)


def _saved(picture: Image.Image, name: str, **options: object) -> bytes:
    content = io.BytesIO()
    picture.save(content, name, **options)
    return content.getvalue()


def _flipped(content: bytes, rng: np.random.Generator, count: int) -> bytes:
    changed = np.frombuffer(content, np.uint8).copy()
    changed[rng.integers(0, len(changed), count)] = rng.integers(0, 256, count)
    return changed.tobytes()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 2) -> bytes:
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + _chunk(b"IEND", b"")


def _bombs() -> Iterator[tuple[str, bytes]]:
    zeros = zlib.compress(b"\0" * 30_000_000, 9)
    for width, height in ((60_000, 60_000), (2**31 - 1, 1), (1, 2**31 - 1), (0, 0), (50_001, 1000), (7000, 7001)):
        yield f"{width}x{height}.png", _png(width, height, _chunk(b"IDAT", zeros))
    yield "more-than-it-says.png", _png(8, 8, _chunk(b"IDAT", zeros))
    yield "text-bomb.png", _png(8, 8, _chunk(b"zTXt", b"a\0\0" + zeros), _chunk(b"IDAT", zlib.compress(b"\0" * 200)))
    yield "profile-bomb.png", _png(8, 8, _chunk(b"iCCP", b"a\0\0" + zeros), _chunk(b"IDAT", zlib.compress(b"\0" * 200)))
    yield "thin.png", _png(40_000, 1, _chunk(b"IDAT", zlib.compress(b"\0" * 120_001)))
    yield "tall.png", _png(1, 40_000, _chunk(b"IDAT", zlib.compress(b"\0\0\0\0" * 40_000)))
    yield "lossless.webp", b"RIFF\x24\0\0\0WEBPVP8L\x18\0\0\0\x2f\xff\xff\xff\x0f" + b"\xff" * 20
    yield "large.gif", b"GIF89a\xff\xff\xff\xff\x80\0\0" + b"\0" * 6 + b",\0\0\0\0\xff\xff\xff\xff\0\x08\x01\0\0;"
    yield "large.bmp", b"BM" + struct.pack("<IHHIIiiHHIIiiII", 60, 0, 0, 54, 40, 2**30, 2**30, 1, 24, 0, 0, 1, 1, 0, 0)
    frames = [Image.new("P", (60, 60), number % 200) for number in range(300)]
    yield "frames.gif", _saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    loop = b"II*\0\x08\0\0\0" + struct.pack("<H", 1) + struct.pack("<HHII", 256, 4, 1, 50) + struct.pack("<I", 8)
    yield "loop.tif", loop
    yield "many-tags.tif", b"II*\0\x08\0\0\0\xff\xff" + struct.pack("<HHII", 256, 4, 2**31, 8) * 60_000
    yield "far.tif", b"II*\0\xff\xff\xff\x7f"
    exif = b"Exif\0\0MM\0*\0\0\0\x08" + b"\xff" * 60_000
    plain = _saved(Image.new("RGB", (16, 16)), "JPEG")
    yield "exif.jpg", plain[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + plain[2:]
    yield "scans.jpg", plain[:-2] + plain[plain.index(b"\xff\xda") :] * 3000
    yield "plane.ppm", b"P6\n99999 99999\n255\n" + b"\0" * 100
    yield "comment.ppm", b"P6\n#" + b"x" * 1_000_000
    yield "values.pgm", b"P2\n9 9\n65535\n" + b"99999999999999999999 " * 90


def _others(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "one-byte", b"\xff"
    yield "page.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
    yield "script.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99999 99999\n(/etc/passwd) run\n%%EOF"
    yield "document.pdf", b"%PDF-1.7\n1 0 obj<</Type/Catalog>>endobj trailer<</Root 1 0 R>>"
    yield "archive.zip", b"PK\x03\x04" + b"\0" * 100
    yield "code.html", b"<script>alert(1)</script>"
    yield "../../../etc/passwd", b"root"
    yield "=cmd|' /C calc'!A0.png", b"x"
    for number, length in enumerate((1, 10, 100, 1000, 10_000, 100_000)):
        yield f"noise-{number}", rng.bytes(length)
    for number, head in enumerate(HEADS):
        for length in (0, 7, 300, 20_000):
            yield f"head-{number}-{length}", head + rng.bytes(length)
    ftyp = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
    for number in range(8):
        yield f"heic-{number}.heic", ftyp + rng.bytes(200 * number)
