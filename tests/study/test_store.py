"""The store: what was acknowledged stays, the log makes every table again, and personal data can be deleted."""

from __future__ import annotations

import os
import sqlite3
import stat
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, text

from uol.errors import CallError, UolError
from uol.study import tables
from uol.study.answers import Answer
from uol.study.store import FILE, AnsweredError, Store, database_url
from uol.study.writer import StoreError

AT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    opened = Store(database_url(tmp_path)).claim()
    yield opened
    opened.close()


def begin(store, session="s1", participant="p0001", number=0, personal=()):
    data = {
        "participant": participant, "number": number, "token": f"digest-{session}", "language": "de", "code": "CODE",
        "trials": [["trial-1", 1, "trial", ["a", "b"], None], ["repeat-1", 2, "repeat", ["b", "a"], "trial-1"]],
    }  # fmt: skip

    def work(connection):
        tables.append(connection, "session", session, data, tables.now())
        for name, value in personal:
            connection.execute(tables.personal.insert().values(participant=participant, field=name, value=value))

    store.submit(work).result()


def answer(trial="trial-1", session="s1", given="a", **more):
    values = {"participant": "p0001", "order": 1, "kind": "trial", "images": ("a", "b"), "response_ms": 812, "at": AT}
    return Answer(session=session, trial=trial, answer=given, **{**values, **more})


def following(store):
    with store.reading() as connection:
        return [connection.execute(select(table)).all() for table in tables.FOLLOWING]


def test_an_answer_comes_back_as_it_was(store):
    begin(store)
    first = answer()
    check = answer("check-1", given=4, images=("a",), kind="check", of="1", correct=False, order=2)
    for one in (first, check):
        store.save_answer(one).result()
    assert store.answers() == [first, check]
    assert store.answers(after=1) == [check]
    assert [(name, trial.trial, trial.images, trial.of) for name, trial in store.trials()] == [
        ("s1", "trial-1", ("a", "b"), None), ("s1", "repeat-1", ("b", "a"), "trial-1"),
    ]  # fmt: skip


def test_a_trial_has_one_answer_and_a_refused_one_leaves_no_event(store):
    begin(store)
    store.save_answer(answer()).result()
    with pytest.raises(AnsweredError):
        store.save_answer(answer(given="b")).result()
    together = [store.save_answer(answer("trial-2", given=given)) for given in ("a", "b", "a")]
    saved = [future.exception() is None for future in together]
    assert saved == [True, False, False]
    assert [one.answer for one in store.answers()] == ["a", "a"]
    with store.reading() as connection:
        kinds = connection.execute(select(tables.events.c.kind)).scalars().all()
    assert kinds == ["session", "answer", "answer"]


def test_every_table_is_made_again_from_the_log(store):
    begin(store, personal=[("PROLIFIC_PID", "abc")])
    begin(store, "s2", "p0002", 1)
    store.save_answer(answer()).result()
    store.save_answer(answer("repeat-1"), last=True).result()
    store.submit(lambda connection: tables.append(connection, "close", "s2", {"reason": "restart"}, "2026")).result()
    store.submit(lambda connection: tables.append(connection, "token", "s2", {"token": "new"}, "2026")).result()
    before = following(store)
    store.rebuild()
    assert following(store) == before

    def ruin(connection):
        for table in tables.FOLLOWING:
            connection.execute(table.delete())

    store.submit(ruin).result()
    assert following(store) != before
    store.rebuild()
    assert following(store) == before
    assert [one["state"] for one in store.sessions()] == ["finished", "closed"]
    assert all("token" not in one for one in store.sessions())


def test_personal_data_is_apart_and_leaves_no_trace_when_it_is_deleted(store, tmp_path):
    begin(store, personal=[("PROLIFIC_PID", "5f9b3a-very-personal"), ("address", "192.0.2.7")])
    store.save_answer(answer()).result()
    with store.reading() as connection:
        log = " ".join(connection.execute(select(tables.events.c.data)).scalars())
    assert "very-personal" not in log
    assert store.personal() == {"p0001": {"PROLIFIC_PID": "5f9b3a-very-personal", "address": "192.0.2.7"}}
    assert store.forget("p0001") == {"personal": 2, "answers": 0}
    assert store.personal() == {}
    assert len(store.answers()) == 1
    files = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
    assert b"very-personal" not in files


def test_everything_of_a_participant_can_be_erased(store, tmp_path):
    begin(store, personal=[("PROLIFIC_PID", "abc")])
    begin(store, "s2", "p0002", 1)
    store.save_answer(answer(response_ms=987_654_321)).result()
    kept = answer(session="s2", participant="p0002")
    store.save_answer(kept).result()
    assert store.forget("p0001", answers=True) == {"personal": 1, "answers": 1}
    assert store.answers() == [kept]
    assert [one["state"] for one in store.sessions()] == ["erased", "open"]
    before = following(store)
    store.rebuild()
    assert following(store) == before
    files = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
    assert b"987654321" not in files
    with pytest.raises(CallError, match="no such participant"):
        store.forget("p0009")


def test_the_disk_is_waited_for_and_only_the_owner_reads(store, tmp_path):
    with store._write_engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    assert stat.S_IMODE(os.stat(tmp_path / FILE).st_mode) == 0o600


def test_work_that_fails_undoes_itself_and_nothing_else(store):
    def fail(connection):
        tables.append(connection, "note", None, {}, "2026")
        raise ValueError("no")

    futures = [store.save_answer(answer("trial-1")), store.submit(fail), store.save_answer(answer("trial-2"))]
    assert [type(future.exception()) for future in futures] == [type(None), ValueError, type(None)]
    assert len(store.answers()) == 2
    with store.reading() as connection:
        assert "note" not in connection.execute(select(tables.events.c.kind)).scalars().all()


def test_a_commit_that_fails_acknowledges_nothing(store, monkeypatch):
    begin(store)

    def broken(connection):
        connection.execute(text("ROLLBACK"))  # as SQLite does when the disk is full

    with pytest.raises(StoreError, match="cannot be used now"):
        store.submit(broken).result()
    store.save_answer(answer()).result()
    assert len(store.answers()) == 1


def test_one_process_serves_a_study(store, tmp_path):
    other = Store(database_url(tmp_path))
    with pytest.raises(CallError, match="another `uol study serve`"):
        other.claim()
    other.close()


def test_databases_that_cannot_be_used_are_one_line(tmp_path):
    with pytest.raises(CallError, match="--database mysql"):
        database_url(tmp_path, "mysql://somewhere/else")
    with pytest.raises(CallError, match="write a URL"):
        database_url(tmp_path, "no url")
    with pytest.raises(UolError, match="no answers yet"):
        Store(database_url(tmp_path), create=False)
    (tmp_path / FILE).write_bytes(b"this is no database, however long it may be" * 100)
    with pytest.raises(UolError, match="cannot be used .*not a database"):
        Store(database_url(tmp_path))
    with pytest.raises(UolError, match="cannot be used") as raised:
        Store(database_url(tmp_path, "postgresql://me:secret@localhost:1/nothing"))
    assert "secret" not in str(raised.value)


def test_tables_of_another_version_are_refused(tmp_path):
    Store(database_url(tmp_path)).claim().close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE uol_meta SET value = '99' WHERE name = 'version'")
    connection.close()
    with pytest.raises(UolError, match="another version"):
        Store(database_url(tmp_path))


@pytest.mark.slow
def test_postgresql_keeps_the_same_promises(postgres, tmp_path):
    url = database_url(tmp_path, postgres)
    store = Store(url).claim()
    begin(store, personal=[("PROLIFIC_PID", "abc")])
    begin(store, "s2", "p0002", 1)
    together = [store.save_answer(answer(given=given)) for given in ("a", "b")]
    assert [type(future.exception()) for future in together] == [type(None), AnsweredError]
    kept = answer(session="s2", participant="p0002", given=3, images=("a",), kind="check", of="1", correct=True)
    store.save_answer(kept, last=True).result()
    before = following(store)
    store.rebuild()
    assert following(store) == before
    other = Store(url)
    with pytest.raises(CallError, match="another `uol study serve`"):
        other.claim()
    other.close()
    assert store.forget("p0001", answers=True) == {"personal": 1, "answers": 1}
    assert store.answers() == [kept]
    store.close()
    Store(url).claim().close()
