# SPDX-License-Identifier: Apache-2.0
"""Ranks that exchange NumPy arrays or torch tensors in host memory."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Iterable, Optional, Sequence, Union

from . import _library
from ._library import handle, library, number, sizes
from .arrays import memory_of
from .errors import ConfigError, Error, Timeout

OPERATIONS = {"sum": _library.SUM, "max": _library.MAX, "min": _library.MIN, "average": _library.AVERAGE}
Options = Union[str, "dict[str, Any]", None]
_SLICE = 0.01  # seconds: between two slices of a wait, other threads may use the communicator


def options_text(section: str, options: Options) -> Optional[bytes]:
    """Keys of a section of a job file, such as {"timeout_seconds": 60}, as "comm.timeout_seconds=60"."""
    if not options:
        return None
    if isinstance(options, str):
        return options.encode()
    return ";".join(f"{section}.{key}={_word(value)}" for key, value in options.items()).encode()


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Request:
    """An operation under way. Its arrays may not be changed, nor the result be read, until it is done."""

    def __init__(self, pointer: ctypes.c_void_p, owners: Any) -> None:
        self._pointer = pointer
        self._owners = owners

    def wait(self, seconds: Optional[float] = None) -> None:
        """Waits until it is done. Raises Timeout after so many seconds: it goes on. Raises PeerLost."""
        left = float("inf") if seconds is None else seconds
        while self._pointer:
            try:
                library().wait(ctypes.byref(self._pointer), min(left, _SLICE))
            except Timeout:
                left -= _SLICE
                if left <= 0:
                    raise
        self._owners = None

    def test(self) -> bool:
        """Whether it is done."""
        done = bool(number(library().test, ctypes.byref(self._pointer)))
        if done:
            self._owners = None
        return done

    def cancel(self) -> None:
        """Gives it up. A collective then fails on the other ranks."""
        library().cancel(ctypes.byref(self._pointer))
        self._owners = None


class Communicator:
    """Ranks that were started together: by "distdl run", by "srun --mpi=pmix", or by another launcher with PMIx.

    All methods that communicate are collective, and raise PeerLost if another rank does not answer in time. With
    `wait=False` they return a Request at once. Sums follow a fixed tree over ranks.

    options: keys of the section [comm] of a job file, such as {"timeout_seconds": 60}.
    """

    def __init__(self, options: Options = None) -> None:
        _refuse_foreign_launcher()
        self._own(handle(library().comm_create, options_text("comm", options)))

    @classmethod
    def of_folder(cls, folder: Union[str, "os.PathLike[str]"], name: str, rank: int, size: int,
                  options: Options = None) -> "Communicator":
        """The same for ranks that know their number. They meet in `folder`, which all see, by a `name` that is new."""
        made = cls.__new__(cls)
        made._own(handle(library().comm_create_folder, os.fspath(folder).encode(), name.encode(), rank, size,
                         options_text("comm", options)))
        return made

    @classmethod
    def of_exchange(cls, exchange: Callable[[bytes], "Sequence[bytes]"], rank: int, size: int,
                    options: Options = None) -> "Communicator":
        """The same for ranks that can tell each other something. exchange(mine) returns the bytes of all ranks, in their order.

        It is called some times, here. All ranks give equal numbers of bytes.
        """
        failures: "list[BaseException]" = []

        def call(_context: Any, mine: int, count: int, all_: int) -> int:
            try:
                ctypes.memmove(all_, b"".join(exchange(ctypes.string_at(mine, count))), count * size)
                return 0
            except BaseException as error:  # it must not go through the library
                failures.append(error)
                return 1

        made = cls.__new__(cls)
        try:
            made._own(handle(library().comm_create_exchange, _library.Exchange(call), None, rank, size,
                             options_text("comm", options)))
        except Error as error:
            raise failures[0] if failures else error
        return made

    def _own(self, pointer: ctypes.c_void_p) -> None:
        self._pointer: Optional[ctypes.c_void_p] = pointer
        self.rank = int(number(library().comm_rank, pointer))
        self.size = int(number(library().comm_size, pointer))

    @property
    def pointer(self) -> Optional[ctypes.c_void_p]:
        """The handle for libdistdl.so; None after close()."""
        return self._pointer

    def host(self, rank: int) -> str:
        """The host of a rank."""
        return str(number(library().comm_host, self._pointer, rank, kind=ctypes.c_char_p).decode())

    def split(self, color: int, key: int = 0) -> Optional["Communicator"]:
        """Ranks with the same color, ordered by key, then by rank. None for a negative color. Close it before this one."""
        pointer = handle(library().comm_split, self._pointer, color, key)
        if not pointer:
            return None
        part = Communicator.__new__(Communicator)
        part._own(pointer)
        return part

    def close(self) -> None:
        """Collective."""
        if self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            library().comm_close(pointer)

    def abort(self, reason: str, code: int = 69) -> None:
        """Tells the other ranks that this one ends, and why: their operations then fail with this text."""
        library().comm_abort(self._pointer, code, reason.encode())

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, error: Any, _traceback: Any) -> None:
        if error is not None and self._pointer is not None:
            self.abort(f"{kind.__name__}: {error}"[:1000], getattr(error, "exit_code", 69))
        self.close()

    def begin(self, name: str, *arguments: Any, owners: Any = None) -> Request:
        """Begins the operation "distdl_NAME" with these arguments between the communicator and the request."""
        pointer = ctypes.c_void_p()
        getattr(library(), name)(self._pointer, *arguments, ctypes.addressof(pointer))
        return Request(pointer, owners)

    def _operate(self, wait: bool, name: str, *arguments: Any, owners: Any = None) -> Optional[Request]:
        request = self.begin(name, *arguments, owners=owners)
        if not wait:
            return request
        request.wait()
        return None

    def barrier(self, wait: bool = True) -> Optional[Request]:
        """Waits until all ranks have called it."""
        return self._operate(wait, "barrier")

    def broadcast(self, values: Any, root: int = 0, wait: bool = True) -> Optional[Request]:
        """Fills `values` of all ranks with those of `root`."""
        memory = memory_of(values, is_written=True)
        return self._operate(wait, "broadcast", memory.address, memory.bytes, _library.U8, root, owners=memory)

    def all_reduce(self, values: Any, operation: str = "sum", wait: bool = True) -> Optional[Request]:
        """Replaces `values` by their sum, maximum, minimum or average over all ranks."""
        memory = memory_of(values, is_written=True)
        return self._operate(wait, "all_reduce", None, memory.address, memory.count, memory.type, OPERATIONS[operation],
                             owners=memory)

    def all_gather(self, values: Any, result: Any, counts: Optional[Sequence[int]] = None,
                   wait: bool = True) -> Optional[Request]:
        """Fills `result` with the values of all ranks, in their order. With `counts`, rank r has counts[r] elements."""
        own, all_ = memory_of(values), memory_of(result, is_written=True)
        size = own.bytes // own.count if own.count else 1
        in_bytes = None if counts is None else sizes([count * size for count in counts])
        return self._operate(wait, "all_gather", own.address, all_.address, own.bytes, in_bytes, _library.U8,
                             owners=(own, all_))

    def all_gather_bytes(self, mine: bytes) -> "list[bytes]":
        """The bytes of all ranks, which may differ in number."""
        lengths = (ctypes.c_int64 * self.size)()
        own = ctypes.c_int64(len(mine))
        self.begin("all_gather", ctypes.addressof(own), ctypes.addressof(lengths), 1, None, _library.I64).wait()
        result = ctypes.create_string_buffer(sum(lengths) + 1)
        source = ctypes.create_string_buffer(mine, len(mine) + 1)
        self.begin("all_gather", ctypes.addressof(source), ctypes.addressof(result), 0, sizes(lengths), _library.U8).wait()
        return list(_cut(result.raw, lengths))

    def send(self, data: Any, to: int, tag: int = 0, wait: bool = True) -> Optional[Request]:
        """Sends the bytes of an array. Messages with equal tags (0 to 2^28-1) arrive in order."""
        memory = memory_of(data)
        return self._operate(wait, "send", memory.address, memory.bytes, to, tag, owners=memory)

    def receive(self, data: Any, source: int, tag: int = 0, wait: bool = True) -> Optional[Request]:
        """Fills an array of the size that was sent."""
        memory = memory_of(data, is_written=True)
        return self._operate(wait, "receive", memory.address, memory.bytes, source, tag, owners=memory)

    def receive_any(self, data: Any, tag: int = 0) -> int:
        """Waits for the next message with this tag. Returns the rank that has sent it."""
        memory, source = memory_of(data, is_written=True), ctypes.c_int(-1)
        self._operate(True, "receive_any", memory.address, memory.bytes, tag, ctypes.addressof(source), owners=memory)
        return source.value


def _cut(data: bytes, lengths: Iterable[int]) -> Iterable[bytes]:
    begin = 0
    for length in lengths:
        yield data[begin:begin + length]
        begin += length


def _refuse_foreign_launcher() -> None:
    """Ranks of torchrun, say, would each become a single rank, without a word."""
    known = ("DISTDL_WORLD_SIZE", "PMIX_RANK", "PMIX_NAMESPACE")
    if int(os.environ.get("WORLD_SIZE") or 1) > 1 and not any(name in os.environ for name in known):
        raise ConfigError("WORLD_SIZE is set, but neither distdl nor PMIx has started this process: start it with "
                          "\"distdl run -- PROGRAM\", or use Communicator.of_folder() or of_exchange()")


_world: Optional[Communicator] = None


def world() -> Communicator:
    """All ranks, for whatever needs them and was given no communicator. Made by the first call, which is collective."""
    global _world
    if _world is None or _world.pointer is None:
        _world = Communicator()
    return _world
