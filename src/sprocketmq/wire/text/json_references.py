# SPDX-License-Identifier: Apache-2.0
"""References of fastjson's dialect: ``{"$ref":"$.a"}`` names an object by its path from the root; "$", "@" and ".." stand for others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sprocketmq.errors import ProtocolError

MAX_DEPTH: Final = 64
"""The limit of nesting, and of references to references."""
_PATH_STEP: Final = re.compile(r"\[(-?[0-9]+)\]|\.((?:\\.|[^.\[\\])+)", re.DOTALL)


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$ref"), str)


def resolve_references(root: Any) -> Any:
    found: list[tuple[Any, Any, list[Any]]] = []
    for container, key, chain in _containers(root, []):
        if _is_reference(container[key]):
            found.append((container, key, chain))
    for container, key, chain in found:
        target: Any = container[key]
        hops = 0
        while _is_reference(target):
            target = _target(root, target["$ref"], chain)
            hops += 1
            if hops > MAX_DEPTH:
                raise ProtocolError(f"the reference {container[key]['$ref']!r} of a JSON body forms a cycle")
        container[key] = target
    return root


def _containers(value: Any, chain: list[Any]) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Every place that can hold a value, with the objects around it, outermost first."""
    around = [*chain, value]
    if isinstance(value, dict):
        places: list[Any] = list(value)
    elif isinstance(value, list):
        places = list(range(len(value)))
    else:
        return
    for place in places:
        if isinstance(value[place], dict | list):
            yield value, place, around
            yield from _containers(value[place], around)


def _target(root: Any, path: str, chain: list[Any]) -> Any:
    # The context of a reference is the object it stands for: "@" is the object that holds it, ".." the one around that.
    if path == "$":
        return root
    if path == "@":
        return chain[-1]
    if path == "..":
        return chain[-2] if len(chain) > 1 else root
    at, value = 1, root
    while path.startswith("$") and at < len(path):
        match = _PATH_STEP.match(path, at)
        if match is None:
            break
        try:
            if match[1] is not None:
                value = value[int(match[1])]
            else:
                name = re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL)
                value = value[name]
        except (KeyError, IndexError, TypeError) as error:
            raise ProtocolError(f"the reference {path!r} of a JSON body refers to nothing") from error
        at = match.end()
    if at != len(path) or not path.startswith("$"):
        raise ProtocolError(f"the reference {path!r} of a JSON body is not understood")
    return value
