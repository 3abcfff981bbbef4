# SPDX-License-Identifier: Apache-2.0
"""A script of unittest cases that is told to end, or whose terminal goes, cleans up before it ends: watch() does that."""
import os
import select
import signal
import sys
import unittest

TELLS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def forget_reader():
    """What is written to a terminal or a pipe that is gone would be an error."""
    for one in (1, 2):
        look = select.poll()
        look.register(one, select.POLLOUT)
        if any(state & (select.POLLHUP | select.POLLERR) for _, state in look.poll(0)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), one)


def end(number, _):
    """The case that runs fails and does what it registered with addCleanup(); no other begins; then what atexit has."""
    for each in TELLS:
        signal.signal(each, signal.SIG_IGN)
    signal.alarm(0)
    forget_reader()
    for result in list(unittest.signals._results):  # no public name has them
        result.stop()
    sys.exit(f"ended by {signal.Signals(number).name}")


def watch(*more):
    for number in (*TELLS, *more):
        signal.signal(number, end)
