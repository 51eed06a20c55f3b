"""uol study as a researcher meets it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from uol.study import tables
from uol.study.folder import open_study
from uol.study.simulate import draw_values, simulate_answers
from uol.study.store import Store, database_url


@pytest.fixture
def uol(uol):
    """Run a `uol study` command: (exit code, stdout, stderr)."""
    return lambda *arguments: uol("study", *arguments)


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    rng = np.random.default_rng(0)
    for number in range(12):
        pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path / "photos"


def answer_all(folder, participants, seed=0):
    """Store the answers of simulated participants."""
    study = open_study(folder)
    values = draw_values(len(study.ids), 1.0, np.random.default_rng(seed))
    answers = simulate_answers(study, values, participants, seed)
    store = Store(database_url(folder)).claim()
    try:
        for session in dict.fromkeys(one.session for one in answers):
            own = [one for one in answers if one.session == session]
            data = {
                "participant": own[0].participant, "number": int(session[1:]) - 1, "token": session, "language": "en",
                "code": "C", "trials": [[one.trial, one.order, one.kind, list(one.images), one.of] for one in own],
            }  # fmt: skip
            store.submit(lambda c, s=session, d=data: tables.append(c, "session", s, d, tables.now())).result()
        for one in answers:
            store.save_answer(one).result()
    finally:
        store.close()
    return answers


@pytest.mark.parametrize("command", ["new", "serve", "status", "export", "simulate", "forget"])
def test_every_command_explains_itself_with_an_example(uol, command):
    code, out, _ = uol(command, "--help")
    assert code == 0
    assert f"uol study {command}" in out


def test_a_study_from_beginning_to_end(uol, photos, tmp_path):
    study, out = tmp_path / "study", tmp_path / "results"
    code, _, words = uol("new", photos, "--out", study, "--choice", "adaptive", "--similar", "--trials", "8")
    assert code == 0
    assert "12 images" in words
    code, printed, _ = uol("status", study, "--json")
    assert (code, json.loads(printed)["answers"]) == (0, 0)
    code, _, words = uol("export", study, "--out", out)
    assert code == 1
    assert "no answers yet" in words
    answers = answer_all(study, 6)
    code, printed, _ = uol("status", study, "--json")
    assert json.loads(printed)["answers"] == 48
    assert json.loads(printed)["width"] > 0
    code, printed, _ = uol("export", study, "--out", out, "--leave-out", "p0003", "--json")
    assert code == 0
    assert json.loads(printed)["left_out"] == ["p0003"]
    table = pd.read_csv(out / "answers.csv")
    assert len(table) == len(answers)
    people = pd.read_csv(out / "participants.csv").set_index("participant")
    assert people["left_out"].sum() == 1


def test_votes_and_ratings_on_one_scale(uol, photos, tmp_path):
    votes, ratings = tmp_path / "votes", tmp_path / "ratings"
    uol("new", photos, "--out", votes, "--trials", "20")
    uol("new", photos, "--out", ratings, "--kind", "ratings")
    answer_all(votes, 4)
    answer_all(ratings, 8)
    code, printed, _ = uol("export", votes, "--ratings", ratings, "--out", tmp_path / "out", "--json")
    assert code == 0
    widths = json.loads(printed)["widths"]
    assert widths["with_ratings"] < widths["thurstone_5"]
    code, _, words = uol("export", ratings, "--ratings", votes, "--out", tmp_path / "other")
    assert (code, "kind ratings" in words) == (2, True)


def test_planning(uol, photos, tmp_path):
    uol("new", photos, "--out", tmp_path / "study", "--trials", "20")
    arguments = ("simulate", tmp_path / "study", "-n", "4,12", "--repetitions", "2", "--json")
    code, printed, _ = uol(*arguments, "--out", tmp_path / "run")
    rows = json.loads(printed)
    assert code == 0
    assert [row["participants"] for row in rows] == [4, 12]
    assert rows[1]["width"] < rows[0]["width"]
    assert len(pd.read_csv(tmp_path / "run" / "participants.csv")) == 12
    assert uol(*arguments)[1] == printed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("new", "PHOTOS", "--out", "STUDY", "--kind", "ratings", "--similar"), "for --kind pairs"),
        (("new", "PHOTOS", "--out", "PHOTOS"), "exists already"),
        (("new", "NONE", "--out", "STUDY"), "no such folder"),
        (("new", "PHOTOS", "--out", "STUDY", "--choice", "all", "--trials", "3"), "choice all shows every pair"),
        (("new", "PHOTOS", "--out", "STUDY", "--kind", "ratings", "--scale", "5", "5"), "lowest rating first"),
        (("status", "PHOTOS"), "no study.yaml"),
        (("simulate", "PHOTOS"), "no study.yaml"),
        (("export", "NONE", "--out", "STUDY"), "no such folder"),
    ],
)
def test_wrong_calls_are_one_line(uol, photos, tmp_path, arguments, problem):
    places = {"PHOTOS": photos, "STUDY": tmp_path / "study", "NONE": tmp_path / "none"}
    code, out, words = uol(*(places.get(word, word) for word in arguments))
    assert (code, out) == (2, "")
    assert problem in words
    assert words.count("\n") == 1
    assert "/." not in words  # no name of a temporary folder
    assert not (tmp_path / "study").exists()


def test_wrong_numbers_of_participants(uol, photos, tmp_path):
    uol("new", photos, "--out", tmp_path / "study")
    for number in ("ten", "0", "5,,6"):
        code, _, words = uol("simulate", tmp_path / "study", "-n", number)
        assert (code, "--participants" in words) == (2, True)
    code, _, words = uol("simulate", tmp_path / "study", "-n", "5,100000000")
    assert (code, "100000000 participants: too many to simulate; give at most " in words) == (2, True)
    assert words.count("\n") == 1
    for option, number in (("--ties", "inf"), ("--spread", "inf")):
        code, _, words = uol("simulate", tmp_path / "study", option, number)
        assert (code, words) == (2, f"uol: {option} {number}: give a finite number\n")
    answer_all(tmp_path / "study", 1)
    code, _, words = uol("export", tmp_path / "study", "--out", tmp_path / "out", "--leave-out", "nobody")
    assert (code, "no such participant" in words) == (2, True)
    code, _, words = uol("export", tmp_path / "study", "--out", tmp_path / "out", "--leave-out", "p0001")
    assert (code, "nobody is left" in words) == (2, True)


@pytest.mark.parametrize("kind", ["pairs", "ratings"])
def test_a_study_is_a_data_set(uol, photos, tmp_path, kind):
    from uol.cli.output import load
    from uol.datasets.choosing import DataChoice

    uol("new", photos, "--out", tmp_path / "study", "--kind", kind)
    answer_all(tmp_path / "study", 3)
    rated = load(DataChoice(str(tmp_path / "study")))
    assert rated.name == "study"
    assert len(rated) == 12
    assert rated.rated


def test_a_text_that_is_to_be_replaced_is_named(uol, photos, tmp_path):
    uol("new", photos, "--out", tmp_path / "study")
    assert "consent still says '(Replace this" in uol("status", tmp_path / "study")[2]
    settings = tmp_path / "study" / "study.yaml"
    settings.write_text(settings.read_text().replace("(Replace this by the text", "(This is the text"))
    assert "consent" not in uol("status", tmp_path / "study")[2]
