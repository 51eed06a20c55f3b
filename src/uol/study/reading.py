"""Read what a database has of a study: its answers, and how many take part."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from uol.errors import UolError, install
from uol.study.answers import Answer
from uol.study.folder import Study

if TYPE_CHECKING:
    from uol.study.store import Store

Found = TypeVar("Found")

DATABASE = "UOL_DATABASE"  # the variable that names a database in the place of the file in the study folder


def read_answers(study: Study, database: str | None = None, missing_ok: bool = False) -> list[Answer]:
    """The answers of a study in the order in which they were saved; with `missing_ok` none if nobody has answered."""
    return _read(study, database, lambda store: store.answers(), [] if missing_ok else None)


def count_people(study: Study, database: str | None = None) -> int:
    """How many have finished or are answering; nobody if there is no database yet."""
    return _read(study, database, lambda store: store.taking_part(), 0)


def _read(study: Study, database: str | None, read: Callable[[Store], Found], missing: Found | None) -> Found:
    """What `read` finds in the database of a study; `missing`, unless it is None, if there is no file of answers."""
    try:
        from uol.study.store import FILE, Store, database_url
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("sqlalchemy"):
            raise UolError(f"answers of a study need sqlalchemy: {install('study')}") from error
        raise
    url = database or os.environ.get(DATABASE)
    if missing is not None and url is None and not (study.path / FILE).exists():
        return missing
    store = Store(database_url(study.path, url), create=False)
    try:
        return read(store)
    finally:
        store.close()
