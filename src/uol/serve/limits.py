"""What the service accepts, and how long things may take."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000
# Raster formats that browsers and cameras write; Pillow would also open formats that run other programs.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "HEIF")


@dataclass(frozen=True)
class Limits:
    """Limits of requests, and of all requests together; times are in seconds."""

    images: int = 64  # in a request
    image_bytes: int = 25 * MEGABYTE
    body_bytes: int = 64 * MEGABYTE
    pixels: int = 50_000_000  # of an image: the largest photographs of telephones have 48 million
    queue: int = 128  # images that were accepted and have no answer yet
    memory_bytes: int = 256 * MEGABYTE  # bodies in memory at once
    seconds: float = 60.0  # for an answer
    body_seconds: float = 30.0  # for a body to arrive
    header_seconds: float = 10.0  # for a request's headers to arrive
    idle_seconds: float = 600.0  # without a request, after which the model leaves memory
