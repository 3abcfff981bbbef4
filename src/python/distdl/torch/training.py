# SPDX-License-Identifier: Apache-2.0
"""A model and its optimizers as one state, whatever has sharded them."""
from __future__ import annotations

from typing import Any, Sequence, Union

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


class Training:
    """For distdl.Checkpoint and distdl.steps: names and shards as torch.distributed.checkpoint has them.

    With FSDP2, FSDP, tensor parallelism and DDP; any number of ranks goes on with it. Needs torch 2.2.
    """

    def __init__(self, model: torch.nn.Module, optimizers: Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]]) -> None:
        self._model, self._optimizers = model, optimizers

    def state_dict(self) -> "dict[str, Any]":
        model, optimizers = get_state_dict(self._model, self._optimizers)
        return {"model": model, "optimizers": optimizers}

    def load_state_dict(self, state: "dict[str, Any]") -> None:
        set_state_dict(self._model, self._optimizers, model_state_dict=state["model"],
                       optim_state_dict=state["optimizers"])
