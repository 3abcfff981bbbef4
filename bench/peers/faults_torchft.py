# SPDX-License-Identifier: Apache-2.0
"""The program of faults_torch.py for torchft, for bench/program_faults: a replica group of one process, which torchrun starts, and which asks
torchft's lighthouse at each step who takes part. A step that does not succeed on all of them is dropped. A process that starts
gets the newest state from the others, so that checkpoints are needed only for when all are lost; they are written all the same.

usage: faults_torchft.py FOLDER STEPS, with REPLICA_GROUP_ID and TORCHFT_LIGHTHOUSE
"""
import datetime
import os
import sys
import time

import torch
from torch import nn
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

folder, steps, replica = sys.argv[1], int(sys.argv[2]), int(os.environ["REPLICA_GROUP_ID"])
torch.set_num_threads(1)
store = torch.distributed.TCPStore(os.environ["MASTER_ADDR"], 0, is_master=True, wait_for_workers=False)
state_of = lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()}  # noqa: E731


def load(state):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


# The timeouts of torchft's own example of DDP.
manager = Manager(pg=ProcessGroupGloo(timeout=datetime.timedelta(seconds=5)), min_replica_size=1, load_state_dict=load, state_dict=state_of,
                  replica_id=f"replica_{replica}", timeout=datetime.timedelta(seconds=30), rank=0, world_size=1,
                  store_addr=os.environ["MASTER_ADDR"], store_port=store.port)
torch.manual_seed(0)
model = DistributedDataParallel(manager, nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = Optimizer(manager, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
images, labels = torch.randn(48, 1, 28, 28), torch.randint(0, 10, (48,))
with open(f"{folder}/pids", "a", encoding="utf-8") as file:
    file.write(f"{replica} {os.getpid()}\n")
while manager.current_step() < steps:
    began, begin, before = time.time(), time.monotonic(), manager.current_step()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    if os.path.exists(f"{folder}/raise-{replica}"):
        os.remove(f"{folder}/raise-{replica}")
        raise ValueError(f"wrong at step {before}")
    time.sleep(max(0, begin + 0.1 - time.monotonic()))
    step = manager.current_step()
    if replica == 0 and step > before:
        with open(f"{folder}/steps", "a", encoding="utf-8") as file:
            file.write(f"{began} {time.time()} {step} {manager.num_participants()}\n")
        if step % 10 == 0:
            torch.save({**state_of(), "manager": manager.state_dict()}, f"{folder}/checkpoint.pt.new")
            os.replace(f"{folder}/checkpoint.pt.new", f"{folder}/checkpoint.pt")
