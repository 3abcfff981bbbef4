# SPDX-License-Identifier: Apache-2.0
"""Every collective of the backend "distdl" with values that each rank can work out by itself."""
import sys

import torch
import torch.distributed as dist

import distdl.torch
from distdl.torch import backend

if "group" in sys.argv:  # as older versions of torch
    backend.has_backends = lambda: False

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
         torch.bool, torch.complex64, torch.complex128]
distdl.torch.register()
dist.init_process_group("distdl")
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def values(rank, dtype, *shape):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) + rank) % 5).reshape(shape).to(dtype)


def same(expected, got, what):
    assert torch.equal(expected.cpu(), got), f"{what}: expected {expected}, got {got}"


def check_sums(dtype):
    everyone = torch.stack([values(rank, dtype, 4, 3) for rank in range(SIZE)])
    x = values(RANK, dtype, 4, 3)
    dist.all_reduce(x)
    expected = everyone.any(0) if dtype == torch.bool else everyone.sum(0).to(dtype)
    same(expected, x, f"all_reduce {dtype}")
    x = values(RANK, dtype, 3, 4).t()  # not contiguous
    dist.reduce(x, dst=1)
    if RANK == 1:
        other = torch.stack([values(rank, dtype, 3, 4).t() for rank in range(SIZE)])
        same(other.any(0) if dtype == torch.bool else other.sum(0).to(dtype), x, f"reduce {dtype}")
    whole, part = values(RANK, dtype, SIZE * 2, 3), torch.empty(2, 3, dtype=dtype)
    dist.reduce_scatter_tensor(part, whole)
    other = torch.stack([values(rank, dtype, SIZE * 2, 3) for rank in range(SIZE)])
    other = (other.any(0) if dtype == torch.bool else other.sum(0).to(dtype))[2 * RANK:2 * RANK + 2]
    same(other, part, f"reduce_scatter_tensor {dtype}")
    dist.reduce_scatter(part, list(whole.split(2)))
    same(other, part, f"reduce_scatter {dtype}")


def check_moves(dtype):
    x = values(RANK, dtype, 2, 3)
    dist.broadcast(x, src=1)
    same(values(1, dtype, 2, 3), x, f"broadcast {dtype}")
    outputs = [torch.empty(2, 3, dtype=dtype) for _ in range(SIZE)]
    mine = values(RANK, dtype, 3, 2).t()
    expected = [values(rank, dtype, 3, 2).t() for rank in range(SIZE)]
    dist.all_gather(outputs, mine)
    same(torch.stack(expected), torch.stack(outputs), f"all_gather {dtype}")
    flat = torch.empty(SIZE * 2, 3, dtype=dtype)
    dist.all_gather_into_tensor(flat, mine)
    same(torch.cat(expected), flat, f"all_gather_into_tensor {dtype}")
    dist.gather(mine, outputs if RANK == 2 % SIZE else None, dst=2 % SIZE)
    dist.scatter(mine, [each.clone() for each in expected] if RANK == 0 else None, src=0)
    same(expected[RANK], mine, f"scatter {dtype}")


def check_all_to_all():
    inputs = [torch.full((RANK + to,), 10. * RANK + to) for to in range(SIZE)]
    outputs = [torch.empty(RANK + source) for source in range(SIZE)]
    dist.all_to_all(outputs, inputs)
    for source in range(SIZE):
        same(torch.full((RANK + source,), 10. * source + RANK), outputs[source], "all_to_all")
    x, y = torch.arange(SIZE * 2.) + 100 * RANK, torch.empty(SIZE * 2)
    dist.all_to_all_single(y, x)
    same(torch.cat([torch.arange(2.) + 2 * RANK + 100 * source for source in range(SIZE)]), y, "all_to_all_single")
    rows, counts = torch.empty(sum(range(SIZE)), 2), list(range(SIZE))
    dist.all_to_all_single(rows, torch.full((RANK * SIZE, 2), float(RANK)), counts, [RANK] * SIZE)
    same(torch.cat([torch.full((source, 2), float(source)) for source in range(SIZE)]), rows, "all_to_all_single of rows")


def check_operations():
    for op, fold in ((dist.ReduceOp.MAX, torch.maximum), (dist.ReduceOp.MIN, torch.minimum), (dist.ReduceOp.PRODUCT, torch.mul),
                     (dist.ReduceOp.BAND, torch.bitwise_and), (dist.ReduceOp.BOR, torch.bitwise_or),
                     (dist.ReduceOp.BXOR, torch.bitwise_xor)):
        expected = values(0, torch.int32, 7)
        for rank in range(1, SIZE):
            expected = fold(expected, values(rank, torch.int32, 7))
        x = values(RANK, torch.int32, 7)
        dist.all_reduce(x, op)
        same(expected, x, str(op))
    x = values(RANK, torch.float32, 7)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    torch.testing.assert_close(sum(values(rank, torch.float32, 7) for rank in range(SIZE)) / SIZE, x)
    for wrong in (torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.bool)):
        try:
            dist.all_reduce(wrong, dist.ReduceOp.AVG)
            raise AssertionError("an average of integers")
        except (TypeError, ValueError):
            pass


def check_messages():
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got = [torch.empty(1000) for _ in range(3)]
    requests = [dist.irecv(got[tag], left, tag=tag) for tag in range(3)]
    requests += [dist.isend(torch.full((1000,), 10. * RANK + tag), right, tag=tag) for tag in reversed(range(3))]
    for request in requests:
        request.wait()
        assert request.is_completed()
    for tag in range(3):
        same(torch.full((1000,), 10. * left + tag), got[tag], "messages")
    both = [dist.P2POp(dist.isend, torch.full((4,), float(RANK)), right), dist.P2POp(dist.irecv, got[0][:4], left)]
    for request in dist.batch_isend_irecv(both):
        request.wait()
    same(torch.full((4,), float(left)), got[0][:4], "batch_isend_irecv")
    if RANK == 0:
        assert {dist.recv(got[0], tag=9) for _ in range(1, SIZE)} == set(range(1, SIZE))
        same(torch.full((1000,), 5.0), got[0], "recv from any rank")
    else:
        dist.send(torch.full((1000,), 5.0), 0, tag=9)


def check_groups_and_objects():
    dist.barrier()
    everyone = [None] * SIZE
    dist.all_gather_object(everyone, {"rank": RANK})
    assert everyone == [{"rank": rank} for rank in range(SIZE)], everyone
    pair = dist.new_group([0, SIZE - 1])
    if RANK in (0, SIZE - 1):
        x = torch.ones(3)
        dist.all_reduce(x, group=pair)
        assert x[0] == dist.get_world_size(pair)
    works = [torch.full((5,), float(RANK + k)) for k in range(4)]
    for work in [dist.all_reduce(each, async_op=True) for each in works]:
        work.wait()
    for k, each in enumerate(works):
        same(torch.full((5,), float(sum(rank + k for rank in range(SIZE)))), each, "async all_reduce")
    dist.all_reduce(torch.zeros(0))
    for count in (300_000, 900_000, 400_000):  # by memory that the ranks share
        x = (torch.arange(count) % 7 + RANK).to(torch.float32).view(-1, 2).t()
        dist.all_reduce(x)
        same((SIZE * (torch.arange(count) % 7) + sum(range(SIZE))).to(torch.float32).view(-1, 2).t(), x, "a large sum")
    works = [torch.full((300_000 + 100_000 * (k % 2),), float(RANK + k)) for k in range(7)]  # more than there are buffers
    waits = [dist.all_reduce(each, async_op=k != 4) for k, each in enumerate(works)]
    for k, each in enumerate(works):
        if k != 4:
            waits[k].wait()
        same(torch.full_like(each, float(sum(rank + k for rank in range(SIZE)))), each, "a large asynchronous sum")


def check_coalescing_and_splits():
    summed, gathered = torch.full((3,), RANK + 1.0), torch.empty(2 * SIZE)
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as together:
        group = dist.distributed_c10d._get_default_group()
        group.allreduce([summed])
        group._allgather_base(gathered, torch.full((2,), float(RANK)))
    together.wait()
    same(torch.full((3,), SIZE * (SIZE + 1) / 2), summed, "a coalesced sum")
    same(torch.arange(SIZE).repeat_interleave(2).float(), gathered, "a coalesced all-gather")
    part = dist.split_group(split_ranks=[[SIZE - 1, 0], list(range(1, SIZE - 1))])
    if RANK in (0, SIZE - 1):
        x = torch.tensor([RANK + 1.0])
        dist.all_reduce(x, group=part)
        same(torch.tensor([SIZE + 1.0]), x, "a sum of a split group")
        assert dist.get_rank(part) == (0 if RANK else 1)


for dtype in TYPES:
    check_sums(dtype)
    check_moves(dtype)
check_all_to_all()
check_operations()
check_messages()
check_groups_and_objects()
if backend.has_backends():
    check_coalescing_and_splits()
dist.destroy_process_group()
print("all right")
distdl.run.finished()
