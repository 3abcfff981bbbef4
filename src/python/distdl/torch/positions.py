# SPDX-License-Identifier: Apache-2.0
"""Samples and random numbers as functions of the position in the run: of seed, step and microbatch, never of the rank."""
from __future__ import annotations

from typing import Iterator, Optional, Sequence

import torch

_MASK = (1 << 64) - 1


def seed_at(seed: int, step: int, microbatch: int) -> int:
    """A seed of 63 bits for this position. Source: SplitMix64 (Steele, Lea, Flood, 2014), once for each number."""
    state = 0
    for number in (seed, step, microbatch):
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 1


class Sampler:
    """The order of samples: a permutation for each epoch, of which microbatch m of a step has the m-th part.

    A step has microbatches * batch samples; those that are left at the end of an epoch are left out.

    As batch_sampler of a DataLoader it yields the samples of this rank's microbatches, in the order of
    FixedSum.microbatches(), from step `start` on:

        sampler = distdl.torch.Sampler(len(data), batch=16, microbatches=8, own=sums.own, start=step, steps=1000)
        batches = iter(torch.utils.data.DataLoader(data, batch_sampler=sampler))

    samples: their number. batch: samples of a microbatch. own: this rank's microbatches; None: all.
    """

    def __init__(self, samples: int, batch: int, microbatches: int, own: Optional[Sequence[int]] = None, seed: int = 0,
                 start: int = 0, steps: Optional[int] = None) -> None:
        self.steps_per_epoch = samples // (batch * microbatches)
        if self.steps_per_epoch == 0:
            raise ValueError(f"{samples} samples are less than those of a step, {batch} * {microbatches}")
        self.samples, self.batch, self.microbatches, self.seed = samples, batch, microbatches, seed
        self.own = range(microbatches) if own is None else own
        self.start, self.steps = start, self.steps_per_epoch if steps is None else steps
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def indices(self, step: int, microbatch: int) -> "list[int]":
        """The samples of a microbatch: `batch` numbers from 0 to samples-1."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(seed_at(self.seed, epoch, -1))
            self._epoch, self._order = epoch, torch.randperm(self.samples, generator=generator)
        begin = (within * self.microbatches + microbatch) * self.batch
        return [int(each) for each in self._order[begin:begin + self.batch]]

    def __iter__(self) -> Iterator["list[int]"]:
        for step in range(self.start, self.steps):
            for microbatch in self.own:
                yield self.indices(step, microbatch)

    def __len__(self) -> int:
        return max(0, self.steps - self.start) * len(self.own)
