"""The database of a study: SQLite in the study folder, or PostgreSQL by URL.

SQLite runs in WAL mode and waits for the disk at every commit (synchronous FULL): an answer that was acknowledged is
there after the process was killed, and after the power failed.
"""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, create_engine, delete, event, func, insert, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from uol.errors import CallError, UolError, install
from uol.study import tables
from uol.study.answers import Answer, Trial
from uol.study.writer import StoreError, Writer, reason

Result = TypeVar("Result")

FILE = "study.sqlite"
ACTIVE_SECONDS = 3600.0  # without an answer for longer, a participant has left
_BUSY_MS = 10_000
__all__ = ["ACTIVE_SECONDS", "FILE", "AnsweredError", "Store", "StoreError", "database_url"]


class AnsweredError(UolError):
    """This trial of this session has an answer, which stays."""


def database_url(folder: Path, given: str | None = None) -> URL:
    """Where a study's answers are: a file in its folder, or the database that was named."""
    if given is None:
        return URL.create("sqlite", database=str(folder / FILE))
    try:
        url = make_url(given)
    except ArgumentError as error:
        raise CallError("--database: write a URL such as postgresql://user@localhost/study") from error
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    raise CallError(f"--database {url.drivername}: use postgresql://… or sqlite:///file")


class Store:
    """The log of a study, what follows from it, and personal data apart."""

    def __init__(self, url: URL, *, create: bool = True) -> None:
        self.url, self.sqlite = url, url.drivername == "sqlite"
        self.name = url.render_as_string(hide_password=True)
        self._lock: Any = None
        self._writer: Writer | None = None
        if self.sqlite:
            _private_file(Path(str(url.database)), create)
        try:
            self._engine = self._write_engine = _engine(url, "BEGIN")
            with self.reading() as connection:
                found = tables.check_version(connection) if _has_tables(connection) else None
        except (SQLAlchemyError, ModuleNotFoundError) as error:
            raise self._failure(error) from error
        if found not in (None, tables.VERSION):
            raise UolError(f"{self.name}: written by another version of uol (tables {found}); use that version")
        self.empty = found is None
        if found is None and not create:
            raise UolError(f"{self.name}: no answers yet; `uol study serve` collects them")

    # ---------------------------------------------------------------- opening and closing

    def claim(self) -> Store:
        """Become the one process that writes: two servers of one study would give out the same trials."""
        taken = CallError(f"{self.name}: another `uol study serve` has this study open; end it first")
        if self.sqlite:
            self._lock = FileLock(f"{self.url.database}.lock")
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise taken from None
        else:
            self._lock = self._engine.connect()
            key = zlib.crc32(b"uol study")
            if not self._lock.execute(text(f"SELECT pg_try_advisory_lock({key})")).scalar():
                self._lock.close()
                raise taken
            self._lock.commit()
        if self.sqlite:
            self._write_engine = _engine(self.url, "BEGIN IMMEDIATE")
        self._writer = Writer(self._write_engine)
        if self.empty:
            self.submit(_create).result()
            self.empty = False
        return self

    def close(self) -> None:
        """Finish what is being written, and let others open the study."""
        if self._writer is not None:
            self._writer.close()
        if isinstance(self._lock, Connection):
            self._lock.close()
        elif self._lock is not None:
            self._lock.release()
        for engine in {self._engine, self._write_engine}:
            engine.dispose()

    # ---------------------------------------------------------------- writing

    def submit(
        self, work: Callable[[Connection], Result], then: Callable[[Result], None] | None = None
    ) -> Future[Result]:
        """Do some work in a transaction; the future has its result once that is on the disk."""
        if self._writer is None:
            raise StoreError(f"{self.name}: opened for reading")
        return self._writer.submit(work, then)

    def save_answer(self, answer: Answer, last: bool = False, then: Callable[[int], None] | None = None) -> Future[int]:
        """Save an answer, and the end of the session after its last; `AnsweredError` if the trial had an answer.

        The result is the number of the answer's event.
        """
        data = answer.model_dump(mode="json", exclude={"session", "at"})
        at = answer.at.isoformat(timespec="milliseconds")

        def save(connection: Connection) -> int:
            try:
                number = tables.append(connection, "answer", answer.session, data, at)
            except IntegrityError as error:
                raise AnsweredError(f"{answer.trial}: answered before") from error
            if last:
                tables.append(connection, "finish", answer.session, {}, at)
            return number

        return self.submit(save, then)

    def rebuild(self) -> None:
        """Make every table again that follows from the log."""
        self.submit(tables.replay).result()

    def forget(self, participant: str, *, answers: bool = False) -> dict[str, int]:
        """Delete a participant's personal data and, if asked, all answers and events; how many of each."""

        def work(connection: Connection) -> dict[str, int]:
            known = connection.execute(
                select(tables.sessions.c.session).where(tables.sessions.c.participant == participant)
            ).scalar()
            if known is None:
                raise CallError(f"{participant}: no such participant; `uol study status` lists them")
            found = tables.personal.c.participant == participant
            fields = connection.execute(select(tables.personal.c.field).where(found)).all()
            if answers:
                return {"personal": len(fields), "answers": tables.erase(connection, participant)}
            connection.execute(delete(tables.personal).where(found))
            return {"personal": len(fields), "answers": 0}

        done = self.submit(work).result()
        if self.sqlite:
            self._empty_wal()
        return done

    def _empty_wal(self) -> None:
        """Let nothing that was deleted remain in the file that SQLite writes first."""
        connection = self._write_engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()

    # ---------------------------------------------------------------- reading

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that only reads."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise self._failure(error) from error

    def answers(self, after: int = 0) -> list[Answer]:
        """The answers in the order in which they were saved, without the first `after`."""
        query = select(tables.answers).order_by(tables.answers.c.number).offset(after)
        with self.reading() as connection:
            rows = connection.execute(query).mappings().all()
        return [_answer(row) for row in rows]

    def sessions(self) -> list[dict[str, Any]]:
        """All sessions, in the order in which they began: session, participant, state, language, times."""
        hidden = ("token",)
        query = select(tables.sessions).order_by(tables.sessions.c.number)
        with self.reading() as connection:
            rows = connection.execute(query).mappings().all()
        return [{name: value for name, value in row.items() if name not in hidden} for row in rows]

    def last_heard(self) -> dict[str, datetime]:
        """When each session began, or was answered last."""
        query = select(tables.answers.c.session, func.max(tables.answers.c.at)).group_by(tables.answers.c.session)
        with self.reading() as connection:
            began = connection.execute(select(tables.sessions.c.session, tables.sessions.c.started)).all()
            found = [*began, *connection.execute(query).all()]  # the last answer after the beginning
        return {session: datetime.fromisoformat(at) for session, at in found}

    def taking_part(self) -> int:
        """How many have finished or are answering: what the limit of participants counts."""
        since, heard = datetime.now(UTC) - timedelta(seconds=ACTIVE_SECONDS), self.last_heard()
        return sum(
            one["state"] == "finished" or (one["state"] == "open" and heard[one["session"]] > since)
            for one in self.sessions()
        )

    def trials(self) -> Iterator[tuple[str, Trial]]:
        """All trials that were given out, each with its session, in order."""
        columns = tables.trials.c
        with self.reading() as connection:
            for row in connection.execute(select(tables.trials).order_by(columns.session, columns.order)):
                yield row.session, Trial(row.trial, row.order, row.kind, tuple(row.images), row.of)

    def secret(self, name: str) -> bytes:
        """Random bytes that belong to this study."""
        with self.reading() as connection:
            query = select(tables.meta.c.value).where(tables.meta.c.name == f"secret {name}")
            found = connection.execute(query).scalar()
        return bytes.fromhex(str(found))

    def personal(self) -> dict[str, dict[str, str]]:
        """The personal data of each participant that has some."""
        found: dict[str, dict[str, str]] = {}
        with self.reading() as connection:
            for row in connection.execute(select(tables.personal)):
                found.setdefault(row.participant, {})[row.field] = row.value
        return found

    def _failure(self, error: Exception) -> UolError:
        if isinstance(error, ModuleNotFoundError | NoSuchModuleError):
            return UolError(f"{self.name}: PostgreSQL needs psycopg: {install('study')}")
        return StoreError(f"{self.name}: cannot be used ({reason(error)})")


def _answer(row: Mapping[Any, Any]) -> Answer:
    values = {name: row[name] for name in Answer.model_fields}
    return Answer(**{**values, "images": tuple(row["images"]), "at": datetime.fromisoformat(row["at"])})


def _create(connection: Connection) -> None:
    tables.metadata.create_all(connection)
    if tables.check_version(connection) is None:
        values = {"version": str(tables.VERSION), "secret images": secrets.token_hex(16)}
        connection.execute(insert(tables.meta), [{"name": name, "value": value} for name, value in values.items()])


def _has_tables(connection: Connection) -> bool:
    return connection.dialect.has_table(connection, tables.meta.name)


def _private_file(path: Path, create: bool) -> None:
    """Make an empty database that only its owner can read."""
    if not path.exists():
        if not create:
            raise UolError(f"{path}: no answers yet; `uol study serve` collects them")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise UolError(f"{path}: cannot be written ({error.strerror or error})") from error


def _engine(url: URL, begin: str) -> Engine:
    if url.drivername != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    made = create_engine(url, connect_args={"timeout": _BUSY_MS / 1000})

    @event.listens_for(made, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where SQLAlchemy begins them, not where sqlite3 guesses
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", f"busy_timeout={_BUSY_MS}"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(made, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return made
