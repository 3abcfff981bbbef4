# SPDX-License-Identifier: Apache-2.0
"""Storage of torch.distributed.checkpoint: distdl's commit and checksums, and no pickle.

    import torch.distributed.checkpoint as dcp
    dcp.save(state, storage_writer=distdl.torch.Writer("run", step=100))
    dcp.load(state, storage_reader=distdl.torch.Reader("run"))

    distdl.torch.accept_paths()
    dcp.save(state, checkpoint_id="distdl:run")        the step after the newest one
    dcp.load(state, checkpoint_id="distdl:run@100")    without a number: the newest
"""
from __future__ import annotations

import importlib
import io
import json
import os
import re
from dataclasses import dataclass
from typing import Any, Optional, Union

import torch
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter
from torch.futures import Future

from .. import _library, trees
from .._library import handle, library
from ..arrays import memory_of
from ..checkpoint import Checkpoint, Load, add_box
from ..communicator import Communicator, Options
from ..errors import Incompatible

SCHEME = "distdl:"
DESCRIPTION = "distdl.dcp"  #: the name of the description among the arrays
Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Place:
    """A folder of checkpoints, and the step of one of them, if it is named."""

    folder: str
    step: Optional[int]


def place_of(checkpoint_id: Path) -> Place:
    """Of "distdl:FOLDER" or "distdl:FOLDER@STEP", also without "distdl:"."""
    text = os.fspath(checkpoint_id)
    text = text[len(SCHEME):] if text.startswith(SCHEME) else text
    found = re.fullmatch(r"(.*)@(\d+)", text, re.DOTALL)
    return Place(found[1], int(found[2])) if found else Place(text, None)


def _is_own(checkpoint_id: Path) -> bool:
    return os.fspath(checkpoint_id).startswith(SCHEME)


class Writer(StorageWriter):
    """Saves to a folder of checkpoints. All ranks that were started together take part.

    folder: also "distdl:FOLDER@STEP". step: None: the one after the newest. comm, options: see distdl.Checkpoint.
    Each save is durable when dcp.save() returns. Objects that are no tensors are saved as JSON: others raise TypeError.
    """

    def __init__(self, folder: Path, step: Optional[int] = None, comm: Optional[Communicator] = None,
                 options: Options = None) -> None:
        super().__init__()
        self._comm, self._options = comm, options
        self._store: Optional[Checkpoint] = None
        self._place = place_of(folder)
        self._step = self._place.step if step is None else step

    def reset(self, checkpoint_id: Optional[Path] = None) -> None:
        if checkpoint_id is not None and place_of(checkpoint_id) != self._place:
            self.close()
            self._place = place_of(checkpoint_id)
            self._step = self._place.step

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if self._store is None:
            self._store = Checkpoint(self._place.folder, self._comm, self._options)

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: "list[Any]") -> "list[Any]":
        return plans

    def write_data(self, plan: Any, planner: Any) -> "Future[list[Any]]":
        """Collective: saves the items of the plans of all ranks as one checkpoint."""
        assert self._store is not None
        store = self._store
        step = self._step if self._step is not None else max(store.steps(), default=0) + 1
        save = handle(library().save_begin, store.pointer, step)
        owners: "list[Any]" = []
        try:
            owners.append(store.add_together(save, DESCRIPTION, lambda: self._add_items(save, plan, planner, owners), _merged))
        except BaseException:
            library().save_discard(save)
            raise
        library().save_commit(save, _library.NOW)
        store.tell_outcomes()
        self._step = None
        done: "Future[list[Any]]" = Future()
        done.set_result([])
        return done

    def _add_items(self, save: Any, plan: Any, planner: Any, owners: "list[Any]") -> bytes:
        """Returns the description. Adds to `owners` what must stay in memory."""
        tensors, objects = {}, {}
        for item in plan.items:
            name = item.index.fqn
            if item.type == WriteItemType.BYTE_IO:
                objects[name] = _plain(name, planner.lookup_object(item.index))
                continue
            data = item.tensor_data
            tensor = planner.resolve_data(item)
            tensors[name] = {"dtype": str(tensor.dtype).replace("torch.", ""), "size": list(data.size)}
            memory = memory_of(tensor.cpu())
            if memory.count:
                add_box(save, trees.part(name), memory, data.size, data.chunk.offsets)
            owners.append(memory)
        paths = [[name, list(path)] for name, path in (plan.planner_data or {}).items()]
        return json.dumps({"tensors": tensors, "objects": objects, "paths": paths}).encode()

    def finish(self, metadata: Metadata, results: "list[list[Any]]") -> None:
        """The ranks have committed together."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return _is_own(checkpoint_id)

    def close(self) -> None:
        """Collective. Ends the writing of this folder."""
        if self._store is not None:
            store, self._store = self._store, None
            store.close()


def _plain(name: str, value: Any) -> Any:
    described = trees.describe(value, name)
    if described.arrays:
        raise TypeError(f"{name}: arrays within other objects cannot be saved by torch.distributed.checkpoint")
    return described.node


def _merged(parts: "list[bytes]") -> bytes:
    all_: "dict[str, Any]" = {"tensors": {}, "objects": {}, "paths": []}
    for part in (json.loads(each) for each in parts):
        all_["tensors"].update(part["tensors"])
        all_["objects"].update(part["objects"])
        all_["paths"] += [each for each in part["paths"] if each not in all_["paths"]]
    return json.dumps(all_).encode()


class Reader(StorageReader):
    """Loads what Writer, or distdl.Checkpoint, has saved, on any number of ranks. Each rank reads what it needs.

    folder: also "distdl:FOLDER@STEP". step: None: the newest. Raises NotFound, Corrupt.
    """

    def __init__(self, folder: Path, step: Optional[int] = None) -> None:
        super().__init__()
        place = place_of(folder)
        self._place = place if step is None else Place(place.folder, step)
        self._description: "dict[str, Any]" = {}

    def reset(self, checkpoint_id: Optional[Path] = None) -> None:
        if checkpoint_id is not None:
            self._place = place_of(checkpoint_id)

    def _open(self) -> Load:
        return Load.open(self._place.folder, self._place.step)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with self._open() as load:
            self._place = Place(self._place.folder, load.step)  # all ranks read the same one, whatever is saved meanwhile
            self._description = _description(load)
        tensors = {name: _tensor_metadata(**each) for name, each in self._description["tensors"].items()}
        objects = {name: BytesStorageMetadata() for name in self._description["objects"]}
        paths = {name: tuple(path) for name, path in self._description["paths"]}
        return Metadata({**tensors, **objects}, planner_data=paths, storage_data=[self._place.step, self._description])

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        step, self._description = metadata.storage_data
        self._place = Place(self._place.folder, step)

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: "list[Any]") -> "list[Any]":
        return plans

    def read_data(self, plan: Any, planner: Any) -> "Future[None]":
        tensors = []
        with self._open() as load:
            for item in plan.items:
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, self._object(item.storage_index))
                    continue
                target = planner.resolve_tensor(item).detach()
                filled = torch.empty(tuple(item.lengths), dtype=self._dtype(item.storage_index))
                self._ask(load, item, filled)
                tensors.append((item, target, filled))
            load.read()
        for item, target, filled in tensors:
            target.copy_(filled.view(target.shape))
            planner.commit_tensor(item, target)
        done: "Future[None]" = Future()
        done.set_result(None)
        return done

    def _dtype(self, index: MetadataIndex) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self._description["tensors"][index.fqn]["dtype"])
        return dtype

    def _ask(self, load: Load, item: Any, filled: torch.Tensor) -> None:
        if filled.numel() == 0:
            return
        tensor = self._description["tensors"][item.storage_index.fqn]
        begin = list(item.storage_index.offset or [0] * len(tensor["size"]))
        offset = [one + more for one, more in zip(begin, item.storage_offsets)]
        load.ask(tensor.get("name", trees.part(item.storage_index.fqn)), memory_of(filled, is_written=True), tensor["size"], offset)

    def _object(self, index: MetadataIndex) -> io.BytesIO:
        """As torch's planners want it: written by torch.save(), here and now."""
        value = trees.Restorer(lambda *_: None).restore(self._description["objects"][index.fqn])
        data = io.BytesIO()
        torch.save(value, data)
        data.seek(0)
        return data

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return _is_own(checkpoint_id)


def _tensor_metadata(dtype: str, size: "list[int]", **_: Any) -> TensorStorageMetadata:
    """One chunk: the library reads any box, whoever has saved what."""
    whole = ChunkStorageMetadata(torch.Size([0] * len(size)), torch.Size(size))
    return TensorStorageMetadata(TensorProperties(dtype=getattr(torch, dtype)), torch.Size(size), [whole])


def _description(load: Load) -> "dict[str, Any]":
    """Raises Incompatible for a checkpoint that neither Writer nor distdl.Checkpoint has saved."""
    names = load.names()
    if DESCRIPTION in names:
        found: "dict[str, Any]" = json.loads(load.bytes_of(DESCRIPTION))
        return found
    raise Incompatible(f"the checkpoint of step {load.step} was not saved by torch.distributed.checkpoint")


def accept_paths() -> None:
    """Makes dcp.save() and dcp.load() take checkpoint_id="distdl:FOLDER", for which torch has no place to register."""
    for name in ("state_dict_saver", "state_dict_loader"):
        module: Any = importlib.import_module("torch.distributed.checkpoint." + name)
        original = module._storage_setup
        if getattr(original, "is_distdl", False):
            continue

        def choose(storage: Any, checkpoint_id: Any, reader: bool = False, original: Any = original) -> Any:
            if storage is None and checkpoint_id is not None and _is_own(checkpoint_id):
                return _writer_or_reader(checkpoint_id, reader)
            return original(storage, checkpoint_id, reader)

        choose.is_distdl = True  # type: ignore[attr-defined]
        module._storage_setup = choose


_writers: "dict[str, Writer]" = {}  # a folder is taken once by a process, not by each save


def _writer_or_reader(checkpoint_id: Path, reader: bool) -> Any:
    if reader:
        return Reader(checkpoint_id)
    folder = place_of(checkpoint_id).folder
    writer = _writers.setdefault(folder, Writer(checkpoint_id))
    writer.reset(checkpoint_id)
    return writer
