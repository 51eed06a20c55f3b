"""Provenance: the commit is that of this very code, or none."""

from __future__ import annotations

import subprocess

import pytest

from uol.errors import CallError
from uol.storage import provenance


def git(folder, *arguments):
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout in which `uol/provenance.py` is the running module."""
    monkeypatch.delenv("UOL_COMMIT", raising=False)
    (tmp_path / "uol").mkdir()
    file = tmp_path / "uol" / "provenance.py"
    file.write_text("first\n")
    git(tmp_path, "init", "-q")
    monkeypatch.setattr(provenance, "__file__", str(file))
    return tmp_path


def test_the_commit_and_whether_files_changed_since(checkout):
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "first")
    assert provenance.commit() == (git(checkout, "rev-parse", "HEAD"), False, False)
    (checkout / "new.txt").write_text("not tracked")
    assert not provenance.commit().modified
    (checkout / "uol" / "provenance.py").write_text("changed\n")
    assert provenance.commit().modified


def test_code_that_is_not_tracked_has_no_commit(checkout):
    (checkout / "other.txt").write_text("somebody's own repository, with the package installed inside")
    git(checkout, "add", "other.txt")
    git(checkout, "commit", "-qm", "first")
    assert provenance.commit() == (None, False, False)


def test_outside_a_checkout_the_commit_is_unknown_or_named(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    monkeypatch.delenv("UOL_COMMIT", raising=False)
    assert provenance.commit() == (None, False, False)
    monkeypatch.setenv("UOL_COMMIT", "ab" * 20)
    assert provenance.commit() == ("ab" * 20, False, True)
    monkeypatch.setenv("UOL_COMMIT", "main")
    with pytest.raises(CallError, match="40 hexadecimal digits"):
        provenance.commit()


def test_command_and_hardware(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/uol", "train", "--root", "my photos"])
    assert provenance.command() == "uol train --root 'my photos'"
    assert set(provenance.hardware()) == {"machine", "gpu", "python", "torch"}
    assert provenance.now().endswith("+00:00")
