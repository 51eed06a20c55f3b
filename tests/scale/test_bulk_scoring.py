"""Bulk jobs on a Ray of this machine: every image once, whoever dies; the smallest machine; one line for an error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scale_jobs import check_once, jpeg, workers_of
from uol.errors import CallError
from uol.scale import bulk_scoring
from uol.scale import ray_session as ray_session_module
from uol.scale.bulk_scoring import Request, Summary, score_on_ray
from uol.scale.job_folder import Counts, JobFolder
from uol.scale.ray_session import ray_session

pytest.importorskip("ray")
pytest.importorskip("pyarrow")

KEYS = [f"image-{n}" for n in range(600)]


def command(table, out, model, *options):
    return [sys.executable, "-m", "uol", "score", table, "--on", "ray", "--out", str(out), "-m", model, *options]


def wait_for(found, seconds=180.0):
    """Wait until a function finds something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.02)
    raise TimeoutError


@pytest.mark.slow
def test_every_image_once_after_a_worker_and_the_driver_were_killed(table, model, tmp_path):
    out = tmp_path / "out"
    call = command(table, out, model, "--part-size", "20", "--json")
    driver = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parts = lambda: len(list(out.glob("part-*.parquet")))  # noqa: E731
    wait_for(parts)
    before = workers_of(driver.pid)
    os.kill(before[0], signal.SIGKILL)
    wait_for(lambda: set(workers_of(driver.pid)) - set(before) or driver.poll() is not None)
    driver.kill()
    driver.wait()
    left = 30 - parts()
    ended = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert (summary["images"], summary["rows"], summary["errors"]) == (600, 600, {})
    assert 20 * (30 - left) <= summary["before"] < 600  # workers may finish a part after their driver has died
    check_once(out, KEYS)
    again = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert json.loads(again.stdout)["before"] == 600


@pytest.mark.slow
def test_one_core_is_enough(table, model, tmp_path):
    with ray_session(cpus=1) as cluster:
        assert cluster.cpus == 1
        summary = score_on_ray(Request([table], str(tmp_path / "out"), model, part_size=100))
        assert (summary.workers, summary.counts.images) == (1, 600)
        with pytest.raises(CallError, match="holds a job with another panel"):
            score_on_ray(Request([table], str(tmp_path / "out"), model, panel="all"))
        with pytest.raises(CallError, match="no GPU"):
            score_on_ray(Request([table], str(tmp_path / "other"), model, device="cuda"))
    check_once(tmp_path / "out", KEYS)


@pytest.mark.slow
def test_images_added_since_are_scored_and_nothing_twice(model, tmp_path, capsys):
    from ray._private.worker import print_to_stdstream

    folder, out, lines = tmp_path / "photographs", tmp_path / "out", []
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.jpg").write_bytes(jpeg(number))
    request = Request([str(folder)], str(out), model, part_size=2)
    with ray_session(cpus=1):
        assert score_on_ray(request).counts.images == 5
        (folder / "0a.jpg").write_bytes(jpeg(7))  # between the others
        (folder / "9.jpg").write_bytes(jpeg(8))
        assert score_on_ray(request, report=lines.append).counts.images == 7
        assert lines == ["2 images added since the job began", "5 of 7 images are scored already"]
        assert score_on_ray(request).before == 7
        # As of a node that is lost: `--json` prints on the same stream.
        print_to_stdstream({"lines": ["Raylet is terminated."], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    assert capsys.readouterr().out == ""
    check_once(out, [str(path) for path in folder.iterdir()])


def test_tables_added_since_are_further_parts_and_changed_ones_refused(model, tmp_path):
    from pyarrow import parquet, table

    def write(name, keys):
        (tmp_path / "tables").mkdir(exist_ok=True)
        parquet.write_table(table({"key": keys, "bytes": [b""] * len(keys)}), tmp_path / "tables" / name)

    def planned():
        request = Request([str(tmp_path / "tables")], str(tmp_path / "out"), model)
        plan = bulk_scoring._plan(request, JobFolder(request.out), (), lambda line: None)
        return [(part.number, Path(part.address).name, part.images) for part in plan.parts]

    (tmp_path / "out").mkdir()
    write("b.parquet", ["1", "2"])
    assert planned() == [(0, "b.parquet", 2)]
    write("a.parquet", ["3", "4", "5"])
    assert planned() == planned() == [(0, "b.parquet", 2), (1, "a.parquet", 3)]
    write("b.parquet", ["1", "2", "6"])
    with pytest.raises(CallError, match=r"b\.parquet: changed or gone since"):
        planned()


def test_a_folder_inside_the_source_is_refused(tmp_path):
    with pytest.raises(CallError, match="name a folder outside"):
        score_on_ray(Request([str(tmp_path)], str(tmp_path / "out"), "m"))
    (tmp_path / "file").write_text("")
    with pytest.raises(CallError, match="a file"):
        score_on_ray(Request(["x"], str(tmp_path / "file"), "m"))


def test_a_wrong_call_leaves_nothing_behind(model, photographs, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(CallError, match="this source has none"):
        score_on_ray(Request([str(photographs)], str(out), model, read={"image": "jpg"}))
    with pytest.raises(CallError, match="no such model"):
        score_on_ray(Request([str(photographs)], str(out), "no-such-model"))
    assert not out.exists()


def test_a_summary_has_speed_and_cost():
    summary = Summary(Counts(1500, 1500, {"not fetched": 2}), 500, 10.0, 3.0, 2)
    assert summary.images_per_second == 100
    assert summary.cost_per_million(3.6) == pytest.approx(10.0)
    assert summary.not_fetched == 2
    assert Summary(Counts(5, 5), 5, 0.0, 1.0, 0).images_per_second is None


def test_a_missing_extra_is_named(tmp_path):
    code = "import sys; sys.modules['ray'] = None; sys.argv[0] = 'uol'; from uol.cli import main; main()"
    call = [sys.executable, "-c", code, "score", "x.jpg", "--on", "ray", "--out", str(tmp_path / "out")]
    ended = subprocess.run(call, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr == "uol: --on ray needs ray: pip install 'uol[scale]'\n"
    assert not Path(tmp_path / "out").exists()


def test_a_cluster_that_asks_for_a_token_is_said_so():
    class AuthenticationError(Exception):
        pass

    error = ConnectionError("Failed to connect to Ray cluster at 10.0.0.1:6379")
    assert ray_session_module._reason(error) == "Failed to connect to Ray cluster at 10.0.0.1:6379"
    error.__context__ = AuthenticationError()
    assert "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in ray_session_module._reason(error)
