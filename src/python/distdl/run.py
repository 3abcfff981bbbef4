# SPDX-License-Identifier: Apache-2.0
"""What a program and "distdl run" tell each other.

    for step in range(first, steps):
        ...
        distdl.run.progress(step + 1, steps)
        if distdl.run.should_stop():
            save(step + 1)
            distdl.run.requeue()
    distdl.run.finished()

A program that "distdl run" has not started may call all of it: it is never to stop, and what it tells is dropped.
"""
from __future__ import annotations

import ctypes
import math
import os
import pathlib
import sys
from typing import NoReturn, Optional

from . import metrics
from ._library import library, number

REQUEUE = 75  #: the exit code of a program that has saved and stopped, to be resumed


def started() -> bool:
    """Whether "distdl run" has started this process."""
    return "DISTDL_CONTRACT" in os.environ


def should_stop() -> bool:
    """Whether to save and stop. All ranks call it once per step: the k-th call has the same answer on all.

    It may wait for other ranks, for at most a minute, in the two calls after a request to stop.
    """
    return started() and bool(number(library().should_stop))


def progress(step: int, steps: Optional[int] = None, **values: float) -> None:
    """Tells that `step` steps are done, of `steps` in all, and measured values of this step (those of rank 0 count).

    Values that metrics.log() has collected since the last call are told with it.
    """
    told = {**metrics.take(), **values}
    if not started():
        return
    names = (ctypes.c_char_p * len(told))(*(name.encode() for name in told))
    numbers = (ctypes.c_double * len(told))(*told.values())
    library().progress_with(step, steps or 0, len(told), names, numbers)


def saved(step: int, seconds: Optional[float] = None) -> None:
    """Tells that all of the program's state as of `step` is durable, and how many seconds that took."""
    if started():
        library().saved(step, -1.0 if seconds is None else seconds)


def finished() -> None:
    """Tells that the program has done all its work."""
    if started():
        library().finished()


def requeue() -> NoReturn:
    """Ends a program that has saved and stopped: raises SystemExit(75)."""
    sys.exit(REQUEUE)


def seconds_left() -> Optional[float]:
    """Seconds until the job ends, or None if that is not known."""
    left = float(number(library().seconds_left, kind=ctypes.c_double)) if started() else math.inf
    return None if math.isinf(left) else left


def _variable(*names: str, default: int) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), default)


def rank() -> int:
    """This process's number among all ranks, from 0."""
    return _variable("DISTDL_RANK", "RANK", "SLURM_PROCID", default=0)


def world_size() -> int:
    """The number of ranks."""
    return _variable("DISTDL_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS", default=1)


def local_rank() -> int:
    """This process's number among the ranks on its node."""
    return _variable("LOCAL_RANK", "SLURM_LOCALID", default=0)


def local_world_size() -> int:
    """The number of ranks on this node."""
    return _variable("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", default=1)


def start() -> int:
    """The number of the start of the run, from 1: each time that ranks begin anew."""
    return _variable("DISTDL_START", default=1)


def folder() -> Optional[pathlib.Path]:
    """The run folder, or None if "distdl run" has not started this process."""
    name = os.environ.get("DISTDL_RUN_DIR")
    return pathlib.Path(name) if name else None
