# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays and torch tensors as the memory that libdistdl.so takes. Neither package has to be there."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Optional

from . import _library

#: Names of element types, as NumPy and torch call them: the number that the library knows, and the size in bytes.
#: A type without a number is saved as bytes.
ELEMENTS: dict[str, tuple[Optional[int], int]] = {
    "uint8": (_library.U8, 1), "float32": (_library.F32, 4), "float64": (_library.F64, 8), "float16": (_library.F16, 2),
    "bfloat16": (_library.BF16, 2), "int32": (_library.I32, 4), "int64": (_library.I64, 8),
    "bool": (_library.BOOL, 1), "int8": (_library.I8, 1), "int16": (_library.I16, 2), "complex64": (_library.C64, 8),
    "complex128": (_library.C128, 16), "uint16": (None, 2), "uint32": (None, 4), "uint64": (None, 8),
    "float8_e4m3fn": (None, 1), "float8_e5m2": (None, 1),
}
#: Earlier versions saved these as bytes.
ONCE_BYTES = ("bool", "int8", "int16", "complex64", "complex128")
NAME_OF_TYPE = {number: name for name, (number, _) in ELEMENTS.items() if number is not None}


@dataclass(frozen=True)
class Memory:
    """A dense array in host memory, in row-major order. `owner` keeps it alive."""

    address: int
    element: str
    shape: tuple[int, ...]
    owner: Any

    @property
    def count(self) -> int:
        """The number of elements."""
        product = 1
        for extent in self.shape:
            product *= extent
        return product

    @property
    def bytes(self) -> int:
        return self.count * ELEMENTS[self.element][1]

    @property
    def type(self) -> int:
        """The number of the element type. Raises TypeError for one that the library does not compute with."""
        number = ELEMENTS[self.element][0]
        if number is None:
            raise TypeError(f"arrays of {self.element} cannot be reduced")
        return number


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    """Whether it is a NumPy array or scalar with a dtype, or a torch tensor."""
    numpy = sys.modules.get("numpy")
    return is_tensor(value) or (numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)))


def element_of(value: Any) -> str:
    """The name of the element type. Raises TypeError for one that cannot be exchanged or saved."""
    name = str(value.dtype).replace("torch.", "")
    if name not in ELEMENTS:
        raise TypeError(f"arrays of {name} cannot be exchanged or saved")
    return name


def memory_of(value: Any, *, is_written: bool = False) -> Memory:
    """The memory of an array or tensor. One that is not dense is copied, unless it is to be written.

    Raises TypeError for other objects, tensors of other devices, and element types that are not known.
    """
    if not is_array(value):
        raise TypeError(f"a NumPy array or a torch tensor is needed, not {type(value).__name__}")
    return _of_tensor(value, is_written) if is_tensor(value) else _of_numpy(value, is_written)


def _of_tensor(value: Any, is_written: bool) -> Memory:
    if value.device.type != "cpu":
        raise TypeError(f"the tensor is on {value.device}: it must be in host memory")
    value = value.detach()
    dense = value.contiguous().resolve_conj().resolve_neg()
    if is_written and dense.data_ptr() != value.data_ptr():
        raise TypeError("the tensor to be written must be contiguous")
    return Memory(dense.data_ptr(), element_of(dense), tuple(dense.shape), dense)


def _of_numpy(value: Any, is_written: bool) -> Memory:
    import numpy

    is_native = value.dtype.isnative
    dense = numpy.asarray(value if is_native else value.astype(value.dtype.newbyteorder("=")), order="C")
    if is_written and (dense.ctypes.data != value.ctypes.data or not is_native or not value.flags.writeable):
        raise TypeError("the array to be written must be contiguous, writeable and of native byte order")
    return Memory(dense.ctypes.data, element_of(dense), tuple(dense.shape), dense)


def empty(package: str, element: str, shape: "list[int]") -> Any:
    """A new array of "numpy" or "torch". NumPy has no bfloat16 and the like: a tensor then. Raises ImportError."""
    if package == "numpy":
        import numpy

        try:
            return numpy.empty(shape, numpy.dtype(element))
        except TypeError:
            pass
    import torch

    return torch.empty(shape, dtype=getattr(torch, element))
