# SPDX-License-Identifier: Apache-2.0
"""A PyTorch run that survives its workers: DistributedDataParallel under torchrun, a checkpoint every 10 steps, as PyTorch's
documentation of torchrun advises (https://pytorch.org/docs/stable/elastic/train_script.html). For bench/recovery.

usage: torchrun --standalone --nproc-per-node 2 --max-restarts 100 elastic_torch.py FOLDER STEPS
Rank 0 appends a line for each step to FOLDER/steps, every rank its pid to FOLDER/pids when it starts.
"""
import os
import sys

import torch
from torch import nn

folder, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
with open(f"{folder}/pids", "a", encoding="utf-8") as file:
    file.write(f"{os.getpid()}\n")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
first, checkpoint = 0, f"{folder}/checkpoint.pt"
if os.path.exists(checkpoint):
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
images, labels = torch.randn(48, 1, 28, 28), torch.randint(0, 10, (48,))
for step in range(first + 1, steps + 1):
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    if rank == 0:
        with open(f"{folder}/steps", "a", encoding="utf-8") as file:
            file.write(f"{step}\n")
        if step % 10 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)
