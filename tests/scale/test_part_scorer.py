"""A worker: the answers of `uol score`, field by field, whether images are files, addresses or in a table."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from killing_framer import KillingFramer
from scale_jobs import jpeg
from uol.images.paths import find_images
from uol.scale import addresses
from uol.scale.framing import frame_apart
from uol.scale.items import Item
from uol.scale.job_folder import Counts, JobFolder
from uol.scale.model_files import pack_model
from uol.scale.part_scorer import PartScorer, Settings, error_kind
from uol.scale.sources import Columns, image_pairs, parts_of, table_files, write_list
from uol.scoring.bulk import score_files
from uol.scoring.released import DEFAULT, open_model

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("fsspec")
pytestmark = pytest.mark.slow

LISTED = Columns("key", None, "address")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def http(photographs):
    """A folder of images behind HTTP: the address of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(photographs)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def s3(monkeypatch):
    """A bucket of a server that speaks S3 (moto's) on this machine."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    addresses._file_system.cache_clear()
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    store.mkdir("photographs")
    yield store
    server.stop()
    addresses._file_system.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()


def scored(model, out, files, columns=LISTED, part_size=16, **changes):
    """The rows of a job, done part by part in this process, and its counts."""
    settings = Settings(str(out), columns, model, "onnx", "cpu", None, "panel", False, 1)._replace(**changes)
    worker = PartScorer(settings)
    for part in parts_of(files, part_size):
        worker.score(part)
    counts = sum(JobFolder(str(out)).finished().values(), Counts())
    return sorted(parquet.read_table(out).to_pylist(), key=lambda row: row["key"]), counts


def listed(names, tmp_path, size=16):
    return write_list(image_pairs(names, (), lambda line: None), str(tmp_path / "list"), size)


def expected(model, paths):
    return {str(paths[i]): rows[0] for i, rows in score_files(open_model(model), paths)}


def check_same(rows, wanted, key=lambda path: path):
    """The figures of rows are those of `uol score`; errors are for the same images."""
    assert [row["key"] for row in rows] == sorted(key(path) for path in wanted)
    found = {row["key"]: row for row in rows}
    for path, row in wanted.items():
        own = found[key(path)]
        for name in ("value", "low", "high", "dispersion"):
            assert own[name] == (None if row[name] is None else pytest.approx(row[name], abs=1e-6))
        assert (own["error"] is None) == (row["error"] is None)


def test_a_folder_has_the_answers_of_uol_score(model, photographs, tmp_path):
    wanted = expected(model, find_images(photographs))
    rows, counts = scored(model, tmp_path / "out", listed([str(photographs)], tmp_path))
    check_same(rows, wanted)
    assert [row["error"] for row in rows] == [wanted[row["key"]]["error"] for row in rows]
    assert {row["panel"] for row in rows} == {"panel"}
    assert counts == (40, 40, {"unreadable": 1})


def test_faces_have_boxes_and_problems(tmp_path, drawn_face):
    wanted = expected(DEFAULT, [drawn_face])[str(drawn_face)]
    (row,), _ = scored(DEFAULT, tmp_path / "out", listed([str(drawn_face)], tmp_path))
    box = [row[name] for name in ("face_left", "face_top", "face_width", "face_height")]
    assert (box, row["confidence"]) == (wanted["face"]["box"], wanted["face"]["confidence"])
    assert row["problems"] == "; ".join(wanted["face"]["problems"])
    assert row["value"] == pytest.approx(wanted["value"], abs=1e-6)
    assert row["face"] == 0


@pytest.fixture
def drawn_face(tmp_path):
    from PIL import Image

    from uol.datasets.synthetic import load_synthetic

    image = load_synthetic(4, 2, size=256).images[0]
    Image.fromarray(image).save(tmp_path / "face.png")
    return tmp_path / "face.png"


def test_http_addresses_have_the_same_answers(model, photographs, http, tmp_path):
    paths = find_images(photographs)
    names = [f"{http}/{path.relative_to(photographs)}" for path in paths]
    (tmp_path / "list.txt").write_text("\n".join([*names, f"{http}/gone.jpg"]))
    rows, counts = scored(model, tmp_path / "out", listed([str(tmp_path / "list.txt")], tmp_path))
    gone = next(row for row in rows if row["key"].endswith("gone.jpg"))
    assert (gone["error_kind"], gone["error"]) == ("missing", f"{http}/gone.jpg: no such image file")
    rows.remove(gone)
    check_same(rows, expected(model, paths), lambda path: f"{http}/{Path(path).relative_to(photographs)}")
    assert counts == (41, 41, {"unreadable": 1, "missing": 1})


def test_a_server_that_does_not_answer_costs_rows(model, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "_PATIENCE", (0.0,))
    (tmp_path / "list.txt").write_text("http://127.0.0.1:9/a.jpg\n")
    (row,), counts = scored(model, tmp_path / "out", listed([str(tmp_path / "list.txt")], tmp_path))
    assert "cannot be fetched" in row["error"]
    assert counts == (1, 1, {"not fetched": 1})


def test_a_bucket_is_read_and_written(model, photographs, s3, tmp_path):
    paths = find_images(photographs)
    for path in paths:
        s3.pipe_file(f"photographs/{path.relative_to(photographs)}", path.read_bytes())
    files = write_list(image_pairs(["s3://photographs/"], (), lambda line: None), "s3://photographs/out/_inputs", 16)
    settings = Settings("s3://photographs/out", LISTED, model, "onnx", "cpu", None, "panel", False, 1)
    worker = PartScorer(settings)
    assert [worker.score(part).images for part in parts_of(files, 16)] == [16, 16, 8]
    folder = JobFolder("s3://photographs/out")
    assert {number: counts.images for number, counts in folder.finished().items()} == {0: 16, 1: 16, 2: 8}
    rows = [
        row
        for n in range(3)
        for row in parquet.read_table(s3.open(f"photographs/out/part-{n:07d}.parquet")).to_pylist()
    ]
    rows.sort(key=lambda row: row["key"])
    check_same(rows, expected(model, paths), lambda path: f"s3://photographs/{Path(path).relative_to(photographs)}")
    folder.clear()
    assert folder.finished() == {}


@pytest.mark.parametrize("kind", ["bytes", "struct", "address"])
def test_tables_have_the_same_answers(model, photographs, tmp_path, kind):
    paths = find_images(photographs)
    contents = [path.read_bytes() for path in paths]
    columns = {
        "bytes": {"key": list(map(str, paths)), "bytes": [*contents[:-1], None]},
        "struct": {"image": [{"bytes": c, "path": str(p)} for c, p in zip(contents, paths, strict=True)]},
        "address": {"id": list(map(str, paths)), "path": list(map(str, paths))},
    }[kind]
    path = str(tmp_path / "images.parquet")
    parquet.write_table(pa.table(columns), path, row_group_size=7)
    rows, _ = scored(model, tmp_path / "out", *table_files([path], {}))
    check_same(rows, expected(model, paths))


def test_rows_without_a_key_are_numbered(model, tmp_path):
    path = str(tmp_path / "t.parquet")
    parquet.write_table(pa.table({"bytes": [jpeg(n) for n in range(5)]}), path, row_group_size=2)
    rows, _ = scored(model, tmp_path / "out", *table_files([path], {}), part_size=2)
    assert [row["key"] for row in rows] == [f"t.parquet:{n}" for n in range(5)]


def test_the_files_of_a_model_can_be_sent(model, photographs, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows, _ = scored(pack_model(Path(model)), tmp_path / "out", listed([str(photographs)], tmp_path))
    check_same(rows, expected(model, find_images(photographs)))


def test_an_image_that_kills_costs_its_row():
    items = [Item("a", jpeg(0)), Item("killer", jpeg(1)), Item("b", jpeg(2))]
    framed = [found[0] for found in frame_apart(iter(items), KillingFramer(32, 32), False)]
    assert [one.image for one in framed] == ["a", "killer", "b"]
    assert [one.pixels is None for one in framed] == [False, True, False]
    assert "ends the process" in framed[1].error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("x.jpg: no such image file", "missing"),
        ("x.jpg: no face found; use a photograph", "no face"),
        ("x.jpg: 9 × 9 pixels is more than the 1 allowed", "too large"),
        ("x.jpg: not a readable image (truncated)", "unreadable"),
    ],
)
def test_errors_have_kinds(error, kind):
    assert error_kind(error) == kind
