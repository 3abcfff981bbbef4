# SPDX-License-Identifier: Apache-2.0
"""The exit code of a rank that ends by an error of distdl."""
from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Optional

from .errors import Error
from .run import started


def install() -> None:
    """An Error that nobody catches ends a rank of "distdl run" with its own code, by which distdl decides how to go on."""
    if not started():
        return
    previous = sys.excepthook

    def end(kind: "type[BaseException]", error: BaseException, trace: Optional[TracebackType]) -> None:
        previous(kind, error, trace)
        if isinstance(error, Error):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(error.exit_code)

    sys.excepthook = end
