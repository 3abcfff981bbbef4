# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a process group find each other: by torch's store; later, without lost ranks, in a folder."""
from __future__ import annotations

import atexit
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import socket
import tempfile
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Optional

from ..communicator import Communicator
from ..errors import ConfigError

VARIABLE = "DISTDL_MEETING_FOLDER"


@dataclass(frozen=True)
class Meeting:
    """torch's store, or a folder and a name. The folder is empty if none is known that all ranks see."""

    folder: str
    name: str
    store: Any = None

    def after(self, change: object) -> "Meeting":
        """The next one, in the folder, of whoever knows this one and the change."""
        digest = hashlib.sha256(f"{self.name} {change}".encode()).hexdigest()
        return Meeting(self.folder, digest[:32])

    def connect(self, rank: int, size: int, timeout: Optional[timedelta]) -> Communicator:
        """Collective. timeout: the longest wait for another rank, in an operation and here."""
        options = {} if timeout is None else {"timeout_seconds": timeout.total_seconds(),
                                              "connect_timeout_seconds": timeout.total_seconds()}
        if self.store is not None:
            return Communicator.of_exchange(_exchange_by(self.store, rank, size), rank, size, options)
        if not self.folder:
            raise ConfigError(f"the ranks are on several hosts: to go on without lost ones, set {VARIABLE} to a folder that all of "
                              "them see, or start them by \"distdl run -- PROGRAM\"")
        return Communicator.of_folder(self.folder, self.name, rank, size, options)


def meet(store: Any, rank: int, size: int) -> Meeting:
    """Collective, by way of torch's store. Rank 0 chooses the folder and the name of later meetings."""
    hosts = _exchange_by(store, rank, size)(socket.gethostname().encode())
    if rank == 0:
        store.set("distdl/meeting", json.dumps([_folder(len(set(hosts))), uuid.uuid4().hex]))
    folder, name = json.loads(store.get("distdl/meeting"))
    return Meeting(folder, name, store)


def _exchange_by(store: Any, rank: int, size: int) -> Callable[[bytes], "list[bytes]"]:
    """A function by which the ranks exchange bytes. All make as many of them, and call them as often."""
    calls = itertools.count()
    prefix = f"distdl/{store.add(f'distdl/made/{rank}', 1)}"

    def exchange(mine: bytes) -> "list[bytes]":
        key = f"{prefix}/{next(calls)}"
        store.set(f"{key}/{rank}", mine.hex())
        if rank == 0:
            store.set(f"{key}/all", b" ".join(bytes(store.get(f"{key}/{each}")) for each in range(size)))
        return [bytes.fromhex(each) for each in bytes(store.get(f"{key}/all")).decode().split(" ")]

    return exchange


def _folder(hosts: int) -> str:
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    if hosts == 1:
        made = tempfile.mkdtemp(prefix="distdl-meeting-")
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return made
    if "DISTDL_RUN_DIR" not in os.environ:
        return ""
    shared = pathlib.Path(os.environ["DISTDL_RUN_DIR"], "meetings")
    shared.mkdir(exist_ok=True)
    return str(shared)
