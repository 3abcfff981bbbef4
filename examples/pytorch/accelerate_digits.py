# SPDX-License-Identifier: Apache-2.0
"""Accelerate. Lines with "# distdl" are the change.

    distdl run --local -n 2 -- python3 accelerate_digits.py
"""
import digits
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import distdl.torch  # distdl

torch.distributed.init_process_group("distdl")  # distdl
accelerator = Accelerator(cpu=True)
torch.manual_seed(1)
images, labels, *validation = digits.load()
model = digits.network()
optimizer = torch.optim.Adam(model.parameters(), 0.003)
loader = DataLoader(TensorDataset(images, labels), batch_size=digits.BATCH, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
loop = distdl.steps(digits.STEPS, {"model": model, "optimizer": optimizer.optimizer}, every=20)  # distdl
for step, (x, y) in zip(loop, accelerator.skip_first_batches(loader, loop.first)):  # distdl
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    distdl.metrics.log(loss=loss.item())  # distdl
if accelerator.is_main_process:
    print(f"accuracy {digits.accuracy(accelerator.unwrap_model(model), *validation):.3f}")
accelerator.end_training()
