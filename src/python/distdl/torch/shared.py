# SPDX-License-Identifier: Apache-2.0
"""Memory that the ranks of a host read from each other directly: sums of large tensors are several times faster there."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

import torch

from .._library import handle, library
from ..communicator import Communicator
from ..errors import Error, PeerLost
from .operations import Operation, dense

LARGE = 1 << 20  #: bytes from which two copies cost less than they save
_SLOTS = 3  #: sums under way at a time


class SharedBuffer:
    """A buffer of all ranks of a communicator, which grows. Its uses are collective, one after the other."""

    user: Any = None  #: the future of the sum that uses it

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        on_host = ctypes.c_int()
        library().comm_local_rank(communicator.pointer, None, ctypes.byref(on_host))
        self._is_useful = on_host.value == communicator.size > 1
        self._address: Optional[int] = None
        self._bytes = 0

    def reserve(self, count: int) -> bool:
        """Collective. Waits for the sum that uses it. Whether there are so many bytes: the same on all ranks."""
        if not self._is_useful or count < LARGE:
            return False
        if self.user is not None:
            self.user.wait()
            self.user = None
        if count <= self._bytes:
            return True
        if self._address is not None:
            library().comm_free(self._communicator.pointer, self._address)
        self._address, self._bytes = None, 0
        try:
            self._address = handle(library().comm_allocate, self._communicator.pointer, count).value
        except PeerLost:
            raise
        except Error:  # there is no memory on some rank: all get this error
            self._is_useful = False
            return False
        self._bytes = count
        return True

    def sum_of(self, operation: Operation, tensor: torch.Tensor) -> Operation:
        """The same all-reduce of a copy of the tensor in the buffer."""
        count = tensor.numel() * tensor.element_size()
        memory: Any = (ctypes.c_uint8 * count).from_address(self._address or 0)
        copy = torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape)
        copy.copy_(dense(tensor))
        _, _, *rest = operation.arguments
        return Operation("all_reduce", (None, self._address, *rest), copy, lambda: tensor.detach().copy_(copy))


class SharedBuffers:
    """Buffers that take turns, so that the next sums may begin while one goes on. All ranks use them in the same order."""

    def __init__(self, communicator: Communicator) -> None:
        self._buffers = [SharedBuffer(communicator) for _ in range(_SLOTS)]
        self._next = 0

    def reserve(self, count: int, goes_on: bool) -> Optional[SharedBuffer]:
        """Collective. A buffer of so many bytes: always the first one for a sum that the caller waits for. None on all ranks if
        memory of their own is better."""
        self._next = (self._next + 1) % _SLOTS if goes_on else 0
        buffer = self._buffers[self._next]
        return buffer if buffer.reserve(count) else None
