# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel. Lines with "# distdl" are what a script changes: it stops in time, resumes, and is watched.

    distdl run --local -n 2 -- python3 ddp.py
"""
import digits
import torch
import torch.distributed as dist

import distdl.torch  # distdl

dist.init_process_group("distdl")  # distdl
rank = dist.get_rank()
torch.manual_seed(1)
images, labels, *validation = digits.load()
model = torch.nn.parallel.DistributedDataParallel(digits.network())
optimizer = torch.optim.Adam(model.parameters(), 0.003)
for step in distdl.steps(digits.STEPS, {"model": model, "optimizer": optimizer}, every=20):  # distdl
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(step))
    mine = order[rank * digits.BATCH:(rank + 1) * digits.BATCH]
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
    loss.backward()
    optimizer.step()
    distdl.metrics.log(loss=loss.item())  # distdl
if rank == 0:
    print(f"accuracy {digits.accuracy(model.module, *validation):.3f}")
dist.destroy_process_group()
