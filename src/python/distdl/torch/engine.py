# SPDX-License-Identifier: Apache-2.0
"""The operations of a process group that nobody waits for yet."""
from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import Any, Optional, Sequence

from .._library import library, number
from ..communicator import Communicator
from ..errors import Timeout
from .operations import Operation, begin

_PAUSE = 0.002  # seconds: of a wait for the oldest operation, between two looks at the others


@dataclass
class _Pending:
    requests: "list[ctypes.c_void_p]"
    operations: Sequence[Operation]
    future: Any
    error: Optional[BaseException] = None

    def look(self) -> bool:
        """Whether all of its operations are done, or one has failed."""
        try:
            return all(number(library().test, ctypes.byref(request)) for request in self.requests)
        except Exception as error:
            self.error = error
            return True

    def wait(self) -> None:
        request = next((request for request in self.requests if request), None)
        try:
            if request is not None:
                library().wait(ctypes.byref(request), _PAUSE)
        except Timeout:
            pass
        except Exception as error:
            self.error = error

    def conclude(self) -> None:
        try:
            for operation in self.operations:
                if operation.finish and self.error is None:
                    operation.finish()
        except Exception as error:
            self.error = error
        self.future.set_result(self.error)


class Engine:
    """Advances operations in a thread of its own, so that they go on while the program computes.

    Only calls of the library advance them. The thread begins with the first operation.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._changed = threading.Condition()
        self._pending: "list[_Pending]" = []
        self._ends = False
        self._thread: Optional[threading.Thread] = None

    def submit(self, operations: Sequence[Operation], future: Any) -> None:
        """Begins the operations. The torch Future gets None, or an exception as a value, once they are done."""
        requests = [begin(self._communicator.pointer, operation) for operation in operations]
        with self._changed:
            self._pending.append(_Pending(requests, operations, future))
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="distdl", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Waits until all is done."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._ends:
                    self._changed.wait()
                if not self._pending:
                    return
                pending = list(self._pending)
            pending[0].wait()
            done = [each for each in pending if each.error is not None or each.look()]
            with self._changed:
                self._pending = [each for each in self._pending if each not in done]
            for each in done:
                each.conclude()
