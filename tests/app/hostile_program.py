#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that does all that makes others hard to end: each rank ignores all signals, loses its environment and its folder, leaves daemons in
sessions of their own, one of which goes on as a new process again and again, writes much to stdout and stderr, closes both, and ends or hangs.

usage: hostile_program.py MARK BYTES ends|hangs
MARK is a word in the command lines of all its processes.
"""
import os
import signal
import sys
import time

MARK, BYTES, END = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SHAPES = (b"line\n", b"\rbar", b"no end of a line", b"\x00\xff\x1b[2J", b"step 7\n", b'{"step": 9}\n')


def ignore_signals():
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass  # SIGKILL, SIGSTOP, those of the C library


def daemon(work):
    """In a session of its own, and no child of this process."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            work()
        os._exit(0)


def sleep():
    time.sleep(1000)


def move_on():
    """As a new process again and again: the one before ends."""
    end = time.monotonic() + 1000
    while time.monotonic() < end:
        if os.fork() != 0:
            os._exit(0)


def fork_and_ignore():
    """Some children in process groups of their own."""
    for _ in range(5):
        if os.fork() == 0:
            os.setpgid(0, 0)
            break
    sleep()


def write(stream, count):
    """Something of each shape, then lines until that is `count` bytes in all."""
    for shape in SHAPES:
        count -= os.write(stream, shape * (1 << 12))
    line = b"x" * 99 + b"\n"
    while count > 0:
        count -= os.write(stream, line * (1 << 10))


if END != "child":
    os.execve(sys.executable, [sys.executable, __file__, MARK, str(BYTES), "child", END], {})
ignore_signals()
os.umask(0o777)
os.chdir("/")
for work in (sleep, move_on, fork_and_ignore):
    daemon(work)
for stream in (1, 2):
    write(stream, BYTES // 2)
    os.close(stream)
if sys.argv[4] == "hangs":
    sleep()
os._exit(0)
