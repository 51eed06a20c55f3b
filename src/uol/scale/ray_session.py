"""A session of Ray: a cluster that runs already, or this machine alone with bounded memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from typing import Any, NamedTuple

from uol.errors import UolError, install
from uol.storage.cores import available_cores

_PACKAGES = ("ray", "fsspec", "pyarrow")
_OBJECT_STORE = 256 << 20  # bytes: tasks and their outcomes are small, images never go through it
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a scorer of photographs reports to nobody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # its words on actors and their restarts do not concern users
}


class Cluster(NamedTuple):
    """What a session can use now; an autoscaler may add to it."""

    cpus: float
    gpus: float
    nodes: int


def check_packages() -> None:
    """Refuse in one line if the extra `scale` is not installed."""
    for package in _PACKAGES:
        try:
            missing = find_spec(package) is None
        except ValueError:  # made impossible to import
            missing = True
        if missing:
            raise UolError(f"--on ray needs {package}: {install('scale')}")


@contextmanager
def ray_session(address: str | None = None, cpus: int | None = None) -> Iterator[Cluster]:
    """Connect to the cluster at `address` or in RAY_ADDRESS; without either, use the cores of this machine.

    A session on this machine has no dashboard, reports nothing, and ends with the block, in which nobody else prints.
    """
    check_packages()
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():  # by a program that uses this as a library: the session is its
        yield _cluster()
        return
    wanted = address or os.environ.get("RAY_ADDRESS")
    here: dict[str, Any] = {
        "num_cpus": cpus or available_cores(),
        "object_store_memory": _OBJECT_STORE,
        "include_dashboard": False,
    }
    try:
        with _silent():
            ray.init(
                **({"address": wanted} if wanted else {"address": "local", **here}),
                logging_level="ERROR",
                log_to_driver=False,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"the Ray cluster at {wanted}" if wanted else "Ray on this machine"
        reason = _reason(error)
        raise UolError(f"{where} cannot be reached: {reason}") from error
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # Ray's words on lost nodes go to stdout
        try:
            yield _cluster()
        finally:
            ray.shutdown()


def _reason(error: BaseException) -> str:
    """The first line of an error of Ray, or what to do about it."""
    causes: list[BaseException | None] = [error, error.__cause__, error.__context__]
    if any(type(cause).__name__ == "AuthenticationError" for cause in causes):
        return "it asks for a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to those of the cluster"
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def _silent() -> Iterator[None]:
    """Drop what Ray writes on stderr while it starts, from C++ too; errors are exceptions."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _cluster() -> Cluster:
    import ray

    there = ray.cluster_resources()
    return Cluster(there.get("CPU", 0.0), there.get("GPU", 0.0), len(ray.nodes()))
