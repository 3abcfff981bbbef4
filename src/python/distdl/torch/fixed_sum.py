# SPDX-License-Identifier: Apache-2.0
"""Data-parallel gradients with the same bits on any number of ranks."""
from __future__ import annotations

import warnings
from typing import Any, Iterator, Optional

import torch

from .. import sums
from ..communicator import Communicator, world
from .operations import dense
from .positions import seed_at


def fixed_sum(model: torch.nn.Module, microbatches: int, seed: int = 0, threads: Optional[int] = 1,
              comm: Optional[Communicator] = None) -> "FixedSum":
    """Data parallelism whose weights are the same, bit for bit, on any number of ranks.

        sums = distdl.torch.fixed_sum(model, microbatches=8)
        for step in range(first, steps):
            for number in sums.microbatches(step):  # those of this rank
                x, y = batch_of(step, number)       # distdl.torch.Sampler
                loss_of(model(x), y).backward()
            optimizer.step()

    Collective: rank 0's parameters and buffers become those of all. Do not wrap the model in DistributedDataParallel, which
    divides and adds in an order that depends on the ranks.

    The loss of a microbatch is a mean over its samples, and the gradient the mean over all microbatches.

    microbatches: of a step, over all ranks, whatever their number. seed: of the random numbers of dropout and the like.
    threads: of torch on each rank, because the bits of its kernels depend on them; None: left as it is.
    comm: the ranks; None: all that were started together.
    """
    return FixedSum(model, microbatches, seed, threads, world() if comm is None else comm)


class FixedSum:
    """See fixed_sum()."""

    def __init__(self, model: torch.nn.Module, microbatches: int, seed: int, threads: Optional[int],
                 comm: Communicator) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        _warn_of_running_statistics(model)
        self.seed, self._comm = seed, comm
        self._parameters = [each for each in model.parameters() if each.requires_grad]
        for tensor in [*model.parameters(), *model.buffers()]:
            _broadcast(comm, tensor.detach())
        by_type: "dict[torch.dtype, list[torch.nn.Parameter]]" = {}
        for parameter in self._parameters:
            by_type.setdefault(parameter.dtype, []).append(parameter)
        self._parts = [_Part(each, microbatches, comm) for each in by_type.values()]
        own: Any = self._parts[0].total.leaves if self._parts else range(0)
        self.own: range = own  #: the numbers of this rank's microbatches

    def microbatches(self, step: int) -> Iterator[int]:
        """Yields the numbers of this rank's microbatches of a step. After the last one the gradients are those of the step.

        Before each one the gradients are cleared, and torch's random numbers begin anew at a place that depends on seed, step
        and number. Collective; raises PeerLost. It must run to its end.
        """
        for number in self.own:
            self._clear()
            torch.manual_seed(seed_at(self.seed, step, number))
            yield number
            for part in self._parts:
                part.add()
        self._clear()
        for part in self._parts:
            part.finish()

    def mean(self, value: Any) -> float:
        """Collective: the mean over ranks of a number, such as a loss for the log. Its bits may depend on the ranks."""
        tensor = torch.as_tensor(float(value), dtype=torch.float64).reshape(1)
        self._comm.all_reduce(tensor, "average")
        return float(tensor[0])

    def close(self) -> None:
        """Before its communicator is closed."""
        for part in self._parts:
            part.total.close()

    def _clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


class _Part:
    """The gradients of one dtype, behind each other. A gradient that is missing counts as zeros."""

    def __init__(self, parameters: "list[torch.nn.Parameter]", microbatches: int, comm: Communicator) -> None:
        self._parameters = parameters
        flat: Any = torch.zeros(sum(each.numel() for each in parameters), dtype=parameters[0].dtype)
        parts = flat.split([each.numel() for each in parameters])
        self._flat, self._views = flat, [part.view(each.shape) for part, each in zip(parts, parameters)]
        name = str(self._flat.dtype).replace("torch.", "")
        self.total = sums.FixedSum(self._flat.numel(), name, microbatches, average=True, comm=comm)

    def add(self) -> None:
        for parameter, view in zip(self._parameters, self._views):
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
        self.total.add(self._flat)

    def finish(self) -> None:
        self.total.all_reduce(self._flat)
        for parameter, view in zip(self._parameters, self._views):
            parameter.grad = view


def _broadcast(comm: Communicator, tensor: torch.Tensor) -> None:
    memory = dense(tensor)
    comm.broadcast(memory)
    if memory.data_ptr() != tensor.data_ptr():
        tensor.copy_(memory)


def _warn_of_running_statistics(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if getattr(module, "track_running_stats", False):
            warnings.warn(f"{name or 'the model'} keeps running statistics of the microbatches of its rank: they depend on the "
                          "number of ranks. Use GroupNorm or LayerNorm, or freeze them", stacklevel=4)
            return
