# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of NumPy arrays, torch tensors and sharded state dicts."""
from __future__ import annotations

import ctypes
import os
import warnings
from typing import Any, Callable, Optional, Sequence, Union

from . import _library, run, trees
from ._library import handle, int64s, library, number
from .arrays import ELEMENTS, NAME_OF_TYPE, ONCE_BYTES, Memory, empty, is_array, memory_of
from .communicator import Communicator, Options, options_text, world
from .errors import Busy, Incompatible, NotFound
from .shards import is_sharded, sharded

DESCRIPTION = "distdl.state"  #: the name of the tree's description among the arrays
Folder = Union[str, "os.PathLike[str]", None]
_HOW = {"now": _library.NOW, "beside": _library.BESIDE, "snapshot": _library.SNAPSHOT}
_NAMES_OF_HOW = {number: name for name, number in _HOW.items()}


class Checkpoint:
    """A folder of checkpoints. Each exists as a whole or not at all, whenever a process is killed.

        checkpoint = distdl.Checkpoint(options={"keep": 3})
        state = {"model": model, "optimizer": optimizer, "step": 0}
        checkpoint.load(state)
        for step in range(state["step"], steps):
            ...
            state["step"] = step + 1
            if (step + 1) % 100 == 0:
                checkpoint.save(step + 1, state)
        checkpoint.close()

    A state is a tree of dicts, lists and tuples. Its leaves are arrays, tensors, and plain values: texts, numbers, None, bytes.
    Modules and optimizers stand for their state_dict(). Nothing is pickled. All ranks have the same values of an array or tensor;
    a DTensor, a ShardedTensor or a distdl.Box is this rank's part. Any number of ranks loads what any other number has saved.

    Methods that communicate are collective. They raise PeerLost, StorageError, Superseded.

    folder: None: "checkpoints" in the run folder of "distdl run". comm: None: all ranks that were started together.
    options: keys of the section [checkpoint] of a job file, such as {"keep": 5, "every": 100}.
    """

    def __init__(self, folder: Folder = None, comm: Optional[Communicator] = None, options: Options = None) -> None:
        self._comm = world() if comm is None and run.world_size() > 1 else comm
        name = None if folder is None else os.fspath(folder).encode()
        self._store: Optional[ctypes.c_void_p] = handle(
            library().store_open, name, self._comm.pointer if self._comm else None, options_text("checkpoint", options))

    @property
    def pointer(self) -> Optional[ctypes.c_void_p]:
        """The handle for libdistdl.so; None after close()."""
        return self._store

    def due(self, step: int) -> Optional[str]:
        """What to save after this step by the options `every`, `memory_every` and the like: None, "beside" or "snapshot"."""
        return _NAMES_OF_HOW.get(number(library().store_due, self._store, step))

    def save(self, step: int, state: Any, how: str = "beside") -> bool:
        """Collective. Saves the state as of this step.

        how: "beside": returns when all is copied, at the speed of memcpy, and the rest happens beside the program. False if
        the save before is still being written, so that this one was left out. "now": returns when it is durable.
        "snapshot": in memory and on nodes' disks only.

        distdl.run.saved() is told by itself when a checkpoint is durable. Raises TypeError for a state that cannot be saved.
        """
        save, _owners = self._begin(step, state)
        try:
            library().save_commit(save, _HOW[how])
        except Busy:
            return False
        finally:
            self.tell_outcomes()
        return True

    def prepare(self, state: Any) -> None:
        """Collective. Makes the memory for saves of such states beside the program, so that the first save stops it no longer than later
        ones do. Call it once between load() and the first save, when the state has all its arrays: for most optimizers after
        the first step.
        """
        save, _owners = self._begin(0, state)
        library().save_prepare(save)

    def _begin(self, step: int, state: Any) -> "tuple[ctypes.c_void_p, list[Any]]":
        """Collective. A save with all arrays of the state, and what must stay in memory until it is committed."""
        save = handle(library().save_begin, self._store, step)
        owners: "list[Any]" = []

        def add() -> bytes:
            described = trees.describe(state)
            owners.extend(_add(save, name, value) for name, value in described.arrays.items())
            return trees.encode(described.node)

        try:
            owners.append(self.add_together(save, DESCRIPTION, add, trees.merged_texts))
        except BaseException:
            library().save_discard(save)
            raise
        return save, owners

    def load(self, state: Any = None, before: Optional[int] = None) -> Any:
        """Collective. The newest whole checkpoint of a step below `before`, in a new tree or in the place of `state`.

        Arrays of `state` are filled in place, its dicts get new values, and load_state_dict() of its modules and optimizers is
        called. Returns the state; None if there is no checkpoint yet. Call it before the first save.

        Raises Incompatible if shapes or types differ, or the checkpoint lacks a key of the state.
        """
        try:
            load = handle(library().load_begin, self._store, -1 if before is None else before)
        except NotFound:
            return None
        with Load(load) as opened:
            self.step = opened.step
            return opened.state(state)

    def steps(self) -> "list[int]":
        """The steps of the checkpoints in the folder, ascending."""
        count = number(library().store_steps, self._store, None, 0, kind=ctypes.c_size_t)
        steps = (ctypes.c_int64 * max(1, count))()
        found = number(library().store_steps, self._store, steps, count, kind=ctypes.c_size_t)
        return list(steps[:min(count, found)])

    def barrier(self) -> None:
        """Waits until all ranks have called it."""
        if self._comm is not None:
            self._comm.barrier()

    def wait(self) -> None:
        """Collective. Waits until no save is under way. Raises StorageError if the last one failed."""
        try:
            library().store_wait(self._store)
        finally:
            self.tell_outcomes()

    def close(self) -> None:
        """Collective. Waits for the save that is under way, and ends."""
        if self._store is not None:
            self.wait()
            store, self._store = self._store, None
            library().store_close(store)

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, kind: Any, _error: Any, _traceback: Any) -> None:
        if kind is None:
            self.close()

    def add_together(self, save: Any, name: str, add: "Callable[[], bytes]", merge: "Callable[[list[bytes]], bytes]") -> Any:
        """Collective. Calls add(), and adds bytes that rank 0 merges from what it returns on all ranks.

        Returns what must stay in memory. If add() raises an exception on one rank, the others raise Incompatible.
        """
        failure: Optional[Exception] = None
        try:
            told = b"+" + add()
        except Exception as error:
            failure, told = error, b"-" + str(error).encode()
        texts = self._comm.all_gather_bytes(told) if self._comm is not None else [told]
        if failure is not None:
            raise failure
        for rank, text in enumerate(texts):
            if text.startswith(b"-"):
                raise Incompatible(f"rank {rank}: {text[1:].decode()}")
        mine = merge([text[1:] for text in texts])
        if self._comm is not None and self._comm.rank != 0:
            return None
        memory = ctypes.create_string_buffer(mine, len(mine))
        library().save_add(save, name.encode(), _library.U8, 1, int64s([len(mine)]), None, None, ctypes.addressof(memory))
        return memory

    def tell_outcomes(self) -> None:
        """Tells "distdl run" of the checkpoints that have become durable, and warns of those that have not."""
        outcome = _library.Outcome(ctypes.sizeof(_library.Outcome))
        try:
            while True:
                library().store_outcome(self._store, ctypes.byref(outcome))
                if outcome.code:
                    warnings.warn(f"the checkpoint of step {outcome.step} was not saved: it could not be written")
                elif outcome.is_checkpoint:
                    run.saved(outcome.step, outcome.durable_seconds)
        except NotFound:
            return


def _as_saved(memory: Memory, shape: Sequence[int], offset: Sequence[int],
              as_bytes: bool = False) -> "tuple[int, list[int], list[int], list[int]]":
    """Type, shape, offset and extent in the checkpoint: elements without a type of their own are rows of bytes."""
    kind, size = ELEMENTS[memory.element]
    if kind is not None and not as_bytes:
        return kind, [*shape], [*offset], [*memory.shape]
    return _library.U8, [*shape, size], [*offset, 0], [*memory.shape, size]


def _add(save: Any, name: str, value: Any) -> Any:
    """Adds an array, or this rank's boxes of it. Returns what must stay in memory until the save is committed."""
    if not is_sharded(value):
        memory = memory_of(value)
        kind, shape, _, _ = _as_saved(memory, memory.shape, [0] * len(memory.shape))
        library().save_add_replicated(save, name.encode(), kind, len(shape), int64s(shape), memory.address)
        return memory
    parts = sharded(value)
    owners = [memory_of(box.array) for box in parts.boxes] if parts.saves else []
    for memory, box in zip(owners, parts.boxes):
        if memory.count:
            add_box(save, name, memory, box.shape, box.offset)
    return owners


def add_box(save: Any, name: str, memory: Memory, whole: Sequence[int], begin: Sequence[int]) -> None:
    """Adds the box that begins at `begin` of an array of the shape `whole`."""
    kind, shape, offset, extent = _as_saved(memory, whole, begin)
    library().save_add(save, name.encode(), kind, len(shape), int64s(shape), int64s(offset), int64s(extent), memory.address)


class Load:
    """A checkpoint that is being read. With a path of open() nothing is collective."""

    def __init__(self, pointer: ctypes.c_void_p) -> None:
        self._pointer = pointer
        self.step = int(number(library().load_step, pointer, kind=ctypes.c_int64))  #: of the checkpoint
        self._owners: "list[Any]" = []

    @classmethod
    def open(cls, folder: Folder = None, step: Optional[int] = None) -> "Load":
        """For a process that only reads. step: None: the newest. Raises NotFound, Corrupt, StorageError."""
        name = None if folder is None else os.fspath(folder).encode()
        return cls(handle(library().load_open, name, -1 if step is None else step))

    def names(self) -> "list[str]":
        """The names of all arrays, sorted."""
        names = (ctypes.c_char_p * 1)()
        result = []
        for place in range(number(library().load_count, self._pointer, kind=ctypes.c_size_t)):
            library().load_array(self._pointer, place, names, None, None, None, 0)
            result.append((names[0] or b"").decode())
        return result

    def shape_of(self, name: str) -> "tuple[int, tuple[int, ...]]":
        """The type of an array and its shape. Raises NotFound."""
        place = number(library().load_find, self._pointer, name.encode(), kind=ctypes.c_size_t)
        kind, dimensions = ctypes.c_int(), ctypes.c_int()
        library().load_array(self._pointer, place, None, ctypes.byref(kind), ctypes.byref(dimensions), None, 0)
        shape = (ctypes.c_int64 * max(1, dimensions.value))()
        library().load_array(self._pointer, place, None, None, None, shape, dimensions.value)
        return kind.value, tuple(shape[:dimensions.value])

    def ask(self, name: str, memory: Memory, shape: Sequence[int], offset: Sequence[int]) -> None:
        """Asks for the box of an array of this shape that begins at `offset`. read() fills the memory.

        Raises Incompatible if the array has another type or shape.
        """
        saved_kind, saved_shape = self.shape_of(name)
        is_old = memory.element in ONCE_BYTES and saved_kind == _library.U8 and len(saved_shape) > len(shape)
        kind, whole, begin, extent = _as_saved(memory, shape, offset, is_old)
        if (kind, tuple(whole)) != (saved_kind, saved_shape):
            raise Incompatible(f"{name} is {NAME_OF_TYPE[saved_kind]} of shape {list(saved_shape)} in the checkpoint, "
                               f"{memory.element} of shape {list(shape)} here")
        library().load_add(self._pointer, name.encode(), kind, int64s(begin), int64s(extent), memory.address)
        self._owners.append(memory)

    def read(self) -> None:
        """Fills what was asked for, and verifies its checksums. Collective, unless opened by open(). Raises Corrupt."""
        library().load_read(self._pointer)
        self._owners.clear()

    def bytes_of(self, name: str) -> bytes:
        """An array of bytes. Reads."""
        _, (count,) = self.shape_of(name)
        text = ctypes.create_string_buffer(count)
        self.ask(name, Memory(ctypes.addressof(text), "uint8", (count,), text), [count], [0])
        self.read()
        return text.raw

    def state(self, given: Any = None) -> Any:
        """The tree that Checkpoint.save() has saved, in the place of `given`."""
        node = trees.decode(self.bytes_of(DESCRIPTION))
        restorer = trees.Restorer(self._fill)
        result = restorer.restore(node, given)
        self.read()
        restorer.finish()
        return result

    def _fill(self, old: Any, name: str, package: str, element: str, shape: "list[int]") -> Any:
        """Asks for an array, in the place of the old one if there is one."""
        if 0 in shape:
            return empty(package, element, shape)
        if is_sharded(old):
            parts = sharded(old)
            for box in parts.boxes:
                self.ask(name, memory_of(box.array, is_written=True), parts.shape, box.offset)
            return old
        if is_array(old) and hasattr(old, "__setitem__"):  # a scalar of NumPy has none
            self.ask(name, memory_of(old, is_written=True), tuple(old.shape), [0] * len(shape))
            return old
        made = empty(package, element, shape)
        self.ask(name, memory_of(made, is_written=True), shape, [0] * len(shape))
        return made

    def close(self) -> None:
        if self._pointer:
            pointer, self._pointer = self._pointer, ctypes.c_void_p()
            library().load_close(pointer)

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
