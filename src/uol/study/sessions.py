"""Participants' sessions: who enters, which trial comes next, and when a study has enough.

What is in memory follows the database: it changes after a commit, and is read from there at the start.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from sqlalchemy import Connection, insert, select

from uol.errors import CallError, UolError
from uol.study import tables
from uol.study.answers import Answer, Trial, answered
from uol.study.folder import Study
from uol.study.settings import SIMILAR
from uol.study.store import ACTIVE_SECONDS, Store, StoreError
from uol.study.trials import choose_sets, is_correct, is_possible, participant_trials

_TOKEN_BYTES = 24
_CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without letters and digits that look alike
_BATCH = 10  # answers after which a participant's adaptive pairs are chosen again


class EntryError(CallError):
    """Somebody cannot take part (again): `status` is that of HTTP, `reason` a word for the page."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.status, self.reason = status, reason


@dataclass
class Session:
    """One participant's way through the study."""

    name: str
    participant: str
    number: int
    token: str  # a digest: the token is with the participant alone
    language: str
    code: str
    state: str = "open"
    trials: list[Trial] = field(default_factory=list)
    done: int = 0
    seen: float = -float("inf")  # when it was heard of, by the monotonic clock

    @property
    def current(self) -> Trial | None:
        """The trial to answer next, None after the last."""
        return self.trials[self.done] if self.done < len(self.trials) else None

    def is_active(self) -> bool:
        """Whether somebody is answering."""
        return self.state == "open" and time.monotonic() - self.seen < ACTIVE_SECONDS


class Sessions:
    """All sessions of a study."""

    def __init__(self, study: Study, store: Store) -> None:
        self.study, self.store = study, store
        self._answers: list[Answer] = []
        self._reading = threading.Lock()
        self._chooser = ThreadPoolExecutor(1, "uol-study-chooser")
        self.enough: str | None = None  # why nobody else can enter, once the scale is precise enough
        self._by_token: dict[str, Session] = {}
        self._by_name: dict[str, Session] = {}
        self._choosing = threading.RLock()
        secret = store.secret("images")
        self.name = hashlib.sha256(b"study" + secret).hexdigest()[:16]  # for browsers, which may know several studies
        self._keys = {image: hmac.new(secret, image.encode(), "sha256").hexdigest()[:24] for image in study.ids}
        self._ids = {key: image for image, key in self._keys.items()}
        self._read()

    def _read(self) -> None:
        """Take the sessions from the database."""
        columns = tables.sessions.c
        with self.store.reading() as connection:
            rows = connection.execute(select(tables.sessions).order_by(columns.number)).all()
            given = connection.execute(select(tables.answers.c.session, tables.answers.c.kind)).all()
        heard, now = self.store.last_heard(), datetime.now(UTC)
        for row in rows:
            seen = time.monotonic() - (now - heard[row.session]).total_seconds()
            self._add(
                Session(
                    row.session, row.participant, row.number, row.token, row.language, row.code, row.state, seen=seen
                )
            )
        for name, trial in self.store.trials():
            self._check_trial(trial)
            self._by_name[name].trials.append(trial)
        for name, _ in given:
            self._by_name[name].done += 1
        self.counting = sum(kind == "trial" for _, kind in given)  # answers that the scale is made of
        self._numbers = count(rows[-1].number + 1 if rows else 0)

    def _check_trial(self, trial: Trial) -> None:
        """Refuse a database of another study, and settings that no longer have what participants were shown."""
        settings = self.study.settings
        missing = [image for image in trial.images if image not in self.study.files]
        checks = trial.kind == "check" and trial.of is not None and int(trial.of) > len(settings.checks)
        if missing or checks or (trial.kind == "trial" and len(trial.images) != settings.set_size):
            what = f"image {missing[0]!r}" if missing else "an attention check" if checks else "another kind of trial"
            raise UolError(
                f"participants were shown {what}, which this study does not have: the database is of another study, or "
                "study.yaml or images.csv has changed since; bring the former settings back, or begin a new study"
            )

    def _add(self, session: Session) -> None:
        self._by_name[session.name] = session
        self._by_token[session.token] = session

    # ---------------------------------------------------------------- who takes part

    def all(self) -> list[Session]:
        """All sessions, in the order in which they began."""
        return list(self._by_name.values())

    def find(self, token: str) -> Session | None:
        """The session of a token."""
        return self._by_token.get(digest(token))

    def enter(self, language: str, personal: Mapping[str, str], token: str | None = None) -> tuple[Session, str]:
        """A session for somebody who agreed to take part, and its token.

        `token` is one that the browser made. If the reply to its first request was lost, it shows the same token again,
        and has the same session until the first answer, whatever the policy. Somebody else whose id is known goes on,
        begins again or is refused, as the settings say.
        """
        with self._choosing:  # one after another: an id is one participant, and the last place is taken once
            mine = None if token is None else self.find(token)
            if mine is not None and token is not None:
                return (mine, token) if mine.state == "open" and not mine.done else self.come_back(mine, token)
            known = self._known(personal)
            if known is not None:
                return self.come_back(known, wanted=token)
            if (full := self.full()) is not None:
                raise EntryError(403, "full", full)
            return self._begin(None, language, personal, token)

    def come_back(self, session: Session, token: str | None = None, wanted: str | None = None) -> tuple[Session, str]:
        """The session of somebody who comes back, and its token, by the policy of the settings.

        Somebody who shows the token keeps it. Somebody known by id gets a new one (or the one `wanted`), and the old
        one opens nothing any more: a study is answered on one device at a time.
        """
        latest = [one for one in self.all() if one.participant == session.participant][-1]
        policy = self.study.settings.resume
        if latest.state in ("closed", "erased"):
            raise EntryError(403, "closed", "this session has ended")
        if latest.state == "open" and policy == "refuse":
            raise EntryError(403, "refused", "this study can be opened once, and it was opened before")
        if latest.state == "open" and policy == "restart" and latest.done:
            self._close(latest, "restart")
            return self._begin(latest.participant, latest.language, {}, wanted)
        if token is None or latest is not session:
            token = self._replace_token(latest, wanted or _new_token())
        latest.seen = time.monotonic()
        return latest, token

    def _replace_token(self, session: Session, token: str) -> str:
        def replaced(_: int) -> None:
            self._by_token.pop(session.token, None)
            session.token = digest(token)
            self._by_token[session.token] = session

        self._append("token", session, {"token": digest(token)}, replaced).result()
        return token

    def full(self) -> str | None:
        """Why nobody new can take part, None if they can."""
        stopping = self.study.settings.stopping
        if stopping.answers is not None and self.counting >= stopping.answers:
            return "this study has all the answers that it needs"
        if stopping.participants is not None and self.taking_part() >= stopping.participants:
            return "this study has all the participants that it needs"
        return self.enough

    def taking_part(self) -> int:
        """How many have finished or are answering: what the limit of participants counts."""
        return sum(session.state == "finished" or session.is_active() for session in self.all())

    def _known(self, personal: Mapping[str, str]) -> Session | None:
        """The latest session of somebody with this id."""
        name = self.study.settings.participant_parameter
        if name not in personal:
            return None
        columns = tables.personal.c
        query = select(columns.participant).where(columns.field == name, columns.value == personal[name])
        with self.store.reading() as connection:
            people = set(connection.execute(query).scalars())
        return next((one for one in reversed(self.all()) if one.participant in people), None)

    def _begin(
        self, participant: str | None, language: str, personal: Mapping[str, str], token: str | None
    ) -> tuple[Session, str]:
        token = token or _new_token()
        with self._choosing:  # adaptive pairs depend on what others are about to judge
            number = next(self._numbers)
            session = Session(
                f"s{secrets.token_hex(5)}", participant or f"p{number + 1:04d}", number, digest(token), language,
                self.study.settings.completion_code or "".join(secrets.choice(_CODE_LETTERS) for _ in range(8)),
                seen=time.monotonic(),
            )  # fmt: skip
            session.trials = participant_trials(self.study, number, self._choose(number))
            data = {
                "participant": session.participant, "number": number, "token": session.token, "language": language,
                "code": session.code, "trials": [list(trial) for trial in session.trials],
            }  # fmt: skip

            def begin(connection: Connection) -> None:
                at = tables.now()
                tables.append(connection, "session", session.name, data, at)
                if self.study.settings.consent:
                    tables.append(connection, "consent", session.name, {}, at)
                known = select(tables.personal.c.field).where(tables.personal.c.participant == session.participant)
                fields = set(connection.execute(known).scalars())
                for name, value in personal.items():
                    if name not in fields:
                        row = {"participant": session.participant, "field": name, "value": value}
                        connection.execute(insert(tables.personal), row)

            self.store.submit(begin, lambda _: self._add(session)).result()
        return session, token

    def _choose(self, number: int) -> list[tuple[str, ...]]:
        if self.study.settings.pairs.choice != "adaptive":
            return choose_sets(self.study, number)
        return choose_sets(self.study, number, self.answers(), self._waiting())

    def _waiting(self, chooses: Session | None = None) -> list[tuple[str, ...]]:
        """The sets that people are about to judge, without those that are being chosen again."""
        return [
            trial.images
            for session in self.all() if session.is_active()
            for trial in session.trials[session.done : session.done + 2 if session is chooses else None]
            if trial.kind == "trial"
        ]  # fmt: skip

    def _choose_again(self, session: Session) -> None:
        """Choose the pairs of an adaptive session that are not near yet, by all answers so far."""

        def deal(connection: Connection) -> dict[str, tuple[str, ...]]:
            fresh = later_images(session.trials, session.done + 2, sets) if session.state == "open" else {}
            if fresh:
                tables.append(connection, "deal", session.name, {"images": fresh}, tables.now())
            return fresh

        def dealt(fresh: dict[str, tuple[str, ...]]) -> None:
            session.trials = [one._replace(images=fresh.get(one.trial, one.images)) for one in session.trials]

        with suppress(StoreError):  # the session goes on with the pairs that it has
            sets = choose_sets(self.study, session.number, self.answers(), self._waiting(session))
            self.store.submit(deal, dealt).result()

    def answers(self) -> list[Answer]:
        """All answers so far, in the order in which they were saved; those that were read before are kept."""
        with self._reading:
            self._answers += self.store.answers(after=len(self._answers))
            return list(self._answers)

    # ---------------------------------------------------------------- trials and answers

    def answer(self, session: Session, trial: str, given: int | str, response_ms: int) -> Future[int] | None:
        """Save the answer to the current trial; None if this trial was answered before, whose answer stays."""
        if session.state not in ("open", "finished"):
            raise EntryError(409, "closed", "this session has ended")
        session.seen = time.monotonic()
        place = next((place for place, one in enumerate(session.trials) if one.trial == trial), None)
        if place is None or place > session.done:
            raise EntryError(409, "other-trial", "another trial is to be answered now")
        if place < session.done:
            return None
        shown, settings = session.trials[place], self.study.settings
        value = self._ids.get(given, SIMILAR if given == SIMILAR else "") if isinstance(given, str) else given
        if not is_possible(settings, shown, value):
            raise EntryError(422, "impossible", "answer: nobody can answer this here")
        record = answered(
            shown, value, session=session.name, participant=session.participant, response_ms=response_ms,
            at=datetime.now(UTC), language=session.language, correct=is_correct(settings, shown, value),
        )  # fmt: skip

        last = place + 1 == len(session.trials)

        def saved(_: int) -> None:
            session.done, self.counting = place + 1, self.counting + record.counts
            if last:
                session.state = "finished"
            elif settings.pairs.choice == "adaptive" and (place + 1) % _BATCH == 0:
                self._chooser.submit(self._choose_again, session)

        return self.store.save_answer(record, last, saved)

    def withdraw(self, session: Session) -> None:
        """End a session because its participant wants to stop."""
        if session.state == "open":
            self._close(session, "withdrawn")

    def forget(self, participant: str, answers: bool = False) -> dict[str, int]:
        """Delete a participant's personal data and, if asked, everything else; how many of each."""
        done = self.store.forget(participant, answers=answers)
        for session in [one for one in self.all() if answers and one.participant == participant]:
            self.counting -= sum(trial.kind == "trial" for trial in session.trials[: session.done])
            self._by_token.pop(session.token, None)
            session.state, session.trials, session.done = "erased", [], 0
        if answers:
            with self._reading:
                self._answers = []
        return done

    def key(self, image: str) -> str:
        """The key under which an image is shown."""
        return self._keys[image]

    def image(self, key: str, session: Session | None = None) -> str | None:
        """The id of an image by its key; for a session only images of its trials."""
        name = self._ids.get(key)
        if name is None or session is None:
            return name
        return name if any(name in trial.images for trial in session.trials) else None

    def _close(self, session: Session, reason: str) -> None:
        def closed(_: int) -> None:
            session.state = "closed"

        self._append("close", session, {"reason": reason}, closed).result()

    def _append(self, kind: str, session: Session, data: Mapping[str, str], then: Callable[[int], None]) -> Future[int]:
        def work(connection: Connection) -> int:
            return tables.append(connection, kind, session.name, data, tables.now())

        return self.store.submit(work, then)


def later_images(trials: Sequence[Trial], begin: int, sets: Sequence[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """New images for the trials from `begin` on, by name: pairs that this participant has not seen, best first.

    A repeat shows the pair that it repeats with the sides exchanged; practice and checks stay.
    """
    seen = {frozenset(trial.images) for trial in trials[:begin] if trial.kind == "trial"}
    fresh = iter([images for images in sets if frozenset(images) not in seen])
    due = [trial.trial for trial in trials[begin:] if trial.kind == "trial"]
    found = dict(zip(due, fresh, strict=False))
    if len(found) < len(due):  # too few pairs: the old ones stay, as no pair may come twice
        return {}
    again = [trial for trial in trials[begin:] if trial.kind == "repeat" and trial.of in found]
    return found | {trial.trial: tuple(reversed(found[str(trial.of)])) for trial in again}


def _new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def digest(token: str) -> str:
    """What is stored of a token: whoever reads a backup cannot answer for somebody."""
    return hashlib.sha256(token.encode()).hexdigest()
