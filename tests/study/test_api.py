"""The routes: who may ask what, one answer for each trial, and the policies for people who come back."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from served_study import ADMIN, Asked, answer_body, make_study
from uol.errors import CallError, UolError
from uol.study.answers import Trial
from uol.study.server import check_access
from uol.study.sessions import EntryError, Sessions, later_images


@pytest.fixture
def open_study(tmp_path):
    """Serve a study with some settings, without a network."""
    opened = []

    def start(folder="study", **settings):
        path = tmp_path / folder
        opened.append(Asked(path if path.exists() else make_study(path, **settings)))
        return opened[-1]

    yield start
    for one in opened:
        one.__exit__()


# -------------------------------------------------------------------- a session


def test_a_whole_session(open_study):
    asked = open_study(practice=1, repeats=1, break_every=3, completion_code="C0DE", return_address="https://a.example")
    shown = asked.get("/v1/study?language=de").json()
    assert (shown["kind"], shown["language"], shown["full"]) == ("pairs", "en", None)
    token, state = asked.enter(PROLIFIC_PID="5f9b", STUDY_ID="s", other="x")
    assert (state["done"], state["total"], state["practice_total"]) == (0, 7, 1)
    kinds, rests = [], []
    while state["stage"] == "trial":
        kinds.append(state["trial"]["trial"].split("-")[0])
        assert state["trial"]["question"] == "Which is lighter?"
        state = asked.answer(token, state)
        rests += [state["done"]] if state["rest"] else []
    assert (kinds[0], sorted(kinds)[1:]) == ("practice", ["repeat", *["trial"] * 6])
    assert rests == [3, 6]
    assert (state["code"], state["return_address"]) == ("C0DE", "https://a.example")
    assert state["trial"] is None
    answers = asked.store.answers()
    assert [one.order for one in answers] == list(range(1, 9))
    assert {one.participant for one in answers} == {"p0001"}
    assert asked.store.sessions()[0]["state"] == "finished"
    assert asked.store.personal() == {"p0001": {"PROLIFIC_PID": "5f9b", "STUDY_ID": "s"}}


def test_an_answer_counts_once_and_the_first_stays(open_study):
    asked = open_study()
    token, state = asked.enter()
    body = answer_body(state)
    first = asked.post("/v1/answers", token, json=body).json()
    again = asked.post("/v1/answers", token, json={**body, "answer": state["trial"]["images"][1]}).json()
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["state"] == first["state"]
    (saved,) = asked.store.answers()
    assert saved.answer == saved.images[0]


def test_other_trials_and_impossible_answers_are_refused(open_study):
    asked = open_study()
    token, state = asked.enter()
    body = answer_body(state)
    later = asked.post("/v1/answers", token, json={**body, "trial": "trial-2"})
    assert (later.status_code, later.json()["reason"]) == (409, "other-trial")
    for wrong in ("similar", 1, "image 1", "", state["ahead"][0], True, 1.5, None, [], "x" * 10_000):
        answer = asked.post("/v1/answers", token, json={**body, "answer": wrong})
        assert answer.status_code == 422, wrong
    for wrong in ({**body, "response_ms": -1}, {**body, "more": 1}, {}, [], {**body, "response_ms": 10**30}):
        assert asked.post("/v1/answers", token, json=wrong).status_code == 422
    asked_with = {"headers": {"Content-Type": "application/json"}, "content": b"{"}
    assert asked.post("/v1/answers", token, **asked_with).status_code == 400
    assert asked.post("/v1/answers", token, content=b"{}").status_code == 415
    huge = {"headers": {"Content-Type": "application/json"}, "content": b" " * 20_000}
    assert asked.post("/v1/answers", token, **huge).status_code == 413
    assert asked.store.answers() == []


def test_nothing_is_stored_before_somebody_agrees(open_study):
    asked = open_study()
    for wrong in ({"agreed": False}, {}, {"agreed": 1}):
        assert asked.post("/v1/sessions", json=wrong).status_code == 422
    assert asked.store.sessions() == []


def test_ratings_take_levels_of_the_scale(open_study):
    asked = open_study(kind="ratings", scale={"low": 1, "high": 5, "labels": {1: "dark"}}, question="How light?")
    assert asked.get("/v1/study").json()["scale"] == {"low": 1, "high": 5, "labels": {"1": "dark"}}
    token, state = asked.enter()
    for wrong in (0, 6, "3", state["trial"]["images"][0]):
        assert asked.post("/v1/answers", token, json={**answer_body(state), "answer": wrong}).status_code == 422
    asked.answer(token, state)
    assert asked.store.answers()[0].answer == 2


def test_checks_are_judged_and_ask_their_question(open_study):
    check = {"images": ["image 0", "image 5"], "accepted": ["image 5"], "question": "Choose the right one."}
    asked = open_study(checks=[check], similar=True, labels={"similar": "alike"})
    token, state = asked.enter()
    questions = {}
    while state["stage"] == "trial":
        questions[state["trial"]["trial"]] = state["trial"]["question"]
        state = asked.answer(token, state)
    assert questions.pop("check-1") == "Choose the right one."
    assert set(questions.values()) == {"Which is lighter?"}
    assert [one.correct for one in asked.store.answers() if one.kind == "check"] == [False]


def test_languages(open_study):
    both = {"en": "Which is lighter?", "de-AT": "Welches ist heller?"}
    asked = open_study(languages=["en", "de-AT"], question=both)
    assert asked.get("/v1/study?language=de").json()["question"] == "Welches ist heller?"
    body = {"agreed": True, "language": "de-DE", "personal": {}}
    state = asked.post("/v1/sessions", json=body).json()["state"]
    assert (state["language"], state["trial"]["question"]) == ("de-AT", "Welches ist heller?")


# -------------------------------------------------------------------- coming back


def halfway(asked, **personal):
    token, state = asked.enter(**personal)
    for _ in range(3):
        state = asked.answer(token, state)
    return token, state


def test_somebody_resumes_after_a_reload_and_on_another_device(open_study):
    asked = open_study(resume="resume")
    token, state = halfway(asked, PROLIFIC_PID="one")
    back = asked.post("/v1/session/return", token).json()
    assert (back["token"], back["state"]) == (token, state)
    elsewhere, there = asked.enter(PROLIFIC_PID="one")
    assert there == state
    assert elsewhere != token
    assert asked.get("/v1/session", token).status_code == 401
    asked.answer(elsewhere, there)
    assert len(asked.store.sessions()) == 1


def test_somebody_begins_again(open_study):
    asked = open_study(resume="restart")
    token, _ = halfway(asked, PROLIFIC_PID="one")
    back = asked.post("/v1/session/return", token).json()
    assert (back["state"]["done"], back["state"]["participant"]) == (0, "p0001")
    assert back["token"] != token
    assert asked.post("/v1/answers", token, json=answer_body(back["state"])).status_code in (401, 409)
    lost = asked.post("/v1/session/return", token).json()  # as if the first answer had not arrived
    assert lost["state"]["done"] == 0
    assert [one["state"] for one in asked.store.sessions()] == ["closed", "open"]
    assert len(asked.store.answers()) == 3


def test_somebody_is_refused(open_study):
    asked = open_study(resume="refuse")
    token, state = halfway(asked, PROLIFIC_PID="one")
    back = asked.post("/v1/session/return", token)
    assert (back.status_code, back.json()["reason"]) == (403, "refused")
    again = asked.post("/v1/sessions", json={"agreed": True, "personal": {"PROLIFIC_PID": "one"}})
    assert (again.status_code, again.json()["reason"]) == (403, "refused")
    while state["stage"] == "trial":  # the page that is open goes on
        state = asked.answer(token, state)
    assert asked.post("/v1/session/return", token).json()["state"]["code"] == state["code"]


@pytest.mark.parametrize("resume", ["resume", "restart", "refuse"])
@pytest.mark.parametrize("personal", [{}, {"PROLIFIC_PID": "one"}], ids=["unnamed", "named"])
def test_a_lost_reply_to_entering_locks_nobody_out(open_study, resume, personal):
    asked = open_study(resume=resume, stopping={"participants": 1})
    body = {"agreed": True, "language": "en", "personal": personal, "token": "a" * 48}
    lost = asked.post("/v1/sessions", json=body)
    asked.store.close()
    asked = open_study()  # what is lost with a service that was killed is the reply alone
    again = asked.post("/v1/sessions", json=body)
    assert (again.status_code, again.json()) == (200, lost.json())
    assert again.json()["token"] == "a" * 48
    assert len(asked.store.sessions()) == 1
    asked.answer("a" * 48, again.json()["state"])
    later = asked.post("/v1/sessions", json=body)
    assert later.status_code == (403 if resume == "refuse" else 200)
    assert len(asked.store.sessions()) == (2 if resume == "restart" else 1)


def test_another_browser_does_not_enter_again(open_study):
    asked = open_study(resume="refuse")
    body = {"agreed": True, "personal": {"PROLIFIC_PID": "one"}, "token": "a" * 48}
    assert asked.post("/v1/sessions", json=body).status_code == 200
    assert asked.post("/v1/sessions", json={**body, "token": "b" * 48}).json()["reason"] == "refused"
    for short in ("", "a" * 31, "a" * 65, "a" * 40 + " "):
        assert asked.post("/v1/sessions", json={**body, "token": short}).status_code == 422


def test_another_device_goes_on_with_the_token_that_it_made(open_study):
    asked = open_study()
    token, state = halfway(asked, PROLIFIC_PID="one")
    body = {"agreed": True, "personal": {"PROLIFIC_PID": "one"}, "token": "b" * 48}
    assert asked.post("/v1/sessions", json=body).json() == {"token": "b" * 48, "state": state}
    assert asked.post("/v1/sessions", json=body).json() == {"token": "b" * 48, "state": state}
    assert asked.get("/v1/session", token).status_code == 401


def test_a_restarted_service_goes_on(open_study):
    asked = open_study()
    token, state = halfway(asked)
    asked.store.close()
    later = open_study()
    assert later.get("/v1/session", token).json() == state
    state = later.answer(token, state)
    assert state["done"] == 4
    _, other = later.enter()
    assert other["participant"] == "p0002"


def test_withdrawing_ends_a_session(open_study):
    asked = open_study()
    token, state = halfway(asked)
    assert asked.post("/v1/session/withdraw", token).status_code == 200
    assert asked.post("/v1/answers", token, json=answer_body(state)).json()["reason"] == "closed"
    assert asked.post("/v1/session/return", token).json()["reason"] == "closed"
    assert asked.store.sessions()[0]["state"] == "closed"
    left = asked.get("/v1/session", token).json()
    assert (left["stage"], left["trial"], left["ahead"], left["rest"]) == ("closed", None, [], False)
    assert asked.post("/v1/session/withdraw", token).status_code == 200


def test_enough_answers_or_participants_let_nobody_else_in(open_study):
    asked = open_study(stopping={"participants": 1})
    token, state = halfway(asked)
    full = asked.post("/v1/sessions", json={"agreed": True})
    assert (full.status_code, full.json()["reason"]) == (403, "full")
    assert asked.get("/v1/study").json()["full"]
    while state["stage"] == "trial":
        state = asked.answer(token, state)
    by_answers = open_study("other", stopping={"answers": 3})
    halfway(by_answers)
    assert by_answers.post("/v1/sessions", json={"agreed": True}).status_code == 403


def test_status_and_the_entry_count_the_same_participants(open_study):
    asked = open_study(stopping={"participants": 2})
    halfway(asked)
    left, _ = halfway(asked)
    asked.post("/v1/session/withdraw", left)
    shown = asked.get("/v1/admin/live", ADMIN).json()["stopping"][0]["now"]
    assert (asked.sessions.taking_part(), asked.store.taking_part(), shown) == (1, 1, 1)
    assert asked.get("/v1/study").json()["full"] is None
    asked.enter()  # who has begun takes a place, before the first answer too
    assert asked.get("/v1/study").json()["full"]
    asked.store.close()
    later = open_study()  # people who were answering still are
    assert (later.sessions.taking_part(), later.store.taking_part()) == (2, 2)
    assert later.get("/v1/study").json()["full"]


def test_an_id_is_one_participant_and_the_last_place_is_taken_once(open_study):
    asked = open_study(stopping={"participants": 2})
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: asked.sessions.enter("en", {"PROLIFIC_PID": "one"}), range(10)))
    assert len(asked.store.sessions()) == 1

    def enter(_):
        with contextlib.suppress(EntryError):
            asked.sessions.enter("en", {})

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(enter, range(10)))
    assert len(asked.store.sessions()) == 2


def test_a_study_whose_images_are_gone_is_not_opened(open_study):
    asked = open_study()
    halfway(asked)
    shown = next(iter(asked.store.trials()))[1].images[0]
    changed = replace(asked.study, files={name: file for name, file in asked.study.files.items() if name != shown})
    with pytest.raises(UolError, match="which this study does not have"):
        Sessions(changed, asked.store)


# -------------------------------------------------------------------- who may ask what


def test_a_participants_token_opens_one_session_and_its_images(open_study):
    asked = open_study(images=12, trials=2)
    token, state = asked.enter()
    other, _ = asked.enter()
    picture = asked.get(f"/v1/images/{state['trial']['images'][0]}", token)
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert "secret" not in str(picture.headers)
    mine = {name for one in asked.sessions.all()[0].trials for name in one.images}
    foreign = next(asked.sessions.key(name) for name in asked.study.ids if name not in mine)
    assert asked.get(f"/v1/images/{foreign}", token).status_code == 404
    assert asked.get(f"/v1/admin/images/{foreign}", ADMIN).status_code == 200
    for path in ("/v1/admin/live", "/v1/admin/answers.csv", f"/v1/admin/images/{foreign}", "/metrics"):
        assert asked.get(path, token).status_code == 401
        assert asked.get(path).status_code == 401
        assert asked.get(path, other).status_code == 401
    assert asked.post("/v1/admin/forget", token, json={"participant": "p0002"}).status_code == 401
    for wrong in (None, "", "x" * 32, ADMIN, token[:-1], token + "x"):
        assert asked.get("/v1/session", wrong).status_code == 401
        assert asked.post("/v1/session/return", wrong).status_code == 401
        assert asked.post("/v1/session/withdraw", wrong).status_code == 401
        assert asked.post("/v1/answers", wrong, json=answer_body(state)).status_code == 401
        assert asked.get(f"/v1/images/{state['trial']['images'][0]}", wrong).status_code == 401
    assert token not in json.dumps(asked.lines)


def test_names_of_files_and_images_are_not_shown_to_participants(open_study):
    asked = open_study()
    _, state = asked.enter()
    told = json.dumps([state, asked.get("/v1/study").json()])
    assert "image 0" not in told
    assert "secret" not in told


def test_addresses_and_agents_are_stored_only_if_asked_for(open_study):
    agent = {"User-Agent": "Browser of somebody"}
    asked = open_study()
    asked.post("/v1/sessions", json={"agreed": True}, headers=agent)
    assert asked.store.personal() == {}
    other = open_study("other", store_addresses=True)
    other.post("/v1/sessions", json={"agreed": True}, headers=agent)
    assert other.store.personal()["p0001"]["agent"] == "Browser of somebody"


def test_pages_of_other_sites_cannot_answer_and_headers_are_safe(open_study):
    asked = open_study()
    foreign = {"Origin": "https://evil.example", "Content-Type": "application/json"}
    assert asked.post("/v1/sessions", headers=foreign, content=b'{"agreed": true}').status_code == 403
    page = asked.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert asked.get("/page/main.js").headers["content-type"].startswith("text/javascript")
    for path in ("/page/live.html", "/page/..%2f..%2fapi.py", "/study.yaml", "/images/secret-0.png"):
        assert asked.get(path).status_code == 404


def test_a_database_that_is_away_is_503_and_nothing_is_acknowledged(open_study, monkeypatch):
    asked = open_study()
    token, state = asked.enter()
    asked.store._writer.close()
    refused = asked.post("/v1/answers", token, json=answer_body(state))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "sqlite" not in refused.text
    assert asked.get("/readyz").status_code == 503
    assert asked.store.answers() == []


def test_values_from_the_address_are_cleaned(open_study):
    asked = open_study()
    asked.enter(PROLIFIC_PID="a\x00b\n" + "x" * 1000)
    (value,) = asked.store.personal()["p0001"].values()
    assert value.isprintable()
    assert len(value) == 200


def test_a_public_address_needs_a_token_and_a_word_about_its_protection():
    assert check_access("127.0.0.1", None, None)
    assert check_access("127.0.0.1", "short", None) == "short"
    with pytest.raises(CallError, match="--protected-by"):
        check_access("0.0.0.0", "long-enough-token", None)
    with pytest.raises(CallError, match="--admin-token"):
        check_access("0.0.0.0", None, "proxy")
    with pytest.raises(CallError, match="at least 12"):
        check_access("0.0.0.0", "short", "network")
    with pytest.raises(CallError, match="without spaces"):
        check_access("127.0.0.1", "two words", None)
    assert check_access("0.0.0.0", "long-enough-token", "proxy") == "long-enough-token"


# -------------------------------------------------------------------- adaptive pairs


def test_adaptive_pairs_are_chosen_again_by_what_was_answered(open_study):
    asked = open_study(images=12, trials=30, repeats=4, pairs={"choice": "adaptive"}, seed=2)
    token, state = asked.enter()
    session = asked.sessions.all()[0]
    first = {trial.trial: trial.images for trial in session.trials}
    while state["stage"] == "trial":
        lighter = max(state["trial"]["images"], key=lambda key: asked.sessions.image(key))
        body = {**answer_body(state), "answer": lighter}
        state = asked.post("/v1/answers", token, json=body).json()["state"]
        asked.sessions._chooser.submit(lambda: None).result()
    answers = asked.store.answers()
    assert [one.images for one in answers[:10]] == [first[one.trial] for one in answers[:10]]
    assert sum(one.images != first[one.trial] for one in answers) > 5
    pairs = [frozenset(one.images) for one in answers if one.kind == "trial"]
    assert len(set(pairs)) == len(pairs) == 30
    shown = {one.trial: one.images for one in answers}
    assert all(shown[one.of] == one.images[::-1] for one in answers if one.kind == "repeat")
    before = list(asked.store.trials())
    assert before == [(session.name, trial) for trial in session.trials]
    asked.store.rebuild()
    assert list(asked.store.trials()) == before


def test_old_pairs_stay_where_there_are_too_few_new_ones():
    trials = [Trial(f"trial-{n}", n, "trial", (f"a{n}", "b")) for n in range(1, 5)]
    assert later_images(trials, 2, [("a1", "b"), ("x", "y")]) == {}
    assert later_images(trials, 2, [("b", "a1"), ("x", "y"), ("x", "z"), ("q", "r")]) == {
        "trial-3": ("x", "y"), "trial-4": ("x", "z"),
    }  # fmt: skip
