# SPDX-License-Identifier: Apache-2.0
"""distdl for Python: the run contract, collectives, sums with the same bits on any number of ranks, checkpoints.

    distdl.run          should_stop, progress, saved, finished, seconds_left, rank, world_size ...
    distdl.metrics      measured values of a step
    distdl.steps        a training loop that resumes, saves and stops
    distdl.Checkpoint   saves and loads arrays, tensors and sharded state dicts
    distdl.read         metrics, journal and weights of a run
    distdl.torch        PyTorch: the backend "distdl", fixed sums, distributed checkpoints
"""
from . import _ending, metrics, run
from ._version import VERSION as __version__
from .checkpoint import Checkpoint, Load
from .communicator import Communicator, Request, world
from .errors import (Busy, ConfigError, Corrupt, Error, Incompatible, LibraryNotFound, Misuse, NotFound, PeerLost,
                     SchedulerError, StorageError, Superseded, Timeout)
from .loop import steps
from .reading import Run, newest, read
from .shards import Box
from .sums import FixedSum

__all__ = [
    "Box", "Busy", "Checkpoint", "Communicator", "ConfigError", "Corrupt", "Error", "FixedSum", "Incompatible",
    "LibraryNotFound", "Load", "Misuse", "NotFound", "PeerLost", "Request", "Run", "SchedulerError", "StorageError",
    "Superseded", "Timeout", "__version__", "metrics", "newest", "read", "run", "steps", "world",
]

_ending.install()
