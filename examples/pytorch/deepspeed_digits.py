# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed on CPUs (ZeRO 1). Lines with "# distdl" are the change.

    DS_ACCELERATOR=cpu distdl run --local -n 2 -- python3 deepspeed_digits.py
"""
import deepspeed
import digits
import torch

import distdl.deepspeed  # distdl

deepspeed.init_distributed(dist_backend="distdl")  # distdl
rank = torch.distributed.get_rank()
torch.manual_seed(1)
images, labels, *validation = digits.load()
model = digits.network()
engine, *_ = deepspeed.initialize(
    model=model, optimizer=torch.optim.Adam(model.parameters(), 0.003),
    config={"train_micro_batch_size_per_gpu": digits.BATCH, "zero_optimization": {"stage": 1},
            "zero_allow_untested_optimizer": True})
folder = "deepspeed"
_, client = distdl.deepspeed.load(engine, folder)  # distdl
for step in range(client["step"] if client else 0, digits.STEPS):
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(step))
    mine = order[rank * digits.BATCH:(rank + 1) * digits.BATCH]
    loss = torch.nn.functional.cross_entropy(engine(images[mine]), labels[mine])
    engine.backward(loss)
    engine.step()
    distdl.run.progress(step + 1, digits.STEPS, loss=loss.item())  # distdl
    stop = distdl.run.should_stop()  # distdl
    if stop or (step + 1) % 20 == 0:  # distdl
        engine.save_checkpoint(folder, client_state={"step": step + 1})
        distdl.run.saved(step + 1)  # distdl
    if stop:  # distdl
        distdl.run.requeue()  # distdl
if rank == 0:
    print(f"accuracy {digits.accuracy(engine.module, *validation):.3f}")
distdl.run.finished()  # distdl
