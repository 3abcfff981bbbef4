# SPDX-License-Identifier: Apache-2.0
"""Steps of resnet18 (the variant for images of 32 x 32 pixels) with DistributedDataParallel, by several backends of torch.distributed which
take turns in one process, for bench/ddp_two_nodes. A rank of srun; needs torchvision.

usage: ddp_backends.py ROUNDS STEPS BATCH BUCKET_MIB
Rank 0 prints a line of JSON for each round: {"distdl": seconds, "gloo": seconds, "alone": seconds}, medians of STEPS steps of the slowest
rank; alone: without a sum of gradients.
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torchvision

import distdl.torch  # noqa: F401

rounds, steps, batch, bucket = (int(word) for word in sys.argv[1:])
BACKENDS = ["distdl", "gloo"]
torch.set_num_threads(1)
dist.init_process_group("distdl", rank=int(os.environ["SLURM_PROCID"]), world_size=int(os.environ["SLURM_NTASKS"]))


def network():
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False), torch.nn.Identity()
    return model.to(memory_format=torch.channels_last)


models = {name: torch.nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=bucket,
                                                          process_group=None if name == "distdl" else dist.new_group(backend=name))
          for name in BACKENDS}
models["alone"] = network()
optimizers = {name: torch.optim.SGD(model.parameters(), 0.001, 0.9) for name, model in models.items()}
random = {name: torch.Generator().manual_seed(dist.get_rank()) for name in models}


def step(name):
    """Seconds. Each has new samples: what is learnt by heart has gradients so small that processors are slow with them."""
    images = torch.randn(batch, 3, 32, 32, generator=random[name]).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), generator=random[name])
    dist.barrier()
    begin = time.perf_counter()
    optimizers[name].zero_grad(set_to_none=True)
    torch.nn.functional.cross_entropy(models[name](images), labels).backward()
    optimizers[name].step()
    return time.perf_counter() - begin


def seconds_of(name):
    slowest = torch.tensor([step(name) for _ in range(steps + 1)][1:])  # the first follows another backend's
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return statistics.median(slowest.tolist())


for name in models:  # buckets are built anew after the first step
    for _ in range(3):
        step(name)
for number in range(rounds):
    order = list(models) if number % 2 else list(models)[::-1]
    row = {name: seconds_of(name) for name in order}
    for one, other in zip(models["distdl"].parameters(), models["gloo"].parameters()):
        assert torch.equal(one, other), "the backends' weights differ"  # after equally many steps; a sum of two has one order
    if dist.get_rank() == 0:
        print(json.dumps(row), flush=True)
dist.barrier()
dist.destroy_process_group()
