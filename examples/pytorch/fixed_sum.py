# SPDX-License-Identifier: Apache-2.0
"""Data parallelism with the same weights, bit for bit, on any number of ranks and whatever happens to them.

    distdl run --local -n 3 -- python3 fixed_sum.py
"""
import hashlib

import digits
import torch

import distdl.torch

MICROBATCHES = 6
torch.manual_seed(1)
images, labels, *validation = digits.load()
model = digits.network()
optimizer = torch.optim.Adam(model.parameters(), 0.003)
sums = distdl.torch.fixed_sum(model, MICROBATCHES)
sampler = distdl.torch.Sampler(len(images), 20, MICROBATCHES)
for step in distdl.steps(digits.STEPS, {"model": model, "optimizer": optimizer}, every=20):
    for number in sums.microbatches(step):
        mine = sampler.indices(step, number)
        torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
    optimizer.step()
if distdl.run.rank() == 0:
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    print(f"accuracy {digits.accuracy(model, *validation):.3f}")
    print(f"sha256 {hashlib.sha256(weights).hexdigest()}")
