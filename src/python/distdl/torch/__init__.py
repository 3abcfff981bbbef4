# SPDX-License-Identifier: Apache-2.0
"""distdl for PyTorch.

    torch.distributed.init_process_group("distdl")      CPU tensors; torch 2.15 finds it, older ones want import distdl.torch
    distdl.torch.fixed_sum(model, microbatches=8)       the same weights, bit for bit, on any number of ranks
    distdl.torch.Sampler, distdl.torch.seed_at          samples and random numbers as functions of the position
    distdl.torch.Training                               a model and its optimizers as one state, whatever has sharded them
    distdl.torch.Writer, distdl.torch.Reader            storage of torch.distributed.checkpoint
    distdl.torch.accept_paths()                         checkpoint_id="distdl:FOLDER"
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from .fixed_sum import FixedSum, fixed_sum
from .positions import Sampler, seed_at

_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
if _VERSION < (1, 13):
    raise ImportError(f"distdl.torch needs torch 1.13 or later, not {torch.__version__}")
if TYPE_CHECKING:
    from .dcp import Reader, Writer, accept_paths
    from .training import Training


def register() -> None:
    """Makes torch.distributed know the backend "distdl"."""
    from .backend import NAME, complete_works, create, has_backends

    if not hasattr(dist.Backend, NAME.upper()):
        devices: dict[str, Any] = {"devices": ["cpu"]} if hasattr(dist.Backend, "backend_list") else {}  # torch 2.0 and older know of none
        dist.Backend.register_backend(NAME, create, extended_api=True, **devices)
        if has_backends():
            complete_works()


def __getattr__(name: str) -> Any:
    """torch.distributed.checkpoint takes long to import: only who uses it waits."""
    modules = {"Reader": "dcp", "Writer": "dcp", "accept_paths": "dcp", "Training": "training"}
    if name in modules:
        if _VERSION < (2, 1):
            raise ImportError(f"distdl.torch.{name} needs torch 2.1 or later, not {torch.__version__}")
        return getattr(importlib.import_module(f".{modules[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if dist.is_available():
    register()

__all__ = ["FixedSum", "Reader", "Sampler", "Training", "Writer", "accept_paths", "fixed_sum", "register", "seed_at"]
