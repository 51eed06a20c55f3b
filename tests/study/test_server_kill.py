"""The service killed while participants answer: no acknowledged answer is lost, and none is there twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter

import httpx
import pytest

from served_study import Served, answer_body, bearer, make_study
from uol.study import tables
from uol.study.store import Store, database_url

pytestmark = pytest.mark.slow
KILLS, PARTICIPANTS = int(os.environ.get("UOL_TEST_KILLS", "3")), 6  # docs/study.md says what 20 gave


class Participant(threading.Thread):
    """Answers at random, sends again what was not acknowledged, and notes what was."""

    def __init__(self, url, seed, stop):
        super().__init__(daemon=True)
        self.url, self.stop, self.rng = url, stop, random.Random(seed)
        self.saved, self.problems, self.number = {}, [], seed
        self.client = httpx.Client(timeout=20, verify=False)

    def run(self):
        turn = 0
        while not self.stop.is_set():
            turn += 1
            self._session(f"{self.number}-{turn}")
        self.client.close()

    def _session(self, name):
        body = {"agreed": True, "language": "en", "personal": {"PROLIFIC_PID": name}}
        entered = self._persist("v1/sessions", body, None)
        if entered is None:
            return
        token, state = entered["token"], entered["state"]
        while state["stage"] == "trial" and not self.stop.is_set():
            body = answer_body(state, self.rng.randrange(2))
            answer = self._persist("v1/answers", body, token)
            if answer is None:
                return
            self.saved[name, body["trial"]] = body["answer"]
            state = answer["state"]
            time.sleep(self.rng.random() * 0.05)

    def _persist(self, path, body, token):
        """Send until it is acknowledged, as the page does."""
        while not self.stop.is_set():
            try:
                answer = self.client.post(self.url + path, json=body, headers=bearer(token))
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code == 200:
                return answer.json()
            if answer.status_code < 500:
                self.problems.append(answer.text)
                return None
        return None


def test_no_acknowledged_answer_is_lost_and_none_is_there_twice(tmp_path, database):
    folder = make_study(tmp_path / "study", images=8, trials=20, resume="resume")
    options = [] if database is None else ["--database", database]
    rng, stop = random.Random(5), threading.Event()
    served = Served(folder, *options).wait_until_ready()
    people = [Participant(served.url, seed, stop) for seed in range(PARTICIPANTS)]
    for one in people:
        one.start()
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.1, 0.9))
        before = sum(len(one.saved) for one in people)
        served.kill()
        served = Served(folder, *options, port=served.port)
        end = time.monotonic() + 60
        while sum(len(one.saved) for one in people) <= before + PARTICIPANTS and time.monotonic() < end:
            time.sleep(0.02)
    stop.set()
    for one in people:
        one.join(60)
    served.kill()
    store = Store(database_url(folder, database))
    keys = _keys(store, folder)
    people_of = {fields["PROLIFIC_PID"]: name for name, fields in store.personal().items()}
    rows = store.answers()
    stored = {(one.participant, one.trial): keys[one.answer] for one in rows}
    saved = {key: given for one in people for key, given in one.saved.items()}
    lost = [key for key, given in saved.items() if stored.get((people_of[key[0]], key[1])) != given]
    twice = [key for key, times in Counter((one.participant, one.trial) for one in rows).items() if times > 1]
    with store.reading() as connection:
        events = connection.execute(tables.events.select().where(tables.events.c.kind == "answer")).all()
    store.close()
    assert [text for one in people for text in one.problems] == []
    assert len(saved) > KILLS * PARTICIPANTS
    assert (lost, twice) == ([], [])
    assert len(events) == len(rows)
    assert len(rows) - len(saved) <= PARTICIPANTS  # saved as the test ended, and not acknowledged any more


def _keys(store, folder):
    from uol.study.folder import open_study
    from uol.study.sessions import Sessions

    sessions = Sessions(open_study(folder), store)
    return {name: sessions.key(name) for name in sessions.study.ids}
