# SPDX-License-Identifier: Apache-2.0
"""Process groups that lose ranks: shrink, reconfigure, abort, and the error that names the loss."""
import datetime
import sys
import time

import torch
import torch.distributed as dist

import distdl.torch

WAY = sys.argv[1]
dist.init_process_group("distdl", timeout=datetime.timedelta(seconds=30))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
dist.barrier()
backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
x = torch.full((3,), RANK + 1.0)


def coalesced():
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True):
        work = dist.distributed_c10d._get_default_group().allreduce([x])
    return work


if WAY == "shrink":
    if RANK == 1:
        time.sleep(8)  # it is there, but takes no part
    else:
        dist.shrink_group([1])
        dist.all_reduce(x)
        assert dist.get_world_size() == SIZE - 1 and x[0] == sum(range(1, SIZE + 1)) - 2, x
        dist.destroy_process_group()
elif WAY == "reconfigure":
    handles = [None] * SIZE
    dist.all_gather_object(handles, dist.distributed_c10d._get_reconfigure_handle())
    dist.distributed_c10d._reconfigure(1, handles[::-1]).wait()
    dist.all_reduce(x)
    assert x[0] == sum(range(1, SIZE + 1)), x
    assert backend.communicator.rank == SIZE - 1 - RANK
    dist.destroy_process_group()
elif WAY == "abort":
    try:
        if RANK == 1:
            backend.abort()
        dist.all_reduce(x)
        raise AssertionError("the sum of an aborted group")
    except distdl.PeerLost as error:
        print("lost", error)
elif WAY == "asynchronous":
    if RANK == 1:
        backend.abort()
    for begin in (lambda: dist.all_reduce(x, async_op=True), lambda: dist.irecv(x, 1 - RANK), *[coalesced] * backend.supports_coalescing):
        try:
            begin().wait()
            raise AssertionError("an operation of an aborted group")
        except distdl.PeerLost as error:
            print("lost", error)
elif WAY == "backward":
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    if RANK == 1:
        backend.abort()
        time.sleep(8)
    else:
        try:
            model(torch.ones(2, 4)).sum().backward()
            raise AssertionError("the gradients of an aborted group")
        except RuntimeError as error:
            print("lost", str(error).splitlines()[0])
print("done", RANK)
distdl.run.finished()
