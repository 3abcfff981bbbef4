# SPDX-License-Identifier: Apache-2.0
"""Data parallelism with distdl.torch.fixed_sum, steps of 100 ms, a checkpoint every 10 steps, for bench/program_faults_cluster. Rank 0 prints the
digest of the weights at the end.

usage: faults_fixed_sum.py STEPS [SECONDS_OF_A_STEP]
"""
import hashlib
import sys
import time

import torch

import distdl.torch

steps, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
MICROBATCHES = 6
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(128, 10))
data = torch.randn(2000, 64, generator=torch.Generator().manual_seed(5))
labels = data[:, :10].argmax(1)
optimizer = torch.optim.Adam(model.parameters(), 0.003)
sums = distdl.torch.fixed_sum(model, MICROBATCHES)
sampler = distdl.torch.Sampler(len(data), 16, MICROBATCHES)
for step in distdl.steps(steps, {"model": model, "optimizer": optimizer}, every=10):
    begin, loss = time.monotonic(), torch.zeros(())
    for number in sums.microbatches(step):
        mine = sampler.indices(step, number)
        loss = torch.nn.functional.cross_entropy(model(data[mine]), labels[mine])
        loss.backward()
    optimizer.step()
    distdl.metrics.log(loss=loss.item())
    time.sleep(max(0, begin + seconds - time.monotonic()))
if distdl.run.rank() == 0:
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    print("sha256", hashlib.sha256(weights).hexdigest(), flush=True)
