# SPDX-License-Identifier: Apache-2.0
"""What a run has recorded: metrics, journal, result, weights. Also while it goes on."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Iterator, Optional, Union

from .arrays import NAME_OF_TYPE, empty, memory_of
from .checkpoint import DESCRIPTION, Load
from .errors import NotFound


def read(folder: Union[str, "os.PathLike[str]"]) -> "Run":
    """The run of this run folder. Raises NotFound if there is no such folder."""
    return Run(folder)


def newest(folder: Union[str, "os.PathLike[str]", None] = None) -> Optional[int]:
    """The step of the newest checkpoint, or None. folder: of checkpoints; None: that of the run that "distdl run" has started."""
    try:
        with Load.open(folder) as load:
            return load.step
    except NotFound:
        return None


class Run:
    """A run folder."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self.folder = pathlib.Path(folder)
        if not self.folder.is_dir():
            raise NotFound(f"there is no run folder {str(self.folder)!r}")

    def rows(self) -> "list[dict[str, Any]]":
        """The rows of metrics.jsonl that count: of a step that was done twice, those of the later start. docs/metrics.md has
        the fields."""
        rows = list(_rows(self.folder / "metrics.jsonl"))
        last = {(row["step"], "loss" in row): row.get("start", 0) for row in sorted(rows, key=lambda row: row.get("start", 0))
                if "step" in row}
        return [row for row in rows if "step" in row and row.get("start", 0) == last[row["step"], "loss" in row]]

    def metrics(self) -> Any:
        """The same as a pandas.DataFrame. Raises ImportError."""
        import pandas

        return pandas.DataFrame(self.rows())

    def journal(self) -> "list[dict[str, Any]]":
        """The events of the run, its jobs and its launches."""
        return list(_rows(self.folder / "journal.jsonl"))

    def result(self) -> "Optional[dict[str, Any]]":
        """How the run ended, or its last start; None while it goes on."""
        return next(_rows(self.folder / "result.json"), None)

    def step(self) -> Optional[int]:
        """The step of the newest checkpoint, or None."""
        return newest(self.folder / "checkpoints") if (self.folder / "checkpoints").is_dir() else newest(self.folder)

    def weights(self, step: Optional[int] = None) -> "dict[str, Any]":
        """The arrays of a checkpoint by name. step: None: the newest. Raises NotFound, Corrupt.

        They are NumPy arrays, or tensors of torch for bfloat16.
        """
        with self._open(step) as load:
            arrays = {}
            for name in load.names():
                kind, shape = load.shape_of(name)
                if not name.startswith("distdl."):
                    arrays[name] = empty("numpy", NAME_OF_TYPE[kind], list(shape))
                    load.ask(name, memory_of(arrays[name], is_written=True), shape, [0] * len(shape))
            load.read()
        return arrays

    def state(self, step: Optional[int] = None) -> Any:
        """The state that distdl.Checkpoint has saved, as it was given. Raises NotFound also for a checkpoint without one."""
        with self._open(step) as load:
            if DESCRIPTION not in load.names():
                raise NotFound(f"the checkpoint of step {load.step} has arrays only: weights()")
            return load.state()

    def _open(self, step: Optional[int]) -> Load:
        inner = self.folder / "checkpoints"
        return Load.open(inner if inner.is_dir() else self.folder, step)


def _rows(path: pathlib.Path) -> "Iterator[dict[str, Any]]":
    """The JSON objects of a file, a line each, or of one object over several lines. Other lines are passed over."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return
    for line in [text] if path.suffix == ".json" else text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row
