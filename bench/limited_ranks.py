# SPDX-License-Identifier: Apache-2.0
"""Ranks of one machine that each get a part of a processor, so that some are slow."""
import os
import pathlib
import subprocess
import sys
import time

PERIOD = 20_000  # microseconds: short, so that a rank is slow rather than now fast, now stopped


class CpuLimit:
    """A control group, of version 1 or 2, whose processes together get a part of one processor, before other work of the machine."""

    def __init__(self, name, processors):
        old, new = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")
        quota = int(PERIOD * processors)
        try:
            if old.is_dir():
                self.folder = old / name
                self.folder.mkdir()
                (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD))
                (self.folder / "cpu.cfs_quota_us").write_text(str(quota))
                (self.folder / "cpu.shares").write_text("100000")
            else:
                (new / "cgroup.subtree_control").write_text("+cpu")
                self.folder = new / name
                self.folder.mkdir()
                (self.folder / "cpu.max").write_text(f"{quota} {PERIOD}")
                (self.folder / "cpu.weight").write_text("10000")
        except OSError as error:
            print(f"no control group with a limit of the processor's time: {error}", file=sys.stderr)
            sys.exit(77)

    def take(self, process):
        (self.folder / "cgroup.procs").write_text(str(process))

    def remove(self):
        for _ in range(100):
            try:
                return self.folder.rmdir()
            except OSError:  # its processes are still ending
                time.sleep(0.1)


def ranks_below(parent):
    """The process of each rank that descends from `parent`."""
    parents, ranks = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            for variable in (entry / "environ").read_bytes().split(b"\0"):
                if variable.startswith(b"DISTDL_RANK="):
                    ranks[int(entry.name)] = int(variable.split(b"=")[1])
        except (OSError, IndexError):
            continue  # it has ended
    def descends(process):
        while process in parents and process != parent:
            process = parents[process]
        return process == parent
    return {rank: process for process, rank in ranks.items() if descends(process)}


def run(command, parts, log_file, environment):
    """Runs a "distdl run --local" whose ranks get these parts. Exits with its output if it fails, and with 77 where there are no control groups."""
    limits = [CpuLimit(f"limited_rank_{os.getpid()}_{rank}", part) for rank, part in enumerate(parts)]
    with open(log_file, "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            held = {}
            while process.poll() is None:
                for rank, pid in (ranks_below(process.pid).items() if len(held) < len(limits) else ()):
                    limits[rank].take(pid)
                    held[rank] = pid
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
            for limit in limits:
                limit.remove()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}\n{pathlib.Path(log_file).read_text()}")
