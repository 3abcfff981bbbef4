# SPDX-License-Identifier: Apache-2.0
"""distdl.Checkpoint with sharded models: FSDP2 and two-dimensional meshes. usage: states.py save|load FOLDER"""
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import distdl.torch

WAY, FOLDER = sys.argv[1:]
dist.init_process_group("distdl")
size = dist.get_world_size()
torch.manual_seed(3 if WAY == "save" else 4)
model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3)).to(torch.bfloat16)
for layer in (*model, model):
    fully_shard(layer, mesh=init_device_mesh("cpu", (size,)))
optimizer = torch.optim.Adam(model.parameters(), 0.1)
grid = init_device_mesh("cpu", (2, size // 2))
values = torch.arange(30.).reshape(5, 6)
placed = distribute_tensor(values if WAY == "save" else torch.zeros(5, 6), grid, [Replicate(), Shard(1)])
state = {"training": distdl.torch.Training(model, optimizer), "placed": placed, "step": 0}
checkpoint = distdl.Checkpoint(FOLDER)
if WAY == "save":
    model(torch.ones(2, 7, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    state["step"] = 3
    checkpoint.save(3, state)
else:
    checkpoint.load(state)
    assert state["step"] == 3
    assert torch.equal(values, placed.full_tensor())
    moments = [each["step"] for each in optimizer.state.values()]
    assert len(moments) == 4 and all(float(each) == 1 for each in moments), moments
total = sum(each.full_tensor().double().sum().item() for each in model.state_dict().values() if isinstance(each, DTensor))
checkpoint.close()
print("total", total)
dist.destroy_process_group()
distdl.run.finished()
