# SPDX-License-Identifier: Apache-2.0
"""Collectives of torch tensors as operations of libdistdl.so."""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import _library
from .._library import sizes

_TYPES = {torch.float32: _library.F32, torch.float64: _library.F64, torch.float16: _library.F16,
          torch.bfloat16: _library.BF16, torch.int32: _library.I32, torch.int64: _library.I64, torch.uint8: _library.U8,
          torch.int8: _library.I8, torch.int16: _library.I16, torch.bool: _library.BOOL, torch.complex64: _library.C64,
          torch.complex128: _library.C128}
_Op: Any = dist.ReduceOp.RedOpType
_NATIVE = {_Op.SUM: _library.SUM, _Op.MAX: _library.MAX, _Op.MIN: _library.MIN, _Op.AVG: _library.AVERAGE}
_FOLDED: dict[Any, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    _Op.PRODUCT: torch.mul, _Op.BAND: torch.bitwise_and, _Op.BOR: torch.bitwise_or, _Op.BXOR: torch.bitwise_xor}


@dataclass
class Operation:
    """A call of distdl_NAME(comm, *arguments, request). `finish` puts the result where it belongs."""

    name: str
    arguments: tuple[Any, ...]
    owners: Any  #: what must stay in memory until it is done
    finish: Optional[Callable[[], Any]] = None


def _address(tensor: Optional[torch.Tensor]) -> Optional[int]:
    return None if tensor is None else tensor.data_ptr()


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy of it that is contiguous. Raises ValueError for one that is not in host memory."""
    if tensor.device.type != "cpu":
        raise ValueError(f"the backend distdl is for CPU tensors, this one is on {tensor.device}")
    if tensor.is_sparse:
        raise ValueError("the backend distdl is for dense tensors")
    memory: torch.Tensor = tensor.detach().contiguous().resolve_conj().resolve_neg()
    return memory


def _copier(target: torch.Tensor, source: torch.Tensor) -> Optional[Callable[[], Any]]:
    """Copies the result to the tensor for which it is meant, unless it is there."""
    return None if source.data_ptr() == target.data_ptr() else lambda: target.detach().copy_(source)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All elements behind each other."""
    return torch.cat([dense(tensor).reshape(-1) for tensor in tensors])


def _cut(flat: Any, targets: Sequence[torch.Tensor]) -> None:
    for target, part in zip(targets, flat.split([target.numel() for target in targets])):
        target.detach().copy_(part.view(target.shape))


def _same_types(tensors: Sequence[torch.Tensor]) -> None:
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise TypeError("the tensors must have one dtype, not " + ", ".join(str(tensor.dtype) for tensor in tensors))


def broadcast(tensor: torch.Tensor, root: int) -> Operation:
    memory = dense(tensor)
    return Operation("broadcast", (_address(memory), _bytes(memory), _library.U8, root), memory, _copier(tensor, memory))


def _type(tensor: torch.Tensor, op: Any) -> int:
    """The library's number of the type. Raises TypeError for an operation that its values do not have."""
    if tensor.dtype not in _TYPES:
        raise TypeError(f"the backend distdl does not add tensors of {tensor.dtype}")
    if tensor.is_complex() and op not in (_Op.SUM, _Op.AVG):
        raise TypeError(f"complex numbers have no {op}")
    if op == _Op.AVG and not (tensor.is_floating_point() or tensor.is_complex()):
        raise TypeError(f"tensors of {tensor.dtype} have no average")
    return _TYPES[tensor.dtype]


def _folded(memory: torch.Tensor, op: Any, size: int, take: Callable[[torch.Tensor], Any]) -> Operation:
    """Gathers the values of all ranks, and reduces them in the order of ranks."""
    if op not in _FOLDED:
        raise ValueError(f"the backend distdl has no {op}")
    gathered = torch.empty((size, *memory.shape), dtype=memory.dtype)

    def finish() -> None:
        result = gathered[0].clone()
        for each in gathered[1:]:
            result = _FOLDED[op](result, each)
        take(result)

    return Operation("all_gather", (_address(memory), _address(gathered), _bytes(memory), None, _library.U8),
                     (memory, gathered), finish)


def all_reduce(tensor: torch.Tensor, op: Any, size: int) -> Operation:
    memory = dense(tensor)
    if op not in _NATIVE:
        return _folded(memory, op, size, lambda result: tensor.detach().copy_(result))
    arguments = (None, _address(memory), memory.numel(), _type(memory, op), _NATIVE[op])
    return Operation("all_reduce", arguments, memory, _copier(tensor, memory))


def reduce(tensor: torch.Tensor, op: Any, root: int, rank: int, size: int) -> Operation:
    memory = dense(tensor)
    if op not in _NATIVE:
        return _folded(memory, op, size, lambda result: tensor.detach().copy_(result) if rank == root else None)
    result = memory if rank == root else None
    arguments = (_address(memory), _address(result), memory.numel(), _type(memory, op), _NATIVE[op], root)
    return Operation("reduce", arguments, memory, None if result is None else _copier(tensor, memory))


def reduce_scatter(output: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Any, rank: int) -> Operation:
    """flat: the values of all slices. counts: the elements of each rank's slice."""
    memory = dense(flat).reshape(-1)
    _same_types([output, flat])
    if counts[rank] != output.numel() or sum(counts) != memory.numel():
        raise ValueError(f"the input has slices of {list(counts)} elements, the output has {output.numel()}")
    if op not in _NATIVE:
        begin = sum(counts[:rank])
        return _folded(memory, op, len(counts), lambda result: output.detach().copy_(
            result[begin:begin + counts[rank]].view(output.shape)))
    result = dense(output)
    arguments = (_address(memory), _address(result), 0, sizes(counts), _type(memory, op), _NATIVE[op])
    return Operation("reduce_scatter", arguments, (memory, result), _copier(output, result))


def all_gather_flat(output: torch.Tensor, tensor: torch.Tensor, size: int) -> Operation:
    """Fills `output` with the values of all ranks, which have equal numbers of elements."""
    memory, result = dense(tensor), dense(output)
    _same_types([output, tensor])
    if output.numel() != size * tensor.numel():
        raise ValueError(f"the output has {output.numel()} elements, but {size} ranks have {tensor.numel()} each")
    return Operation("all_gather", (_address(memory), _address(result), _bytes(memory), None, _library.U8),
                     (memory, result), _copier(output, result))


def all_gather(outputs: Sequence[torch.Tensor], tensor: torch.Tensor) -> Operation:
    """outputs[r]: a tensor for that of rank r."""
    _same_types([*outputs, tensor])
    memory = dense(tensor)
    result = torch.empty(sum(output.numel() for output in outputs), dtype=tensor.dtype)
    arguments = (_address(memory), _address(result), 0, sizes([_bytes(output) for output in outputs]), _library.U8)
    return Operation("all_gather", arguments, (memory, result), lambda: _cut(result, outputs))


def gather(outputs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> Operation:
    """outputs: on the root a tensor for each rank, else none."""
    _same_types([*outputs, tensor])
    memory = dense(tensor)
    result = torch.empty(sum(output.numel() for output in outputs), dtype=tensor.dtype) if outputs else None
    arguments = (_address(memory), _address(result), _bytes(memory), None, _library.U8, root)
    return Operation("gather", arguments, (memory, result), None if result is None else lambda: _cut(result, outputs))


def scatter(output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int) -> Operation:
    """inputs: on the root a tensor for each rank, else none."""
    _same_types([output, *inputs])
    memory = joined(inputs) if inputs else None
    result = dense(output)
    arguments = (_address(memory), _address(result), _bytes(result), None, _library.U8, root)
    return Operation("scatter", arguments, (memory, result), _copier(output, result))


def all_to_all(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Operation:
    """Sends inputs[r] to rank r; outputs[r] gets that of rank r for this one."""
    _same_types([*outputs, *inputs])
    memory = joined(inputs)
    result = torch.empty(sum(output.numel() for output in outputs), dtype=memory.dtype)
    arguments = (_address(memory), _address(result), 0, sizes([_bytes(each) for each in inputs]),
                 sizes([_bytes(each) for each in outputs]), _library.U8)
    return Operation("all_to_all", arguments, (memory, result), lambda: _cut(result, outputs))


def rows(tensor: Any, counts: Sequence[int], size: int) -> Any:
    """The slices of a tensor along its first dimension: so many rows each, or equal ones if there are no counts."""
    if not counts and (tensor.dim() == 0 or tensor.shape[0] % size):
        raise ValueError(f"the rows of a tensor of shape {list(tensor.shape)} cannot be divided among {size} ranks")
    return tensor.detach().split(list(counts) or [tensor.shape[0] // size] * size)


def barrier() -> Operation:
    return Operation("barrier", (), None)


def send(tensor: torch.Tensor, to: int, tag: int) -> Operation:
    memory = dense(tensor)
    return Operation("send", (_address(memory), _bytes(memory), to, tag), memory)


def receive(tensor: torch.Tensor, source: int, tag: int) -> Operation:
    memory = dense(tensor)
    return Operation("receive", (_address(memory), _bytes(memory), source, tag), memory, _copier(tensor, memory))


class Received(List[Any]):
    """The tensors of a message, and who has sent it."""

    source = -1


def receive_any(tensor: torch.Tensor, tag: int, result: Received) -> Operation:
    memory, source = dense(tensor), ctypes.c_int(-1)
    copy = _copier(tensor, memory)

    def finish() -> None:
        result.source = source.value
        if copy:
            copy()

    return Operation("receive_any", (_address(memory), _bytes(memory), tag, ctypes.addressof(source)), (memory, source), finish)


def begin(comm: Optional[ctypes.c_void_p], operation: Operation) -> ctypes.c_void_p:
    """Begins it. Returns the request."""
    request = ctypes.c_void_p()
    getattr(_library.library(), operation.name)(comm, *operation.arguments, ctypes.addressof(request))
    return request


def complete(comm: Optional[ctypes.c_void_p], operation: Operation) -> None:
    """Does it, and waits until it is done."""
    getattr(_library.library(), operation.name)(comm, *operation.arguments, None)
    if operation.finish:
        operation.finish()
