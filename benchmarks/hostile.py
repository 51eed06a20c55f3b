"""Files that people have and nobody wants: good ones in odd forms, and damaged ones."""

from __future__ import annotations

import io
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image

from uol.training.recipe import Recipe, shipped

Pixels = npt.NDArray[np.uint8]


# -------------------------------------------------------------------- damage


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Content with flipped bits, a cut, a hole, other bytes, or twice."""
    data, n = bytearray(content), len(content)
    if n < 8:
        return bytes(rng.bytes(50))
    at, length = int(rng.integers(n)), int(rng.integers(1, min(n, 4096)))
    kind = int(rng.integers(7))
    if kind == 0:
        for place in rng.integers(n, size=int(rng.integers(1, 20))):
            data[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif kind == 3:
        data[at : at + length] = rng.bytes(length)
    elif kind == 4:
        data[at:at] = data[: min(length, n)]
    elif kind == 5:
        data[:16] = rng.bytes(16)
    else:
        data[at] ^= 1
    return bytes(data)


# -------------------------------------------------------------------- images

LOSSLESS, LOSSY = ("png", "bmp", "tif", "ppm"), ("jpg", "webp", "avif", "jp2", "heic")
FORMATS = dict.fromkeys(LOSSLESS, 0.02) | dict.fromkeys(LOSSY, 0.5)  # how far a score may move
ODD_NAMES = (
    "new\nline", "tab\t", "é ü 中 😀", "a'b\"c", "=1+1", "-rf", "%s{}", "x" * 200, "\udcff\udcfe", " ", "[a]*?",
)  # fmt: skip


def encoded(picture: Pixels, form: str, **options: Any) -> bytes:
    """A picture as a file of some format."""
    image, data = Image.fromarray(picture), io.BytesIO()
    if form == "heic":
        from pillow_heif import from_pillow

        from_pillow(image).save(data, quality=90)
    else:
        name = {"jpg": "jpeg", "tif": "tiff", "jp2": "jpeg2000"}.get(form, form)
        image.save(data, name, **({"quality": 90} | options if form in ("jpg", "webp", "avif") else options))
    return data.getvalue()


def whole_images(picture: Pixels, rng: np.random.Generator) -> tuple[bytes, str, float]:
    """A good file of a picture in one of many forms: content, ending, and how far its score may move."""
    kind = int(rng.integers(6))
    form = str(rng.choice(list(FORMATS)))
    if kind == 0:  # stored on its side, with an orientation
        exif = Image.Exif()
        exif[0x0112] = 6
        turned = np.asarray(Image.fromarray(picture).transpose(Image.Transpose.ROTATE_90))
        return encoded(turned, "png", exif=exif), "png", 0.02
    if kind == 1:  # damaged EXIF
        return encoded(picture, "jpg", exif=b"Exif\0\0" + rng.bytes(40)), "jpg", 5.0  # it may state an orientation
    if kind == 2:
        data = io.BytesIO()
        Image.fromarray(picture).convert("RGBA").save(data, "png")
        return data.getvalue(), str(rng.choice(["png", "jpg", "gif"])), 0.02  # the ending does not matter
    return encoded(picture, form), form, FORMATS[form]


def make_image(folder: Path, number: int, picture: Pixels, rng: np.random.Generator) -> tuple[Path, float | None]:
    """Write a file; its path, and how far its score may lie from the picture's, None if it may have none."""
    kind = rng.random()
    stem = f"{number:05}" + (str(rng.choice(ODD_NAMES)) if rng.random() < 0.2 else "")
    if kind < 0.35:
        content, form, tolerance = whole_images(picture, rng)
        path = folder / f"{stem}.{form}"
        path.write_bytes(content)
        return path, tolerance
    form = str(rng.choice(list(FORMATS)))
    path = folder / f"{stem}.{form}"
    if kind < 0.9:
        path.write_bytes(damaged(encoded(picture, form), rng))
    else:
        _strange(path, int(rng.integers(9)), rng)
    return path, None


def _strange(path: Path, kind: int, rng: np.random.Generator) -> None:
    """What is no picture, or a picture that nobody expects."""
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path)
    elif kind == 3:
        path.write_bytes(b"")
    elif kind == 4:
        path.write_bytes(rng.bytes(5000))
    elif kind == 5:  # a header that claims more pixels than memory has
        path.write_bytes(b"P6 60000 60000 255\n" + rng.bytes(100))
    elif kind == 6:
        size = [(1, 1), (1, 9000), (9000, 1), (2, 3)][int(rng.integers(4))]
        Image.new("RGB", size, (200, 150, 120)).save(path.with_suffix(".tmp"), "png")
        path.with_suffix(".tmp").rename(path)
    elif kind == 7:
        pass  # missing
    else:
        values = rng.integers(0, 65535, (90, 90)).astype(np.uint16)
        Image.fromarray(values).save(path.with_suffix(".tmp"), "png")
        path.with_suffix(".tmp").rename(path)


# -------------------------------------------------------------------- model folders

FILES = ("config.json", "model.safetensors", "references.safetensors", "model.onnx", "compare.onnx", "manifest.json")
VALUES: tuple[Any, ...] = (None, -1, 0, 1e300, 10**12, "NaN", "x", [], {}, True, float("nan"), 2**70)


def copy_model(source: Path, target: Path) -> Path:
    """A copy of a model folder whose files are links until they are changed."""
    target.mkdir()
    for path in source.iterdir():
        if path.is_file():
            os.link(path, target / path.name)
    return target


def rewrite(path: Path, content: bytes) -> None:
    """Replace a linked file."""
    path.unlink()
    path.write_bytes(content)


def spoil_model(folder: Path, rng: np.random.Generator) -> str:
    """Change a byte that matters, or more; returns what was done."""
    name = str(rng.choice(FILES))
    path, kind = folder / name, rng.random()
    content = path.read_bytes()
    if name == "manifest.json":
        listed = json.loads(content)
        one = str(rng.choice(list(listed["files"])))
        digest = listed["files"][one]["sha256"]
        place = int(rng.integers(64))
        changed = {
            0: {"sha256": digest[:place] + ("0" if digest[place] != "0" else "1") + digest[place + 1 :]},
            1: {"size": listed["files"][one]["size"] + int(rng.integers(1, 99))},
            2: {"sha256": None},
        }[int(rng.integers(3))]
        listed["files"][one] |= changed
        if kind < 0.3:
            del listed["files"][one]
        elif kind < 0.5:
            listed["files"]["../../other"] = listed["files"][one]
        rewrite(path, json.dumps(listed).encode())
        return f"manifest of {one}"
    if kind < 0.4:
        flipped = bytearray(content)
        flipped[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        rewrite(path, bytes(flipped))
        return f"a bit of {name}"
    if kind < 0.6:
        changed_bytes = damaged(content, rng)
        rewrite(path, changed_bytes if changed_bytes != content else content + b" ")
        return f"bytes of {name}"
    if kind < 0.7:
        path.unlink()
        strange = int(rng.integers(4))
        if strange == 0:
            path.mkdir()
        elif strange == 1:
            os.mkfifo(path)
        elif strange == 2:
            path.symlink_to("/dev/zero")
        return f"{name} replaced by what is no file"
    return spoil_config(folder, rng)


def spoil_config(folder: Path, rng: np.random.Generator) -> str:
    """Delete a setting, or give it a value that makes no sense."""
    config = json.loads((folder / "config.json").read_bytes())
    group = str(rng.choice([key for key, value in config.items() if isinstance(value, dict)]))
    name = str(rng.choice(list(config[group])))
    if rng.random() < 0.5:
        del config[group][name]
    else:
        value = VALUES[int(rng.integers(len(VALUES)))]
        config[group][name] = value if value is not True else "true"
    if rng.random() < 0.1:
        config["format"] = VALUES[int(rng.integers(len(VALUES)))]
    rewrite(folder / "config.json", json.dumps(config).encode())
    return f"{group}.{name} in config.json"


# -------------------------------------------------------------------- tables


def good_table(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.Series]:
    """A table of twelve images and eight raters, long or wide, and the true means."""
    names = [f"face_{k:02}" for k in range(12)]
    matrix = np.clip(np.round(rng.normal(4, 1.5, (12, 8))), 1, 7)
    matrix[0, :2] = 1, 7
    truth = pd.Series(matrix.mean(1), names)
    wide = pd.DataFrame(matrix.astype(int), columns=[f"p{k}" for k in range(8)]).assign(image=names)
    if rng.random() < 0.4:
        return wide[["image", *wide.columns[:-1]]], truth
    return wide.melt("image", var_name="rater", value_name="rating"), truth


def write_good(table: pd.DataFrame, path: Path, rng: np.random.Generator) -> Path:
    """Write a table in one of the ways in which programs write it."""
    kind = int(rng.integers(5))
    if kind == 0:
        table.to_excel(path.with_suffix(".xlsx"), index=False)
        return path.with_suffix(".xlsx")
    separator = str(rng.choice([",", ";", "\t"]))
    text = table.sample(frac=1, random_state=int(rng.integers(99))).to_csv(index=False, sep=separator)
    text = text.replace("\n", str(rng.choice(["\n", "\r\n"])))
    if kind == 1:
        text = f"Exported from a survey{separator * 2}\n\n" + text
    encoding = str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    path.write_bytes(text.encode(encoding))
    return path


def write_bad(table: pd.DataFrame, path: Path, rng: np.random.Generator) -> Path:
    """Write a table with what ruins a study: codes, words, contradictions, damage."""
    table = table.astype(object).copy()
    row, column = int(rng.integers(len(table))), table.columns[-1]
    place = table.index[row]
    kind = int(rng.integers(9))
    if kind < 4:
        value: Any = [-99, 999, "seven", 1e308, "inf", "", "4,5", "=1+1", "5 "][int(rng.integers(9))]
        table.loc[place, column] = value
    elif kind == 4:
        table.loc[place, "image"] = [None, "face_99", "../etc", "face_01.jpg"][int(rng.integers(4))]
    elif kind == 5:
        table = pd.concat([table, table.iloc[[row]].assign(**{column: 1}), table.iloc[[row]].assign(**{column: 7})])
    elif kind == 6:
        table.columns = [table.columns[0]] * len(table.columns)
    text = table.to_csv(index=False)
    path.write_bytes(damaged(text.encode(), rng) if kind > 6 else text.encode())
    return path


# -------------------------------------------------------------------- recipes


def make_recipe(path: Path, rng: np.random.Generator) -> None:
    """Write a shipped recipe changed at random, or what is none."""
    text = (resources.files("uol.training") / "recipes" / f"{rng.choice(shipped())}.yaml").read_text()
    value = str(rng.choice(["1e999", "-1", "9" * 400, "{}", "[[]]", "null", ".nan", "!!python/object:os.system x"]))
    name = str(rng.choice(list(Recipe.model_fields)))
    size = str(rng.choice(["dimensions", "crop", "hidden", "levels"]))
    contents = [
        f"{text}\n{name}: {value}\n".encode(), f"{name}: {value}\n".encode(), f"model: {{{size}: {value}}}\n".encode(),
        ("a: " + "[" * int(rng.integers(10, 9000))).encode(), f"base: {path.name}\n".encode(), rng.bytes(300),
        b"a: &a [1, 1]\n" + b"".join(b"k%d: &k%d [*a, *a]\n" % (i, i) for i in range(99)),
        damaged(text.encode(), rng), damaged(text.encode(), rng),
    ]  # fmt: skip
    path.write_bytes(contents[int(rng.integers(len(contents)))])
