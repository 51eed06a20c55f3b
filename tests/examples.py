"""How many examples hypothesis tries."""

from __future__ import annotations

from hypothesis import settings

_MANY = 100  # hypothesis tries as many by default


def examples(count: int) -> int:
    """`count`, or as many as the loaded profile has if it has fewer than usual: `make quick` tries few."""
    most = settings().max_examples
    return count if most >= _MANY else min(count, most)
