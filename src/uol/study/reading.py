"""Read the answers of a study from its database."""

from __future__ import annotations

import os

from uol.errors import UolError, install
from uol.study.answers import Answer
from uol.study.folder import Study

DATABASE = "UOL_DATABASE"  # the variable that names a database in the place of the file in the study folder


def read_answers(study: Study, database: str | None = None, missing_ok: bool = False) -> list[Answer]:
    """The answers of a study in the order in which they were saved; with `missing_ok` none if nobody has answered."""
    try:
        from uol.study.store import FILE, Store, database_url
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("sqlalchemy"):
            raise UolError(f"answers of a study need sqlalchemy: {install('study')}") from error
        raise
    url = database or os.environ.get(DATABASE)
    if missing_ok and url is None and not (study.path / FILE).exists():
        return []
    store = Store(database_url(study.path, url), create=False)
    try:
        return store.answers()
    finally:
        store.close()
