# SPDX-License-Identifier: Apache-2.0
"""Training with fixed sums: a digest of the weights, on any number of ranks and across stops. usage: fixed.py STEPS [LOST]

A file LOST is made once by rank 1 of three in mid-run, which then kills itself.
"""
import hashlib
import os
import pathlib
import signal
import sys

import torch

import distdl
import distdl.torch

STEPS, LOST = int(sys.argv[1]), pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
torch.manual_seed(distdl.run.rank())  # rank 0's weights count
model = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(64, 3))
if os.environ.get("SEEDED"):
    torch.manual_seed(1)
    for each in model.parameters():
        torch.nn.init.normal_(each)
data = torch.randn(1000, 10, generator=torch.Generator().manual_seed(5))
target = data[:, :3].argmax(1)

sums = distdl.torch.fixed_sum(model, microbatches=8, seed=3)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
state = {"model": model, "optimizer": optimizer, "step": 0}
checkpoint = distdl.Checkpoint(os.environ.get("CHECKPOINTS"))
checkpoint.load(state)
sampler = distdl.torch.Sampler(len(data), batch=4, microbatches=8, own=sums.own, seed=7, start=state["step"], steps=STEPS)
batches = iter(sampler)
print("from", state["step"], distdl.run.world_size(), flush=True)
for step in range(state["step"], STEPS):
    loss = torch.zeros(())
    for _ in sums.microbatches(step):
        chosen = next(batches)
        loss = torch.nn.functional.cross_entropy(model(data[chosen]), target[chosen])
        loss.backward()
    optimizer.step()
    state["step"] = step + 1
    distdl.run.progress(step + 1, STEPS, loss=loss.item())
    if (step + 1) % 10 == 0:
        checkpoint.save(step + 1, state, how="now")
    if LOST and not LOST.exists() and step == 25 and distdl.run.rank() == 1:
        LOST.touch()
        os.kill(os.getpid(), signal.SIGKILL)
flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
print("digest", hashlib.sha256(flat.numpy().tobytes()).hexdigest())
checkpoint.close()
distdl.run.finished()
