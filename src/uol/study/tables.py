"""The tables of a study, and what each event of the log changes in them.

Every change is an event. The other tables follow from the log: `replay` makes them again. Personal data is the
exception: it is in one table, in no event, and can be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

VERSION = 1  # of the tables

metadata = MetaData()
meta = Table("uol_meta", metadata, Column("name", String, primary_key=True), Column("value", Text, nullable=False))
events = Table(
    "uol_events", metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", String, nullable=False), Column("kind", String, nullable=False), Column("session", String),
    Column("data", Text, nullable=False),
    sqlite_autoincrement=True,
)  # fmt: skip
sessions = Table(
    "uol_sessions", metadata,
    Column("session", String, primary_key=True), Column("participant", String, nullable=False),
    Column("number", Integer, nullable=False, unique=True), Column("token", String, nullable=False, unique=True),
    Column("language", String, nullable=False), Column("state", String, nullable=False),
    Column("code", String, nullable=False), Column("started", String, nullable=False), Column("consented", String),
    Column("ended", String),
)  # fmt: skip
trials = Table(
    "uol_trials", metadata,
    Column("session", String, primary_key=True), Column("trial", String, primary_key=True),
    Column("order", Integer, nullable=False), Column("kind", String, nullable=False),
    Column("images", JSON, nullable=False), Column("of", String),
)  # fmt: skip
answers = Table(
    "uol_answers", metadata,
    Column("session", String, primary_key=True), Column("trial", String, primary_key=True),
    Column("number", BigInteger, nullable=False, unique=True), Column("participant", String, nullable=False),
    Column("order", Integer, nullable=False), Column("kind", String, nullable=False),
    Column("images", JSON, nullable=False), Column("answer", JSON, nullable=False),
    Column("response_ms", BigInteger, nullable=False), Column("at", String, nullable=False),
    Column("language", String, nullable=False), Column("of", String), Column("correct", Boolean),
)  # fmt: skip
personal = Table(
    "uol_personal", metadata,
    Column("participant", String, primary_key=True), Column("field", String, primary_key=True),
    Column("value", Text, nullable=False, index=True),
)  # fmt: skip
_ADD_EVENT, _ADD_ANSWER = insert(events), insert(answers)
FOLLOWING = (sessions, trials, answers)  # tables that follow from the log


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def append(connection: Connection, kind: str, session: str | None, data: Mapping[str, Any], at: str) -> int:
    """Add an event to the log and change the tables that follow from it; the event's number."""
    row = {"at": at, "kind": kind, "session": session, "data": json.dumps(data, ensure_ascii=False)}
    added = connection.execute(_ADD_EVENT, row)
    number = int(added.inserted_primary_key[0])  # type: ignore[index]
    _apply(connection, number, kind, session, data, at)
    return number


def replay(connection: Connection) -> None:
    """Make every table again that follows from the log."""
    for table in FOLLOWING:
        connection.execute(delete(table))
    for row in connection.execute(select(events).order_by(events.c.number)).all():
        _apply(connection, row.number, row.kind, row.session, json.loads(row.data), row.at)


def erase(connection: Connection, participant: str) -> int:
    """Delete everything of a participant: personal data, sessions, answers and their events; how many answers.

    The numbers of the sessions stay taken: an event without content holds the place of each.
    """
    names = connection.execute(select(sessions.c.session).where(sessions.c.participant == participant)).scalars().all()
    connection.execute(delete(personal).where(personal.c.participant == participant))
    lost = connection.execute(delete(answers).where(answers.c.session.in_(names))).rowcount
    connection.execute(delete(trials).where(trials.c.session.in_(names)))
    rows = connection.execute(select(events).where(events.c.session.in_(names), events.c.kind == "session")).all()
    connection.execute(delete(events).where(events.c.session.in_(names), events.c.kind != "session"))
    for row in rows:
        begun = json.loads(row.data)
        kept = {**begun, "token": f"erased-{row.session}", "trials": []}
        connection.execute(
            update(events).where(events.c.number == row.number).values(data=json.dumps(kept, ensure_ascii=False))
        )
        append(connection, "erase", row.session, {}, now())
    return int(lost)


def _apply(
    connection: Connection, number: int, kind: str, session: str | None, data: Mapping[str, Any], at: str
) -> None:
    if kind == "answer":
        connection.execute(_ADD_ANSWER, {"session": session, "number": number, "at": at, **data})
    elif kind == "session":
        row = {name: data[name] for name in ("participant", "number", "token", "language", "code")}
        connection.execute(insert(sessions).values(session=session, state="open", started=at, **row))
        _add_trials(connection, session, data["trials"])
    elif kind == "deal":
        for name, images in data["images"].items():
            place = (trials.c.session == session, trials.c.trial == name)
            connection.execute(update(trials).where(*place).values(images=images))
    elif kind == "erase":
        changes = {"state": "erased", "ended": at, "token": f"erased-{session}", "consented": None}
        connection.execute(update(sessions).where(sessions.c.session == session).values(**changes))
    elif (changed := _changed(kind, data, at)) is not None:
        connection.execute(update(sessions).where(sessions.c.session == session).values(**changed))


def _changed(kind: str, data: Mapping[str, Any], at: str) -> dict[str, Any] | None:
    """What an event changes in its session's row; None for events that are notes, such as `settings`."""
    if kind == "consent":
        return {"consented": at}
    if kind == "token":
        return {"token": data["token"]}
    if kind in ("finish", "close"):
        return {"state": {"finish": "finished", "close": "closed"}[kind], "ended": at}
    return None


def _add_trials(connection: Connection, session: str | None, dealt: list[Any]) -> None:
    if dealt:
        names = ("trial", "order", "kind", "images", "of")
        rows = [{"session": session, **dict(zip(names, trial, strict=True))} for trial in dealt]
        connection.execute(insert(trials), rows)


def check_version(connection: Connection) -> int | None:
    """The version of the tables of a database, None if it has none yet."""
    found = connection.execute(select(meta.c.value).where(meta.c.name == "version")).scalar()
    return None if found is None else int(found)
