"""Problems of stored values, in one plain line each."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uol.storage.validation import first_problem


class Pair(NamedTuple):
    k: float
    delta: float


class Stored(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int = 1
    name: Annotated[str, Field(min_length=1, max_length=500)] = "a"
    pair: Pair = Pair(1, 2)
    words: dict[str, str] = {}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"count": None}, "count: must be a whole number, not null"),
        ({"count": "many"}, "count: must be a whole number, not 'many'"),
        ({"count": "x" * 300}, "count: must be a whole number, not 'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
        ({"name": True}, "name: must be a text, not true"),
        ({"name": ""}, "name: is too short, not ''"),
        ({"name": 5}, "name: must be a text, not 5"),
        ({"pair": "x"}, "pair: must be a list, not 'x'"),
        ({"pair": {}}, "pair.k: is missing"),
        ({1: 2}, "1: no such field"),
        ({"cuont": 2}, "cuont: no such field"),
    ],
)
def test_a_problem_is_said_in_plain_words(values: dict[Any, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Stored.model_validate(values)
    assert first_problem(caught.value) == problem
