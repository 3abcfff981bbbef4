# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint by way of distdl: saved on some ranks, loaded on others. usage: dcp.py save|load FOLDER"""
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import distdl.torch

WAY, FOLDER = sys.argv[1:]
dist.init_process_group("distdl")
distdl.torch.accept_paths()
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))
whole = {name: value.clone() for name, value in model.state_dict().items()}
for layer in (*model, model):
    fully_shard(layer, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.Adam(model.parameters(), 0.1)


def state():
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": of_optimizer, "step": 0, "flags": torch.zeros(3, dtype=torch.bool), "note": ["a", 1.5]}


if WAY == "save":
    model(torch.ones(2, 7)).sum().backward()
    optimizer.step()
    saved = state()
    saved["step"] = 11
    saved["flags"][1] = True
    dcp.save(saved, checkpoint_id=f"distdl:{FOLDER}@5")
    saved["step"] = 12
    dcp.save(saved, checkpoint_id=f"distdl:{FOLDER}")  # as step 6
    saved["step"] = 13
    dcp.save(saved, storage_writer=distdl.torch.Writer(FOLDER + "-other", step=9))
    for wrong in (object(), {1, 2}):
        try:
            dcp.save({"wrong": wrong}, checkpoint_id=f"distdl:{FOLDER}-wrong")
            sys.exit(f"{wrong} was saved")
        except dcp.api.CheckpointException as error:
            assert "wrong: a" in str(error) and "can be saved neither" in str(error), error
else:
    for checkpoint_id, step in ((f"distdl:{FOLDER}", 12), (f"distdl:{FOLDER}@5", 11)):
        loaded = state()
        loaded["note"] = None
        dcp.load(loaded, checkpoint_id=checkpoint_id)
        assert loaded["step"] == step and loaded["note"] == ["a", 1.5] and loaded["flags"].tolist() == [False, True, False], loaded
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    for name, value in model.state_dict().items():
        # Adam's first step is of the learning rate, whatever the gradient.
        change = (value.full_tensor() - whole[name]).abs()
        torch.testing.assert_close(change, torch.full_like(change, 0.1), atol=1e-3, rtol=0)
    dcp.load(loaded, storage_reader=distdl.torch.Reader(FOLDER + "-other"))
    assert loaded["step"] == 13
print("done", dist.get_rank())
dist.destroy_process_group()
distdl.run.finished()
