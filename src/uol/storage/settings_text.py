"""Settings as people write them, in YAML: what PyYAML takes without a word, or fails at, is refused in one line."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from uol.errors import CallError

_MOST_CHARACTERS = 2**20


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which does not take the last of several values of one name for the one that is meant."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = [name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode)]
        for name in names:
            if names.count(name) > 1 and name != "<<":
                raise yaml.YAMLError(f"{name!r} occurs twice, line {node.start_mark.line + 1} and following")
        return super().construct_mapping(node, deep)


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
