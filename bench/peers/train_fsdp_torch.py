# SPDX-License-Identifier: Apache-2.0
"""The steps of a script that trains with PyTorch's DistributedDataParallel, with FSDP2 (fully_shard) instead: parameters, gradients and moments
are divided among the ranks, block by block.

usage: train_fsdp_torch.py SCRIPT ARGUMENTS OF THE SCRIPT, such as --ddp
Each child of a Sequential within the model is a block; the rest of the model is one more.
"""
import runpy
import sys

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def shard(model):
    model = model.to(memory_format=torch.contiguous_format)  # FSDP2 takes no others; images stay channels-last
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for sequence in (module for module in model.modules() if isinstance(module, torch.nn.Sequential)):
        for block in sequence:
            if any(True for _ in block.parameters()) and any(True for _ in block.children()):
                fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


torch.nn.parallel.DistributedDataParallel = shard
script, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
