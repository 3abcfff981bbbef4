# SPDX-License-Identifier: Apache-2.0
"""The run contract for the Trainer of Transformers.

    torch.distributed.init_process_group("distdl")      before TrainingArguments, which know no such ddp_backend
    arguments = TrainingArguments(..., use_cpu=True)
    trainer = Trainer(..., args=arguments, callbacks=[distdl.transformers.Callback()])
    trainer.train(resume_from_checkpoint=distdl.transformers.last(arguments))
    distdl.transformers.end(trainer)
"""
from __future__ import annotations

import os
from typing import Any, Optional

from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from . import run


def last(arguments: Any) -> Optional[str]:
    """The newest checkpoint in the output folder; None if there is none yet."""
    folder = arguments.output_dir
    return get_last_checkpoint(folder) if os.path.isdir(folder) else None


def end(trainer: Any) -> None:
    """After train(): all is done, or the run was asked to stop and goes on later."""
    if trainer.state.global_step < trainer.state.max_steps:
        run.requeue()
    run.finished()


class Callback(TrainerCallback):
    """Tells distdl of progress, and makes the Trainer save and stop when the run is to."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        run.progress(state.global_step, state.max_steps)
        if run.should_stop():
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        run.saved(state.global_step)
