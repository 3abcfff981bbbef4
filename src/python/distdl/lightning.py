# SPDX-License-Identifier: Apache-2.0
"""The run contract for Lightning.

    trainer = Trainer(..., strategy=DDPStrategy(process_group_backend="distdl"), callbacks=[distdl.lightning.Callback(every=100)])
    trainer.fit(model, loader, ckpt_path=distdl.lightning.last())
"""
from __future__ import annotations

import os
import pathlib
import signal
from typing import Any, Optional

import lightning.pytorch as pl

from . import run


def _path() -> pathlib.Path:
    return (run.folder() or pathlib.Path()) / "lightning.ckpt"


def last() -> Optional[str]:
    """The checkpoint of Callback, in the run folder; None if there is none yet."""
    return str(_path()) if _path().exists() else None


class Callback(pl.Callback):
    """Tells distdl of progress, and saves every so many steps and when the run is to stop. Then it ends the program."""

    def __init__(self, every: int = 100) -> None:
        self.every = every

    def on_train_start(self, trainer: Any, module: Any) -> None:
        # Slurm may signal all processes. Lightning would end at that without a save; run.should_stop() then sets a handler that does not.
        if run.started():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        step = trainer.global_step
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        run.progress(step, trainer.estimated_stepping_batches, **values)
        stop = run.should_stop()
        if stop or step % self.every == 0:
            self._save(trainer, step)
        if stop:
            run.requeue()

    def on_train_end(self, trainer: Any, module: Any) -> None:
        run.finished()

    def _save(self, trainer: Any, step: int) -> None:
        beside = _path().with_suffix(".new")
        trainer.save_checkpoint(beside)
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            os.replace(beside, _path())
        trainer.strategy.barrier()
        run.saved(step)
