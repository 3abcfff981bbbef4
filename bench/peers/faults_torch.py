# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel with Gloo on CPUs, steps of 100 ms, a checkpoint every 10 steps, for bench/program_faults. It knows nothing of
who has started it.

usage: faults_torch.py FOLDER STEPS
Rank 0 appends "BEGAN ENDED STEP RANKS" to FOLDER/steps at the end of each step, each rank "RANK PID" to FOLDER/pids when it starts. A rank
raises an exception if there is a file FOLDER/raise-RANK, which it removes.
"""
import datetime
import os
import sys
import time

import torch
from torch import nn

folder, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
rank = torch.distributed.get_rank()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
first, checkpoint = 0, f"{folder}/checkpoint.pt"
if os.path.exists(checkpoint):
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
images, labels = torch.randn(48, 1, 28, 28), torch.randint(0, 10, (48,))
with open(f"{folder}/pids", "a", encoding="utf-8") as file:
    file.write(f"{rank} {os.getpid()}\n")
for step in range(first + 1, steps + 1):
    began, begin = time.time(), time.monotonic()
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    if os.path.exists(f"{folder}/raise-{rank}"):
        os.remove(f"{folder}/raise-{rank}")
        raise ValueError(f"wrong at step {step}")
    time.sleep(max(0, begin + 0.1 - time.monotonic()))
    if rank == 0:
        with open(f"{folder}/steps", "a", encoding="utf-8") as file:
            file.write(f"{began} {time.time()} {step} {torch.distributed.get_world_size()}\n")
        if step % 10 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)
