# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of DeepSpeed (ZeRO 1 and 2) on another number of ranks, and the backend of distdl.torch.

    deepspeed.init_distributed(dist_backend="distdl")
    engine, *_ = deepspeed.initialize(...)
    _, client = distdl.deepspeed.load(engine, folder)
"""
from __future__ import annotations

import argparse
import pathlib
import shutil
from typing import Any

import torch
from deepspeed.checkpoint import ds_to_universal

from . import torch as _backend  # noqa: F401  which registers the backend


def load(engine: Any, folder: str) -> "tuple[Any, Any]":
    """engine.load_checkpoint(folder), also of a checkpoint that another number of ranks has saved. Collective.

    DeepSpeed refuses such a checkpoint unless it is "universal": rank 0 makes that of it, in the same folder.
    """
    latest = pathlib.Path(folder, "latest")
    tag = latest.read_text().strip() if latest.exists() else ""
    parts = len(list((latest.parent / tag).glob("*zero_pp_rank_*_mp_rank_00_optim_states.pt"))) if tag else 0
    if parts in (0, engine.dp_world_size):
        return tuple(engine.load_checkpoint(folder))
    universal = latest.with_name(f"{tag}_universal")
    if torch.distributed.get_rank() == 0:
        shutil.rmtree(universal, ignore_errors=True)
        ds_to_universal.main(argparse.Namespace(input_folder=str(latest.parent / tag), output_folder=str(universal), num_extract_workers=1,
                                                num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True))
    torch.distributed.barrier()
    engine._config.load_universal_checkpoint = True
    try:
        return tuple(engine.load_checkpoint(folder, tag=universal.name))
    finally:
        engine._config.load_universal_checkpoint = False
