"""A PostgreSQL cluster that lives as long as the tests, and databases in it."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path

import pytest


def _programs():
    """Where PostgreSQL's programs are, None if they are not installed: Debian keeps them out of the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders and (folders[-1] / "pg_ctl").exists() else None


def _user():
    """Who runs the cluster: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return getpass.getuser()
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@pytest.fixture(scope="session")
def cluster():
    """The folder of a running cluster, which listens on a socket in it and on no network."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="psycopg is not installed: make install")
    folder, user = Path(tempfile.mkdtemp(prefix="uol-postgres-")), _user()
    shutil.chown(folder, user)
    as_user = {"user": user} if os.getuid() == 0 else {}

    def run(program, *arguments):
        command = [programs / program, "-D", folder / "data", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **as_user)

    try:
        run("initdb", "--username", "study", "--auth", "trust", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        run("pg_ctl", "start", "-w", "-l", folder / "log", "-o", settings)
        yield folder
        run("pg_ctl", "stop", "-w", "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_numbers = count()


@pytest.fixture
def postgres(cluster):
    """The URL of an empty database."""
    import psycopg

    name = f"study{next(_numbers)}"
    with psycopg.connect(f"postgresql://study@/postgres?host={cluster}", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://study@/{name}?host={cluster}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    """No URL (SQLite in the study folder), and that of a PostgreSQL database."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres")
