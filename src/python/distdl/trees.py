# SPDX-License-Identifier: Apache-2.0
"""State as a tree of dicts, lists and tuples, whose leaves are arrays or plain values; its description as JSON, without pickle."""
from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Union

from .arrays import is_array
from .errors import Incompatible
from .shards import is_sharded, kind_of

_PLAIN = (str, bool, int, float, type(None))
_SPECIAL = re.compile(r"[^!-$&-.0-~]")  # "%", "/", and what is no printable ASCII


def part(key: object) -> str:
    """A key as part of an array's name."""
    text = "".join(_SPECIAL.sub(lambda found: f"%{byte:02X}", chr(byte)) for byte in str(key).encode())
    return {"": "%", ".": "%2E", "..": "%2E%2E"}.get(text, text)


def is_stateful(value: object) -> bool:
    """Whether it is a module, an optimizer, or the like."""
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


@dataclass
class Described:
    """A tree's description, and its arrays by name."""

    node: Any = None
    arrays: "dict[str, Any]" = field(default_factory=dict)


def describe(tree: object, name: str = "") -> Described:
    """name: that of the tree. Raises TypeError for a leaf that is neither an array nor a plain value, ValueError for keys that cannot be told apart."""
    described = Described()
    described.node = _node(tree, name, described.arrays)
    return described


def _child(name: str, key: object) -> str:
    return f"{name}/{part(key)}" if name else part(key)


def _node(tree: Any, name: str, arrays: "dict[str, Any]") -> Any:
    if is_stateful(tree):
        tree = tree.state_dict()
    if is_array(tree) or is_sharded(tree):
        if name in arrays:
            raise ValueError(f"two keys give the name {name!r}")
        arrays[name] = tree
        return {"array": [name, *kind_of(tree)]}
    if isinstance(tree, dict):
        if not all(isinstance(key, (str, int)) for key in tree):
            raise TypeError(f"{name or 'the state'} has keys that are neither texts nor whole numbers")
        return {"dict": [[key, _node(value, _child(name, key), arrays)] for key, value in tree.items()]}
    if isinstance(tree, (list, tuple)):
        kind = "tuple" if isinstance(tree, tuple) else "list"
        return {kind: [_node(value, _child(name, place), arrays) for place, value in enumerate(tree)]}
    if isinstance(tree, bytes):
        return {"bytes": base64.b64encode(tree).decode()}
    if isinstance(tree, _PLAIN):
        return {"value": tree}
    raise TypeError(f"{name}: a {type(tree).__name__} can be saved neither as an array nor as JSON")


def merged(nodes: "list[Any]") -> Any:
    """The descriptions of all ranks as one: dicts have the keys of all, and else the first one counts."""
    first = nodes[0]
    if "dict" not in first:
        return first
    by_key: "dict[Any, list[Any]]" = {}
    for node in nodes:
        for key, value in node.get("dict", []):
            by_key.setdefault(key, []).append(value)
    return {"dict": [[key, merged(values)] for key, values in by_key.items()]}


def merged_texts(texts: "list[bytes]") -> bytes:
    return encode(merged([decode(text) for text in texts]))


def encode(node: Any) -> bytes:
    return json.dumps(node).encode()


def decode(data: bytes) -> Any:
    return json.loads(data)


#: (what the program has in the place of an array, or None; the array's name, package, element type, shape) -> the array
Take = Callable[[Any, str, str, str, "list[int]"], Any]


class Restorer:
    """Puts what was saved in the place of what the program has."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._later: "list[Callable[[], Any]]" = []

    def restore(self, node: Any, given: Any = None, name: str = "") -> Any:
        """The tree of the description. Arrays that `given` has are filled in place; its dicts and lists get new values.

        Raises Incompatible if the checkpoint lacks a key that `given` has.
        """
        if is_stateful(given):
            state = self.restore(node, given.state_dict(), name)
            self._later.append(lambda: given.load_state_dict(state))
            return given
        if "array" in node:
            return self._take(given, *node["array"])
        if "dict" in node:
            return self._restore_dict(node["dict"], given, name)
        for kind, make in (("list", list), ("tuple", tuple)):
            if kind in node:
                return self._restore_list(node[kind], given, name, make)
        return base64.b64decode(node["bytes"]) if "bytes" in node else node["value"]

    def finish(self) -> None:
        """After the arrays are filled."""
        for each in self._later:
            each()

    def _restore_dict(self, items: Any, given: Any, name: str) -> Any:
        result = given if isinstance(given, dict) else {}
        missing = [str(key) for key in result if key not in {key for key, _ in items}]
        if missing:
            raise Incompatible(f"the checkpoint has no {name and name + '/'}{missing[0]}")
        for key, node in items:
            result[key] = self.restore(node, result.get(key), _child(name, key))
        return result

    def _restore_list(self, nodes: Any, given: Any, name: str, make: Union["type[list[Any]]", "type[tuple[Any, ...]]"]) -> Any:
        olds = given if isinstance(given, (list, tuple)) and len(given) == len(nodes) else [None] * len(nodes)
        return make(self.restore(node, old, _child(name, place)) for place, (node, old) in enumerate(zip(nodes, olds)))
