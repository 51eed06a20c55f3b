"""Settings as people write them, in YAML: what PyYAML takes without a word, or fails at, is refused in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import yaml

from uol.errors import CallError

_MOST_CHARACTERS = 2**20
_MOST_VALUES = 2**17  # once every name (&name) is written out where it is used (*name)
_LONGEST_NUMBER = 100  # digits, in whatever base


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which does not take the last of several values of one name for the one that is meant."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        for name, times in Counter(name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode)).items():
            if times > 1 and name != "<<":
                raise yaml.YAMLError(f"{name!r} occurs twice, line {node.start_mark.line + 1} and following")
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > _LONGEST_NUMBER:
            raise yaml.YAMLError(f"a number of {len(node.value)} digits, line {node.start_mark.line + 1}")
        return super().construct_yaml_int(node)

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _size(node, {})
        return node


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _size(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """The values of a node with those of the nodes it names; a few lines can name millions, or themselves."""
    if node not in known:
        known[node] = _MOST_VALUES  # until it is known: what contains itself is without end
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[node] = 1 if isinstance(node, yaml.ScalarNode) else 1 + sum(_size(part, known) for part in parts)
    if known[node] >= _MOST_VALUES:
        raise yaml.YAMLError("more than a hundred thousand values, or one that contains itself")
    return known[node]


def read_yaml(text: str, source: str) -> Any:
    """The value of a YAML text; `source` names it in errors."""
    if len(text) > _MOST_CHARACTERS:
        raise CallError(f"{source}: larger than a megabyte, which no settings are")
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise CallError(f"{source}: not readable as YAML (nested too deeply)") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # ValueError: a number or a date that is none
        raise CallError(f"{source}: not readable as YAML ({' '.join(str(error).split())[:200]})") from error
