"""Reading requests: a form with files or JSON with base64, within the limits, in memory alone."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from uol.errors import CallError, counted
from uol.images.framing import FramedFile
from uol.images.read import ImageBytes
from uol.serve.limits import FORMATS, MEGABYTE, Limits
from uol.serve.schemas import CompareBody, ExplainBody, ImageIn, RankBody, ScoreBody
from uol.storage.validation import first_problem

AnyBody = TypeVar("AnyBody", ScoreBody, RankBody, CompareBody, ExplainBody)
Sent: TypeAlias = ImageBytes | FramedFile  # an image, or the error for which it is not scored

_LONGEST_NAME = 255
_FIELD_BYTES = 4096  # of a form's field that is no file
_NUMBERS = TypeAdapter(list[float])


class RefusedError(CallError):
    """A request that is answered with an HTTP status and one line."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _FormInMemory(MultiPartParser):
    spool_max_size = 1 << 62  # photographs are never written to a disk


def declared_size(request: Request, limits: Limits) -> int | None:
    """The size of a body by its header, None if it has none; too large a body is refused before it is read."""
    text = request.headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise RefusedError(400, "Content-Length is not a number")
    size = int(text)
    if size > limits.body_bytes:
        raise RefusedError(413, _too_large(limits))
    return size


async def read_body(request: Request, kind: type[AnyBody], limits: Limits) -> tuple[AnyBody, list[Sent]]:
    """The values of a request, and its images or, for those that are refused, their errors."""
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        async with asyncio.timeout(limits.body_seconds):
            if media == "application/json":
                return await _read_json(request, kind, limits)
            if media == "multipart/form-data":
                return await _read_form(request, kind, limits)
    except TimeoutError:
        raise RefusedError(408, f"the request did not arrive within {limits.body_seconds:g} s") from None
    raise RefusedError(415, "send multipart/form-data with files named `images`, or application/json")


async def _read_json(request: Request, kind: type[AnyBody], limits: Limits) -> tuple[AnyBody, list[Sent]]:
    content = b"".join([chunk async for chunk in stream_body(request, limits)])
    return await asyncio.to_thread(_parse_json, content, kind, limits)  # large bodies take a while


def _parse_json(content: bytes, kind: type[AnyBody], limits: Limits) -> tuple[AnyBody, list[Sent]]:
    try:
        body = kind.model_validate_json(content)
    except ValidationError as error:
        unreadable = error.errors()[0]["type"] == "json_invalid"
        raise RefusedError(400 if unreadable else 422, problem_of(error)) from error
    _check_count(len(body.images), limits)
    entries = [ImageIn(data=entry) if isinstance(entry, str) else entry for entry in body.images]
    body.images.clear()  # a third larger than what they encode
    return body, [_image(entry.name, _decoded(entry.data), at, limits) for at, entry in enumerate(entries)]


async def _read_form(request: Request, kind: type[AnyBody], limits: Limits) -> tuple[AnyBody, list[Sent]]:
    parser = _FormInMemory(
        request.headers,
        stream_body(request, limits),
        max_files=limits.images,
        max_fields=16,
        max_part_size=_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
        files, values = _sorted_parts(form)
        contents = [(file.filename or "", file.file.read()) for file in files]
    except MultiPartException as error:
        if error.message.startswith("Too many files"):
            _check_count(limits.images + 1, limits)
        raise RefusedError(400, f"not a readable form ({error.message})") from error
    except (FormParserError, ValueError, KeyError, AttributeError) as error:
        raise RefusedError(400, f"not a readable form ({type(error).__name__})") from error
    finally:
        for file in parser._files_to_close_on_error:
            file.close()
    try:
        body = kind.model_validate({**values, "images": [""] * len(files)})
    except ValidationError as error:
        raise RefusedError(422, problem_of(error)) from error
    return body, [_image(name, content, at, limits) for at, (name, content) in enumerate(contents)]


def _sorted_parts(form: FormData) -> tuple[list[UploadFile], dict[str, Any]]:
    """The files of a form, and the values of its other fields."""
    files: list[UploadFile] = []
    values: dict[str, Any] = {}
    for name, value in form.multi_items():
        if value == "":  # a field that was left empty has its default
            continue
        if isinstance(value, UploadFile) and name == "images":
            files.append(value)
        elif isinstance(value, UploadFile) or name == "images":
            wrong = "not a file" if name == "images" else "files are named `images`"
            raise RefusedError(422, f"{clean_name(name)}: {wrong}")
        elif name in values:
            raise RefusedError(422, f"{clean_name(name)}: given twice")
        else:
            values[name] = _box(value) if name == "box" else value
    return files, values


async def stream_body(request: Request, limits: Limits) -> AsyncGenerator[bytes, None]:
    """The parts of a body as they arrive, within the limits."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limits.body_bytes:
            raise RefusedError(413, _too_large(limits))
        yield chunk


def _image(name: str, content: bytes | None, index: int, limits: Limits) -> Sent:
    name = clean_name(name) or f"image {index + 1}"
    if content is None:
        return FramedFile(name, None, error=f"{name}: not valid base64")
    if len(content) > limits.image_bytes:
        most = f"{limits.image_bytes / MEGABYTE:g} MB"
        return FramedFile(name, None, error=f"{name}: more than the {most} that an image may have")
    return ImageBytes(name, content, FORMATS, limits.pixels)


def clean_name(name: str) -> str:
    """A name from a stranger: one line of printable characters."""
    return "".join(letter if letter.isprintable() else "�" for letter in name)[:_LONGEST_NAME]


def _decoded(text: str) -> bytes | None:
    """The bytes of base64, with or without the head of a data: URL; None if it is not base64."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _box(text: str) -> Any:
    """The four numbers of a form's field: as JSON, or separated by commas or spaces."""
    try:
        return _NUMBERS.validate_python(text.strip().strip("[]").replace(",", " ").split())
    except ValidationError:
        return text


def _check_count(images: int, limits: Limits) -> None:
    if images > limits.images:
        raise RefusedError(413, f"more than the {counted(limits.images, 'image')} that a request may have")


def _too_large(limits: Limits) -> str:
    return f"more than the {limits.body_bytes / MEGABYTE:g} MB that a request may have"


def problem_of(error: ValidationError) -> str:
    """The first problem on one line, without the names of classes in its place (`images.0.ImageIn.data`)."""
    return clean_name(re.sub(r"^(images\.\d+)\.(ImageIn|str)\b", r"\1", " ".join(first_problem(error).split())))
