# SPDX-License-Identifier: Apache-2.0
"""Lightning. Lines with "# distdl" are the change.

    distdl run --local -n 2 -- python3 lightning_digits.py
"""
import os

import digits
import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

import distdl.lightning  # distdl
import distdl.torch  # distdl


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = digits.network()

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.003)


pl.seed_everything(1)
images, labels, *validation = digits.load()
model = Digits()
trainer = pl.Trainer(
    accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), max_steps=digits.STEPS,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    strategy=DDPStrategy(process_group_backend="distdl"),  # distdl
    callbacks=[distdl.lightning.Callback(every=20)])  # distdl
loader = DataLoader(TensorDataset(images, labels), batch_size=digits.BATCH, shuffle=True)
trainer.fit(model, loader, ckpt_path=distdl.lightning.last())  # distdl
if trainer.is_global_zero:
    print(f"accuracy {digits.accuracy(model.network, *validation):.3f}")
