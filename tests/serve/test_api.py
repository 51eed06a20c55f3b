"""The API gives what the command line prints, and refuses what it must in one line."""

from __future__ import annotations

import base64
import csv
import io
import json
import time

import pytest
from PIL import Image

from hostile_uploads import hostile_files
from uol.scoring.released import DEFAULT, open_model
from uol.serve.api import Service
from uol.serve.limits import Limits


def files(*contents, names=None):
    names = names or [f"{number}.png" for number in range(len(contents))]
    return [("images", (name, content, "image/png")) for name, content in zip(names, contents, strict=True)]


def as_json(*contents, **more):
    images = [{"name": f"{number}.png", "data": base64.b64encode(c).decode()} for number, c in enumerate(contents)]
    return {"images": images, **more}


def refused(answer, status):
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert list(problem) == ["error"]
    assert "\n" not in problem["error"]
    return problem["error"]


# -------------------------------------------------------------------- answers


@pytest.fixture(scope="module")
def printed(uol_in, face_files):
    """What the command line prints in the folder of the faces."""
    return lambda *arguments: json.loads(uol_in(face_files, *arguments, "--json"))


@pytest.fixture(scope="module")
def uol_in():
    """Run a command in a folder: its stdout."""
    import os
    import subprocess
    import sys

    def run(folder, *arguments):
        path = os.pathsep.join(filter(None, [os.path.abspath("src"), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-c", "from uol.cli import main\nmain()", *arguments],
            cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout

    return run


@pytest.mark.slow
def test_scores_equal_those_of_the_command_line(asked, faces, couple, face_files, printed):
    (face_files / "two.png").write_bytes(couple)
    (face_files / "words.png").write_bytes(b"no image")
    names = ["0.png", "1.png", "2.png", "two.png", "words.png"]
    contents = [*faces, couple, b"no image"]
    answer = asked.post("/v1/score", files=files(*contents, names=names))
    assert answer.status_code == 200
    assert answer.json() == printed("score", *names)
    answer = asked.post("/v1/score", files=files(*contents, names=names), data={"all_faces": "true"})
    rows = answer.json()
    assert rows == printed("score", "--all-faces", *names)
    assert [row["image"] for row in rows] == ["0.png", "1.png", "2.png", "two.png", "two.png", "words.png"]


@pytest.mark.slow
def test_ranks_and_comparisons_equal_those_of_the_command_line(asked, faces, printed):
    names = ["0.png", "1.png", "2.png"]
    assert asked.post("/v1/rank", files=files(*faces)).json() == printed("rank", *names)
    assert asked.post("/v1/compare", files=files(*faces[:2])).json() == printed("compare", *names[:2])


@pytest.mark.slow
def test_every_panel_of_a_model_is_asked_as_by_the_command_line(asked_type, two_panels, faces, printed):
    model = ("--model", str(two_panels))
    with asked_type(Service(str(two_panels), Limits())) as several:
        panels = several.get("/v1/models").json()["models"][0]["panels"]
        first = open_model(DEFAULT).panel
        assert [(panel["name"], panel["high"]) for panel in panels] == [(first.name, first.high), ("ten", 10)]
        sent = {"files": files(*faces[:2])}
        for panel in ("ten", "all"):
            rows = several.post("/v1/score", **sent, data={"panel": panel}).json()
            for row, expected in zip(rows, printed("score", "0.png", "1.png", "--panel", panel, *model), strict=True):
                assert row["value"] == pytest.approx(expected["value"], abs=1e-6)  # numpy, in other batches
                assert row.keys() == expected.keys()
                if panel == "all":
                    for name in (first.name, "ten"):
                        assert row["panels"][name] == pytest.approx(expected["panels"][name], abs=1e-6)
        table = several.post("/v1/score", **sent, data={"panel": "all"}, headers={"Accept": "text/csv"}).text
        assert f"value_{first.name}" in table
        assert "value_ten" in table
        body = {"images": ["~~~"], "panel": "all"}
        (row,) = several.post("/v1/score", json=body).json()
        assert row["panels"]["ten"] == {"value": None, "low": None, "high": None, "dispersion": None}
        assert several.post("/v1/compare", **sent, data={"panel": "ten"}).status_code == 200
        assert several.post("/v1/explain", files=files(faces[0]), data={"panel": "ten"}).status_code == 200
        for path in ("/v1/rank", "/v1/compare"):
            assert "no such panel" in refused(several.post(path, **sent, data={"panel": "all"}), 422)


def test_json_and_forms_give_the_same(asked, faces):
    form = asked.post("/v1/score", files=files(*faces)).json()
    assert asked.post("/v1/score", json=as_json(*faces)).json() == form
    bare = {"images": [f"data:image/png;base64,{base64.b64encode(faces[0]).decode()}"], "all_faces": False}
    (row,) = asked.post("/v1/score", json=bare).json()
    assert row == {**form[0], "image": "image 1"}


def test_csv_on_request_with_names_that_are_no_formulas(asked, faces):
    answer = asked.post("/v1/score", files=files(faces[0], names=["=1+1.png"]), headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert row["image"] == "'=1+1.png"
    assert 1 < float(row["low"]) < float(row["value"])


def test_an_explanation_is_a_picture_of_the_face_at_a_place(asked, couple):
    rows = asked.post("/v1/score", files=files(couple), data={"all_faces": "true"}).json()
    pictures = [
        asked.post("/v1/explain", files=files(couple), data={"box": json.dumps(row["face"]["box"])}).content
        for row in rows
    ]
    assert len(set(pictures)) == 2
    with Image.open(io.BytesIO(pictures[0])) as picture:
        assert picture.width > 500
    boxed = as_json(couple, box=rows[1]["face"]["box"])
    assert asked.post("/v1/explain", json=boxed).content == pictures[1]


def test_a_box_without_a_face_is_not_explained(asked, couple):
    for box in ([900, 900, 5, 5], [0, 0, 0, 0], [-1, -1, -1, -1]):
        error = refused(asked.post("/v1/explain", json=as_json(couple, box=box)), 422)
        assert error.startswith("0.png: box: no face there")


def test_an_error_for_each_image_that_has_one(asked, faces):
    huge = b"\xff" * 2_000_001
    answer = asked.post("/v1/score", files=files(faces[0], huge, b"", faces[1]))
    assert [row["error"] for row in answer.json()] == [
        None, "1.png: more than the 2 MB that an image may have",
        "2.png: not a readable image (of no known format)", None,
    ]  # fmt: skip
    body = {"images": [{"name": "a", "data": "~~~"}, base64.b64encode(faces[0]).decode()]}
    first, second = asked.post("/v1/score", json=body).json()
    assert (first["error"], first["value"], second["error"]) == ("a: not valid base64", None, None)


def test_too_many_pixels_are_refused_before_they_are_decoded(asked):
    content = io.BytesIO()
    Image.new("1", (8000, 8000)).save(content, "PNG")
    (row,) = asked.post("/v1/score", files=files(content.getvalue())).json()
    assert row["error"] == "0.png: 8000 × 8000 pixels is more than the 50,000,000 allowed"


def test_formats_that_run_other_programs_are_refused(asked):
    (row,) = asked.post("/v1/score", files=files(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")).json()
    assert "of no known format" in row["error"]


def test_names_from_strangers_stay_on_one_line(asked, faces):
    data = base64.b64encode(faces[0]).decode()
    content = json.dumps({"images": [{"name": "a\n\u2028\x00../../etc/passwd", "data": data}]}).encode()
    answer = asked.post("/v1/score", content=content, headers={"Content-Type": "application/json"})
    assert answer.json()[0]["image"] == "a���../../etc/passwd"


# -------------------------------------------------------------------- facts


def test_models_with_their_panels_references_and_weak_groups(refusing):
    answer = refusing.get("/v1/models").json()
    (model,) = answer["models"]
    panels = {panel["name"]: panel for panel in model["panels"]}
    scales = {name: (panel["low"], panel["high"], panel["level"]) for name, panel in panels.items()}
    assert model["panels"][0]["name"] == "mebeauty"  # which answers without a name
    assert scales == {"mebeauty": (1, 10, 0.95), "omi": (0, 100, 0.95), "scut-fbp5500": (1, 5, 0.95)}
    assert "360 raters" in panels["mebeauty"]["raters"]
    assert "sixty raters" in panels["scut-fbp5500"]["raters"]
    assert {name: sum(panel["references"]["counts"]) for name, panel in panels.items()} == {
        "mebeauty": 294, "omi": 223, "scut-fbp5500": 337,
    }  # fmt: skip
    for panel in panels.values():
        assert len(panel["references"]["edges"]) == len(panel["references"]["counts"]) + 1
    assert model["weak"][0]["heading"] == "How well it agrees with the panel of mebeauty"
    assert model["weak"][0]["groups"][0] == {"group": "male, asian", "images": 26, "pc": 0.2945, "bias": 0.1104}
    assert all(one["heading"].startswith("How well it agrees") for one in model["weak"])  # not of other networks
    assert any("batch norms" in limit for limit in model["limits"])


def test_limits_are_whole_numbers_and_say_how_long_an_image_takes(asked, faces):
    asked.post("/v1/score", files=files(*faces))
    limits = asked.get("/v1/models").json()["limits"]
    whole = {"images": 8, "image_bytes": 2_000_000, "body_bytes": 4_000_000, "pixels": 50_000_000}
    assert {name: limits[name] for name in whole} == whole
    assert all(isinstance(limits[name], int) for name in whole)
    assert limits["seconds"] == 60
    assert 0 < limits["seconds_per_image"] < 60


def test_health_and_figures(asked, faces):
    assert asked.get("/healthz").json() == {"status": "ok"}
    asked.post("/v1/score", files=files(faces[0]))
    text = asked.get("/metrics").text
    assert 'uol_requests_total{route="/v1/score",status="200"}' in text
    assert 'uol_images_total{outcome="scored"}' in text
    assert "uol_model_loaded 1.0" in text


def test_the_description_names_both_ways_to_send_images(refusing):
    described = refusing.get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/v1/score", "/v1/rank", "/v1/compare", "/v1/explain", "/v1/models", "/healthz", "/readyz", "/metrics",
    }  # fmt: skip
    content = described["paths"]["/v1/score"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "multipart/form-data"}


# -------------------------------------------------------------------- refusals


def test_panels_and_intervals_that_the_model_has_not(asked, faces):
    score, known = {"files": files(faces[0])}, [panel.name for panel in open_model(DEFAULT).panels]
    for name in known:
        assert asked.post("/v1/score", **score, data={"panel": name, "interval": "panel"}).status_code == 200
    error = refused(asked.post("/v1/score", **score, data={"panel": "nobody"}), 422)
    assert error == f"panel: this model has no such panel; it has: {', '.join(known)}"
    (near,), (wide,) = (
        asked.post("/v1/score", **score, data={"interval": interval}).json() for interval in ("panel", "new-panel")
    )
    assert wide["value"] == pytest.approx(near["value"], abs=1e-4)
    assert wide["high"] - wide["low"] > near["high"] - near["low"]
    assert "interval" in refused(asked.post("/v1/score", **score, data={"interval": "wide"}), 422)


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"images": []}', "application/json", 422),
        (b'{"images": ["aaaa"], "colour": 1}', "application/json", 422),
        (b'{"images": 7}', "application/json", 422),
        (b"hello", "text/plain", 415),
        (b"hello", "multipart/form-data", 400),
        (b"hello", "multipart/form-data; boundary=x", 400),
        (b"--x\r\n\r\n--x--\r\n", "multipart/form-data; boundary=x", 400),
        (b"--x--\r\n", "multipart/form-data; boundary=x", 422),
    ],
)
def test_bodies_that_cannot_be_read(refusing, content, kind, status):
    refused(refusing.post("/v1/score", content=content, headers={"Content-Type": kind}), status)


def test_parameters_of_an_address_are_refused(refusing, faces):
    error = refused(refusing.post("/v1/score?panel=nobody", files=files(faces[0])), 400)
    assert error == "this address reads no parameters after `?`: send them in the body"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "images: is missing"),
        ({"images": 7}, "images: must be a list, not 7"),
        ({"images": []}, "images: give at least 1"),
        ({"images": [{}]}, "images.0.data: is missing"),
        ({"images": [{"data": 7}]}, "images.0.data: must be a text, not 7"),
        ({"images": ["aaaa"], "colour": 1}, "colour: no such field"),
        ({"images": ["aaaa"], "all_faces": "perhaps"}, "all_faces: must be true or false, not 'perhaps'"),
        ({"images": ["aaaa"], "interval": "wide"}, "interval: must be 'panel' or 'new-panel', not 'wide'"),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(refusing, body, error):
    assert refused(refusing.post("/v1/score", json=body), 422) == error


def test_fields_that_do_not_belong(refusing, faces):
    assert "colour" in refused(refusing.post("/v1/score", files=files(faces[0]), data={"colour": "red"}), 422)
    assert "images" in refused(refusing.post("/v1/score", data={"images": "text"}, files={"x": b""}), 422)
    assert "photo" in refused(refusing.post("/v1/score", files={"photo": faces[0]}), 422)
    refused(refusing.post("/v1/compare", files=files(faces[0])), 422)
    refused(refusing.post("/v1/explain", files=files(*faces)), 422)
    refused(refusing.post("/v1/explain", files=files(faces[0]), data={"box": "1 2 3"}), 422)


def test_an_image_at_fault_in_a_comparison_is_named(asked, faces):
    assert refused(asked.post("/v1/compare", files=files(faces[0], b"x")), 422).startswith("1.png: not a readable")
    body = {"images": ["~~~", base64.b64encode(faces[0]).decode()]}
    assert refused(asked.post("/v1/compare", json=body), 422) == "image 1: not valid base64"


def test_too_many_images_and_bytes(refusing, faces):
    assert "8 images" in refused(refusing.post("/v1/score", files=files(*[faces[0]] * 9)), 413)
    assert "8 images" in refused(refusing.post("/v1/score", json={"images": ["aaaa"] * 9}), 413)
    assert "4 MB" in refused(refusing.post("/v1/score", files=files(b"x" * 4_100_000)), 413)

    async def unannounced():
        for _ in range(5):
            yield b"x" * 1_000_000

    headers = {"Content-Type": "application/json"}
    assert "4 MB" in refused(refusing.post("/v1/score", content=unannounced(), headers=headers), 413)


def test_addresses_and_methods_that_are_not_there(refusing):
    for path in (
        "/nothing",
        "/page/../api.py",
        "/page/..%2fapi.py",
        "/samples/99.png",
        "/docs/%2e%2e/x",
        "/page/api.py",
    ):
        assert refused(refusing.get(path), 404) == "no such address; /docs lists them"
    refused(refusing.get("/v1/score"), 405)


def test_answers_are_kept_from_other_sites(asked, faces):
    answer = asked.get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "set-cookie" not in answer.headers
    answer = asked.post("/v1/score", files=files(faces[0]), headers={"Origin": "http://elsewhere"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["cache-control"] == "no-store"
    refused(asked.post("/v1/score", files=files(faces[0]), headers={"Sec-Fetch-Site": "cross-site"}), 403)
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9"):
        refused(asked.post("/v1/score", files=files(faces[0]), headers={"Origin": origin}), 403)
    refused(asked.post("/v1/score", files=files(faces[0]), headers={"Sec-Fetch-Site": "same-site"}), 403)


def test_the_log_has_no_names(asked, faces):
    asked.lines.clear()
    asked.post("/v1/score", files=files(faces[0], names=["secret.png"]))
    asked.get("/private/secret.png?who=secret")
    first, second = asked.lines
    assert {key: first[key] for key in ("method", "route", "status", "images")} == {
        "method": "POST", "route": "/v1/score", "status": 200, "images": 1,
    }  # fmt: skip
    assert (second["route"], second["status"]) == ("other", 404)
    assert "secret" not in json.dumps(asked.lines)


def test_a_token_is_required_of_all_but_the_page_and_health(asked_type, faces):
    service = Service(DEFAULT, Limits())
    with asked_type(service, start=False, token="key", hosts=frozenset({"localhost"})) as guarded:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic key"}):
            for path in ("/v1/models", "/metrics", "/nothing"):
                answer = guarded.get(path, headers=headers)
                wrong = headers.get("Authorization") == "Bearer wrong"
                start = "this token is wrong" if wrong else "a token is required"
                assert refused(answer, 401).startswith(f"{start}: send the one of `uol serve` as Authorization: Bearer")
                assert answer.headers["www-authenticate"] == "Bearer"
            refused(guarded.post("/v1/score", files=files(faces[0]), headers=headers), 401)
        assert guarded.get("/v1/models", headers={"Authorization": "Bearer key"}).status_code == 200
        for path in ("/", "/healthz", "/docs", "/openapi.json", "/page/style.css", "/samples/face-1.png"):
            assert guarded.get(path).status_code == 200
        refused(guarded.get("/", headers={"Host": "evil.example"}), 421)
        assert guarded.app.openapi()["security"] == [{"token": []}]


# -------------------------------------------------------------------- hostile files


@pytest.mark.slow
def test_hostile_files_cost_nobody_else_anything(asked, faces):
    sent = list(hostile_files())
    assert len(sent) >= 300
    expected, pid = asked.post("/v1/score", files=files(faces[0])).json(), asked.service.engine.pid
    memory = []
    for start in range(0, len(sent), 8):
        names, contents = zip(*sent[start : start + 8], strict=True)
        began = time.monotonic()
        answer = asked.post("/v1/score", files=files(*contents, names=names))
        assert time.monotonic() - began < 60, names
        assert answer.status_code == 200, (names, answer.text)
        assert len(answer.json()) == len(names)
        assert all(row["error"] or row["value"] for row in answer.json())
        memory.append(resident(pid))
    assert asked.post("/v1/score", files=files(faces[0])).json() == expected
    assert asked.service.engine.pid == pid, "the process that scores has crashed"
    assert memory[-1] < memory[len(memory) // 2] + 200_000_000


def resident(pid):
    """Bytes of memory that a process has."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096
