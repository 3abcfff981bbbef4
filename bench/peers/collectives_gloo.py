#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Gloo's side (through PyTorch) of "distdl bench comm --peers gloo".

usage: collectives_gloo.py RANK SIZE HOST PORT

Each rank runs one; HOST and PORT are rank 0's. Rank 0 reads lines "measure OPERATION TYPE BYTES SECONDS" and answers "times T1 T2
..." (seconds of a call, the slowest rank's; each the mean of a block of calls that follows a barrier) or "refused WHY"; it ends
with its input. Between commands nobody spins. All data are in place where Gloo can, verified once before they are timed.
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist

BLOCKS, BLOCK_SECONDS = 500, 200e-6
TYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "int32": torch.int32, "int64": torch.int64}
SLICED = ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter")


class Refused(Exception):
    pass


class Task:
    def __init__(self, operation, kind, size_in_bytes, rank, size):
        if kind not in TYPES:
            raise Refused(f"PyTorch with Gloo has no type {kind}")
        self.name, self.rank, self.size = operation, rank, size
        element = torch.empty(0, dtype=TYPES[kind]).element_size()
        count = int(float(size_in_bytes)) // element
        self.slice = count // size
        if operation in SLICED:
            count = self.slice * size
        self.values = torch.zeros(count, dtype=TYPES[kind])
        self.slices = list(self.values.split(self.slice)) if operation in SLICED and self.slice else []
        self.calls = {"barrier": dist.barrier, "broadcast": lambda: dist.broadcast(self.values, 0),
                      "reduce": lambda: dist.reduce(self.values, 0), "all_reduce": lambda: dist.all_reduce(self.values),
                      "all_gather": lambda: dist.all_gather(self.slices, self.slices[rank]),
                      "gather": lambda: dist.gather(self.slices[rank], self.slices if rank == 0 else None, 0),
                      "scatter": lambda: dist.scatter(self.slices[rank], self.slices if rank == 0 else None, 0),
                      "send_receive": self.there_and_back}
        if operation not in self.calls or (operation in SLICED and not self.slices):
            raise Refused("not in Gloo")
        self.call = self.calls[operation]

    def there_and_back(self):
        if self.rank == 0:
            dist.send(self.values, self.size - 1)
            dist.recv(self.values, self.size - 1)
        elif self.rank == self.size - 1:
            dist.recv(self.values, 0)
            dist.send(self.values, 0)

    def pattern(self, rank):
        return ((torch.arange(len(self.values)) + rank) % 5).to(self.values.dtype)

    def is_right(self):
        self.values.copy_(self.pattern(self.rank))
        self.call()
        want, here = None, slice(None)
        if self.name == "all_reduce" or (self.name == "reduce" and self.rank == 0):
            want = sum(self.pattern(rank) for rank in range(self.size))
        elif self.name == "broadcast" or (self.name == "send_receive" and self.rank in (0, self.size - 1)):
            want = self.pattern(0)
        elif self.name == "all_gather" or (self.name == "gather" and self.rank == 0):
            owners = torch.arange(len(self.values)) // self.slice
            want = ((torch.arange(len(self.values)) + owners) % 5).to(self.values.dtype)
        elif self.name == "scatter":
            here = slice(self.rank * self.slice, (self.rank + 1) * self.slice)
            want = self.pattern(0)[here]
        wrong = torch.tensor([0 if want is None else int((self.values[here] != want).sum())])
        dist.all_reduce(wrong)
        self.values.zero_()
        return int(wrong) == 0

    def timed(self, calls):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            self.call()
        return (time.perf_counter() - start) / calls

    def measure(self, seconds):
        if not self.is_right():
            raise Refused("wrong result")
        calls = 1
        while True:
            block = torch.tensor([self.timed(calls) * calls], dtype=torch.float64)
            dist.broadcast(block, 0)
            if float(block) >= BLOCK_SECONDS:
                break
            calls *= 2
        blocks = min(max(int(seconds / float(block)), 3), BLOCKS)
        times = torch.tensor([self.timed(calls) for _ in range(blocks)], dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX)
        return times / (2 if self.name == "send_receive" else 1)


def commands(store, rank):
    """Rank 0's input, for all."""
    number = 0
    while True:
        number += 1
        if rank == 0:
            line = sys.stdin.readline().strip()
            store.set(f"command {number}", line or "quit")
        else:
            line = store.get(f"command {number}").decode()  # blocks in the kernel
        if line in ("", "quit"):
            return
        yield line.split()[1:]


def main():
    rank, size, host, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(1)
    patience = datetime.timedelta(hours=12)
    store = dist.TCPStore(host, port, size, rank == 0, patience)
    dist.init_process_group("gloo", store=dist.PrefixStore("gloo", store), rank=rank, world_size=size, timeout=patience)
    if rank == 0:
        print(f"ready Gloo of PyTorch {torch.__version__}", flush=True)
    for operation, kind, size_in_bytes, seconds in commands(store, rank):
        try:
            answer = "times " + " ".join(f"{t:.9g}" for t in Task(operation, kind, size_in_bytes, rank, size).measure(float(seconds)).tolist())
        except Refused as refused:
            answer = f"refused {refused}"
        if rank == 0:
            print(answer, flush=True)


main()
