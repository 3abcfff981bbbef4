# SPDX-License-Identifier: Apache-2.0
"""The Trainer of Transformers. Lines with "# distdl" are the change.

    distdl run --local -n 2 -- python3 transformers_digits.py
"""
import digits
import torch
from transformers import Trainer, TrainingArguments

import distdl.torch  # distdl
import distdl.transformers  # distdl


class Digits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.network = digits.network()

    def forward(self, images, labels):
        scores = self.network(images)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


torch.distributed.init_process_group("distdl")  # distdl
torch.manual_seed(1)
images, labels, *validation = digits.load()
samples = [{"images": image, "labels": label} for image, label in zip(images, labels)]
model = Digits()
arguments = TrainingArguments(
    output_dir="trainer", use_cpu=True, max_steps=digits.STEPS, per_device_train_batch_size=digits.BATCH,
    learning_rate=0.003, save_steps=20, report_to=[], disable_tqdm=True)
trainer = Trainer(model=model, args=arguments, train_dataset=samples,
                  callbacks=[distdl.transformers.Callback()])  # distdl
trainer.train(resume_from_checkpoint=distdl.transformers.last(arguments))  # distdl
distdl.transformers.end(trainer)  # distdl
if trainer.is_world_process_zero():
    print(f"accuracy {digits.accuracy(model.network, *validation):.3f}")
