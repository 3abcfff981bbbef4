# SPDX-License-Identifier: Apache-2.0
"""FSDP2 (fully_shard). Lines with "# distdl" are the change.

    distdl run --local -n 2 -- python3 fsdp2.py
"""
import digits
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import distdl.torch  # distdl

dist.init_process_group("distdl")  # distdl
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
images, labels, *validation = digits.load()
model = digits.network()
mesh = init_device_mesh("cpu", (size,))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), 0.003)
state = {"training": distdl.torch.Training(model, optimizer)}  # distdl
for step in distdl.steps(digits.STEPS, state, every=20):  # distdl
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(step))
    mine = order[rank * digits.BATCH:(rank + 1) * digits.BATCH]
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
    loss.backward()
    optimizer.step()
    distdl.metrics.log(loss=loss.item())  # distdl
accuracy = digits.accuracy(model, *validation)
if rank == 0:
    print(f"accuracy {accuracy:.3f}")
dist.destroy_process_group()
