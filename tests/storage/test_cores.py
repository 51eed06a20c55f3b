"""Cores that a process may use, and threads that wait without spinning."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from uol.storage.cores import available_cores, let_waiting_threads_sleep


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity of processes")
def test_only_cores_that_the_process_may_use_are_counted():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from uol.storage.cores import available_cores; print(available_cores())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == 1
    assert available_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    "of_user", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "9"}, {"KMP_BLOCKTIME": "1"}]
)
def test_threads_sleep_while_they_wait_unless_the_user_decides(of_user):
    environment = dict(of_user)
    let_waiting_threads_sleep(environment)
    assert environment == (of_user or {"OMP_WAIT_POLICY": "PASSIVE"})
