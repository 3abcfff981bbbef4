# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel: weights that are equal on all ranks, and those of one process, up to rounding."""
import copy
import hashlib

import torch
import torch.distributed as dist

import distdl.torch

dist.init_process_group("distdl")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(20, 500), torch.nn.ReLU(), torch.nn.Linear(500, 5))
alone = copy.deepcopy(model)
data, target = torch.randn(10, 12, 20), torch.randn(10, 12, 5)
parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
for net, mine in ((parallel, slice(RANK, None, SIZE)), (alone, slice(None))):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(10):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(data[step, mine]), target[step, mine]).backward()
        optimizer.step()
for one, other in zip(model.parameters(), alone.parameters()):
    torch.testing.assert_close(one, other)
flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
print("digest", hashlib.sha256(flat.numpy().tobytes()).hexdigest())
dist.destroy_process_group()
distdl.run.finished()
