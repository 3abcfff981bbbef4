# SPDX-License-Identifier: Apache-2.0
"""A training loop that resumes, saves, stops when asked to, and tells of its progress."""
from __future__ import annotations

from typing import Any, Iterator, Optional

from . import run
from .checkpoint import Checkpoint, Folder
from .communicator import Communicator, Options


class steps:
    """The steps that are left of `count`, and all that "distdl run" wants to be told and asked.

        for step in distdl.steps(1000, {"model": model, "optimizer": optimizer}, every=100):
            ...
            distdl.metrics.log(loss=loss.item())

    Collective. When it is made, it loads the newest checkpoint into the state. It saves the state after every so many steps and
    at the end. When the run is to stop, it saves and ends the program with SystemExit(75), to be resumed. A loop that is left
    by `break` saves nothing more.

    count: steps in all. state: a dict, see distdl.Checkpoint; its key "step" is taken. folder, comm, options: likewise.
    """

    def __init__(self, count: int, state: "dict[str, Any]", every: int = 100, folder: Folder = None,
                 comm: Optional[Communicator] = None, options: Options = None) -> None:
        self.count, self.every = count, every
        self._state = {**state, "step": 0}
        self._checkpoint = Checkpoint(folder, comm, options)
        self._checkpoint.load(self._state)
        self.first = int(self._state["step"])  #: the step with which it begins

    def __iter__(self) -> Iterator[int]:
        for step in range(self.first, self.count):
            yield step
            done = step + 1
            run.progress(done, self.count)
            self._checkpoint.barrier()  # should_stop() is for ranks that keep step
            if run.should_stop():
                self._save(done, "now")
                self._checkpoint.close()
                run.requeue()
            if done % self.every == 0 or done == self.count:
                self._save(done, "now" if done == self.count else "beside")
            elif step == self.first:
                self._checkpoint.prepare(self._state)
        self._checkpoint.close()
        run.finished()

    def _save(self, step: int, how: str) -> None:
        self._state["step"] = step
        self._checkpoint.save(step, self._state, how)
