# SPDX-License-Identifier: Apache-2.0
"""Sums with the same bits on any number of ranks."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from ._library import AVERAGE, SUM, handle, library
from .arrays import ELEMENTS, memory_of
from .communicator import Communicator


class FixedSum:
    """A step's sum over a fixed number of microbatches, the leaves, which are divided among the ranks.

    They are added along one tree over leaves, so the bits depend neither on the number of ranks nor on who has which.

        total = distdl.FixedSum(count=1000, element="float32", leaves=8, comm=comm)
        for leaf in total.leaves:
            total.add(gradient_of(leaf))
        total.all_reduce(result)

    count: elements of each array. average: divide by the number of leaves, once. comm: None for one process.
    """

    def __init__(self, count: int, element: str, leaves: int, average: bool = False,
                 comm: Optional[Communicator] = None) -> None:
        number = ELEMENTS[element][0]
        if number is None:
            raise TypeError(f"arrays of {element} cannot be summed")
        self.count = count
        self.element = element
        self._pointer: Optional[ctypes.c_void_p] = handle(
            library().sum_create, comm.pointer if comm else None, count, number, AVERAGE if average else SUM, leaves, 0, -1)
        first, own = ctypes.c_int(), ctypes.c_int()
        library().sum_leaves(self._pointer, ctypes.byref(first), ctypes.byref(own))
        self.leaves = range(first.value, first.value + own.value)  #: the leaves of this rank

    def add(self, values: Any) -> None:
        """Adds the array of the next own leaf, in the order of leaves. It may change afterwards."""
        memory = memory_of(values)
        self._check(memory)
        library().sum_add(self._pointer, memory.address)

    def all_reduce(self, result: Any) -> None:
        """Collective, when all own leaves are added: fills `result` with the sum over all. Then the next step begins."""
        memory = memory_of(result, is_written=True)
        self._check(memory)
        library().sum_all_reduce(self._pointer, memory.address, None)

    def close(self) -> None:
        """Before its communicator is closed."""
        if self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            library().sum_close(pointer)

    def _check(self, memory: Any) -> None:
        if (memory.count, memory.element) != (self.count, self.element):
            raise TypeError(f"the sum is of {self.count} elements of {self.element}, the array has "
                            f"{memory.count} of {memory.element}")
