# SPDX-License-Identifier: Apache-2.0
"""Arrays of which each rank has boxes: distdl.Box, torch's DTensor and ShardedTensor."""
from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any, Sequence

from .arrays import element_of, is_tensor


@dataclass(frozen=True)
class Box:
    """This rank's part of an array: it begins at `offset` in the whole, which has this shape.

    The boxes of all ranks are disjoint and form the whole.
    """

    array: Any
    shape: Sequence[int]
    offset: Sequence[int]


@dataclass(frozen=True)
class Sharded:
    """An array as boxes."""

    shape: "tuple[int, ...]"
    boxes: "list[Box]"  #: those that this rank has
    saves: bool = True  #: whether this rank saves them: false if another rank has the same ones and does


def is_sharded(value: Any) -> bool:
    return isinstance(value, Box) or _is_dtensor(value) or _is_sharded_tensor(value)


def sharded(value: Any) -> Sharded:
    """The boxes of an array for which is_sharded() holds. Raises TypeError for a DTensor of partial sums."""
    if isinstance(value, Box):
        return Sharded(tuple(value.shape), [value])
    return _of_dtensor(value) if _is_dtensor(value) else _of_sharded_tensor(value)


def kind_of(value: Any) -> "tuple[str, str, list[int]]":
    """Of an array or its boxes: "torch" or "numpy", the element type, and the shape of the whole."""
    if isinstance(value, Box):
        return kind_of(value.array)[0], element_of(value.array), list(value.shape)
    if _is_sharded_tensor(value):
        return "torch", element_of(value), list(value.metadata().size)
    return "torch" if is_tensor(value) else "numpy", element_of(value), list(value.shape)


def _is_dtensor(value: Any) -> bool:
    return is_tensor(value) and hasattr(value, "device_mesh") and hasattr(value, "to_local")


def _is_sharded_tensor(value: Any) -> bool:
    return "torch" in sys.modules and hasattr(value, "local_shards") and hasattr(value, "metadata")


def _place_of(value: Any) -> "tuple[Any, Any]":
    """Shape and offset of the local part of a DTensor."""
    try:
        module = importlib.import_module("torch.distributed.tensor._utils")
    except ImportError:
        module = importlib.import_module("torch.distributed._tensor._utils")  # before torch 2.5
    place: "tuple[Any, Any]" = module.compute_local_shape_and_global_offset(value.shape, value.device_mesh, value.placements)
    return place


def _of_dtensor(value: Any) -> Sharded:
    if any(placement.is_partial() for placement in value.placements):
        raise TypeError("a DTensor of partial sums cannot be saved or loaded: redistribute it first")
    shape = tuple(value.shape)
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:
        return Sharded(shape, [], False)
    extent, offset = _place_of(value)
    local = value.to_local()
    boxes = [Box(local, shape, tuple(offset))] if local.numel() and tuple(local.shape) == tuple(extent) else []
    saves = all(place == 0 for place, placement in zip(coordinate, value.placements) if placement.is_replicate())
    return Sharded(shape, boxes, saves)


def _of_sharded_tensor(value: Any) -> Sharded:
    shape = tuple(value.metadata().size)
    return Sharded(shape, [Box(shard.tensor, shape, tuple(shard.metadata.shard_offsets)) for shard in value.local_shards()])
