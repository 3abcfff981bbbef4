#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of "distdl bench checkpoint --peers torch": torch.save of a state of float32 tensors, made durable.

usage: checkpoint_torch.py FOLDER MEBIBYTES

Reads lines "save", "load" and answers "times SECONDS", or "refused WHY"; ends with its input. A save ends when the file has its
final name and file and folder are synced. A load reads with an empty page cache, as distdl's restore does.
"""
import os
import sys
import time

import torch

folder, mebibytes = sys.argv[1], int(sys.argv[2])
final, partial = os.path.join(folder, "torch.pt"), os.path.join(folder, "torch.pt.partial")
state = {f"layer{i}.weight": torch.randn(1 << 20) for i in range(mebibytes // 4)}


def save():
    start = time.perf_counter()
    with open(partial, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(partial, final)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    return time.perf_counter() - start


def load():
    with open(final, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    torch.load(final)
    return time.perf_counter() - start


print(f"ready torch.save of PyTorch {torch.__version__}", flush=True)
try:
    for line in sys.stdin:
        try:
            print(f"times {({'save': save, 'load': load}[line.strip()])():.6f}", flush=True)
        except Exception as error:
            print(f"refused {error}", flush=True)
finally:
    for path in (final, partial):
        if os.path.exists(path):
            os.remove(path)
