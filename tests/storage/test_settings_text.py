"""YAML that people write is read within bounds; what would take for ever is refused at once."""

from __future__ import annotations

import time

import pytest

from uol.errors import CallError
from uol.storage.settings_text import read_yaml


def named(levels, use):
    """Values that name each other: ten times as many at every level, in a few lines."""
    lines = ["a0: &a0 {" + ", ".join(f"k{number}: 1" for number in range(10)) + "}"]
    more = (f"a{level}: &a{level} " + use(", ".join([f"*a{level - 1}"] * 10)) for level in range(1, levels))
    return "\n".join([*lines, *more])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (named(8, "{{<<: [{}]}}".format), "more than a hundred thousand values"),
        (named(8, "[{}]".format), "more than a hundred thousand values"),
        ("a: &a [*a]", "contains itself"),
        ("a: &a {<<: *a}", "contains itself"),
        ("seed: 0x" + "f" * 5000, "a number of 5002 digits, line 1"),
        ("a: 1\na: 2", "'a' occurs twice, line 1"),
        ("[" * 5000, "nested too deeply"),
        (" " * 2**20 + "a", "larger than a megabyte"),
    ],
)
def test_what_is_without_bounds_is_refused_in_one_line(text, problem):
    began = time.process_time()
    with pytest.raises(CallError, match=problem) as caught:
        read_yaml(text, "file.yaml")
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 2


def test_values_may_be_named_and_merged():
    text = "usual: &usual {low: 1, high: 7}\nscale: {<<: *usual, high: 5}\nboth: [*usual, *usual]"
    assert read_yaml(text, "file.yaml")["scale"] == {"low": 1, "high": 5}


def test_many_names_take_little_time():
    began = time.process_time()
    assert len(read_yaml("{" + ",".join(f"k{number}: 1" for number in range(10_000)) + "}", "file.yaml")) == 10_000
    assert time.process_time() - began < 3
