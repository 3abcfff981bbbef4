# SPDX-License-Identifier: Apache-2.0
"""Measured values of a step, for metrics.jsonl, `distdl watch`, alerts and exports.

    distdl.metrics.log(loss=loss.item())
    distdl.run.progress(step)
"""
from __future__ import annotations

import contextlib
import threading
import time
from typing import Iterator

_lock = threading.Lock()
_sums: dict[str, tuple[float, int]] = {}  # sum and number of the values


def log(**values: float) -> None:
    """Adds values of the step that is under way. The mean counts if a name is logged more than once."""
    with _lock:
        for name, value in values.items():
            total, count = _sums.get(name, (0.0, 0))
            _sums[name] = total + float(value), count + 1


@contextlib.contextmanager
def timer(name: str) -> Iterator[None]:
    """Logs the seconds that its body takes."""
    begin = time.perf_counter()
    yield
    log(**{name: time.perf_counter() - begin})


def take() -> dict[str, float]:
    """The values since the last call."""
    with _lock:
        means = {name: total / count for name, (total, count) in _sums.items()}
        _sums.clear()
    return means
