import pytest
import torch

from uol.training import memory
from uol.training.memory import freed_memory_kept

BLOCK = 64 << 20


def faults_of_second_block() -> int:
    """Pages that the system had to provide when a block is used whose memory was freed just before."""
    resource = pytest.importorskip("resource")
    torch.ones(BLOCK // 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(BLOCK // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(memory._glibc() is None, reason="the C library is not glibc")
def test_a_step_finds_the_memory_of_the_last_one():
    with freed_memory_kept(True):
        assert faults_of_second_block() < 10
    assert faults_of_second_block() >= 32  # pages of 2 MB; 16,384 of 4 kB


def test_other_libraries_are_left_alone(monkeypatch):
    def no_library(name):
        raise OSError

    monkeypatch.setattr(memory.ctypes, "CDLL", no_library)
    with freed_memory_kept(True):
        assert memory._glibc() is None


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
