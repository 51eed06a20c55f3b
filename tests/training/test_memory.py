import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from quick import quick_recipe
from uol.runs.run import run
from uol.training import loop, memory
from uol.training.memory import freed_memory_kept
from uol.training.packed import PackedImages

# Pages that the system had to provide when a block is used whose memory was freed just before; in a process of its own,
# since what a process did before decides where its blocks lie.
SCRIPT = """
import resource
import numpy as np
from uol.training.memory import freed_memory_kept

def faults_of_second_block():
    np.ones(64 << 18, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(64 << 18, np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with freed_memory_kept(True):
    print(faults_of_second_block())
print(faults_of_second_block())
"""


@pytest.mark.skipif(memory._glibc() is None, reason="the C library is not glibc")
def test_a_step_finds_the_memory_of_the_last_one():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    within, afterwards = map(int, done.stdout.split())
    assert within < 10
    assert afterwards >= 32  # pages of 2 MB; 16,384 of 4 kB


def test_other_libraries_are_left_alone(monkeypatch):
    def no_library(name):
        raise OSError

    monkeypatch.setattr(memory.ctypes, "CDLL", no_library)
    with freed_memory_kept(True):
        assert memory._glibc() is None


@pytest.mark.slow
def test_a_training_on_a_processor_keeps_it(drawn, monkeypatch):
    asked = []
    monkeypatch.setattr(loop, "freed_memory_kept", lambda wanted: asked.append(wanted) or nullcontext())
    recipe = quick_recipe(epochs=1)
    run(PackedImages.pack(drawn.subset(np.arange(40)), recipe.model), recipe, accelerator="cpu")
    assert asked == [True]


def test_memory_is_given_back_after_an_error(monkeypatch):
    asked = []

    class Library:
        gnu_get_libc_version = None

        def mallopt(self, setting, value):
            asked.append((setting, value))

        def malloc_trim(self, spare):
            asked.append(("trim", spare))

    monkeypatch.setattr(memory, "_glibc", Library)
    with pytest.raises(ValueError, match="too far"), freed_memory_kept(True):
        raise ValueError("too far")
    assert asked[-1] == ("trim", 0)
    assert dict(asked[2:-1]) == memory._AFTERWARDS
