"""A small exported model, images of several kinds, and tables of them."""

from __future__ import annotations

import pytest

from scale_jobs import jpeg

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The folder of an untrained model of whole images, with graphs."""
    pytest.importorskip("onnx")
    from quick import untrained
    from uol.scoring.onnx_export import export_onnx

    folder = tmp_path_factory.mktemp("scale") / "model"
    export_onnx(untrained(), folder)
    return str(folder)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """A folder of forty images, of which one cannot be read."""
    folder = tmp_path_factory.mktemp("photographs")
    for number in range(39):
        place = folder / ("a" if number % 2 else "b") / f"{number:02d}.jpg"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(jpeg(number))
    (folder / "broken.png").write_bytes(b"no image")
    return folder


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Six hundred rows with the content of images, in row groups of twenty."""
    from pyarrow import parquet

    contents = [jpeg(number) for number in range(20)]
    rows = {"key": [f"image-{n}" for n in range(600)], "bytes": [contents[n % 20] for n in range(600)]}
    path = tmp_path_factory.mktemp("table") / "images.parquet"
    parquet.write_table(pa.table(rows), path, row_group_size=20)
    return str(path)
