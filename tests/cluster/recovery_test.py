# SPDX-License-Identifier: Apache-2.0
"""Faults of ranks and nodes from which the agents recover within the job: the same launch goes on, within seconds, and ends with
the bytes of a run that nothing happened to.

A few faults run in `make test`. All of them, COUNT times each, with the times until the run trains again:
  DISTDL_LONG=COUNT [DISTDL_SLURMD_TIMEOUT=10] python3 tests/cluster/recovery_test.py build/bin/distdl Long
"""
import json
import os
import signal
import statistics
import time
import unittest

import pocket

JOB = "mlp.toml"
LONG = int(os.environ.get("DISTDL_LONG", "0"))
TIMEOUT = os.environ.get("DISTDL_SLURMD_TIMEOUT", "300")
NODES = ("n1", "n2", "n3")
FOLDER = None
CLUSTER = None


def words(name, *more):
    settings = [f"data.train={FOLDER}/shapes.h5", f"run.dir={FOLDER}/{name}", "train.epochs=40", "checkpoint.every=200",
                "checkpoint.memory_every=10", "checkpoint.partner_every=10", *more]
    return [word for setting in settings for word in ("--set", setting)]


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    pocket.call(pocket.DISTDL, "run", "--local", "-n", "1", f"{pocket.REPOSITORY}/examples/{JOB}", *words("undisturbed"))
    CLUSTER = pocket.Cluster(3, FOLDER, "recovery", ["--slurmd-timeout", TIMEOUT])


def processes(run, verb, node=None):
    """Pids of the "distdl VERB" of a run, on one node or on all."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                line = file.read().split("\0")
            with open(f"/proc/{pid}/environ") as file:
                environment = file.read().split("\0")
        except OSError:
            continue  # ended
        if line[0].endswith("distdl") and line[1:2] == [verb] and f"run.dir={run.folder}" in line:
            if node is None or f"SLURMD_NODENAME={node}" in environment:
                found.append(int(pid))
    return sorted(found)


class Case(unittest.TestCase):
    def start(self, name, *options, more=()):
        for node in NODES:
            CLUSTER.tool("rate", node, "200mbit")  # else it would be over before anything could happen to it
        run = pocket.Run(f"{FOLDER}/{name}")
        job = CLUSTER.train(["--nodes=2-3", *options], JOB, *words(name, *more))
        self.addCleanup(pocket.finished, "scancel", job.number)
        job.wait("step 60", lambda: run.step() >= 60, 60)
        return run, job

    def back(self, run, job, since, seconds=30):
        """Seconds until the run trained again after the fault at the time `since`."""
        starts = len(run.starts())

        def trains():
            return len(run.starts()) > starts and run.events("started")[-1]["time"] >= since - 1 and \
                run.step() != self.step_at_start(run)

        job.wait("training to go on", trains, seconds)
        return time.monotonic() - self.began

    @staticmethod
    def step_at_start(run):
        return run.starts()[-1].get("resumed_from", 0)

    def fault(self, run, job, what, act, seconds=30):
        self.began = time.monotonic()
        starts = len(run.starts())
        act()
        job.wait(f"a new start after {what}", lambda: len(run.starts()) > starts, seconds)
        done = len(run.steps())
        job.wait(f"steps after {what}", lambda: len(run.steps()) > done, seconds)
        taken = time.monotonic() - self.began
        print(f"{what}: training again after {taken:.1f} s, from step {run.starts()[-1].get('resumed_from')} on "
              f"{run.starts()[-1]['ranks']} ranks", flush=True)
        return taken

    def finish(self, run, job, lost=(), seconds=120):
        for node in set(NODES) - set(lost):
            CLUSTER.tool("rate", node, "none")
        job.wait("the end", run.finished, seconds)
        for node in lost:
            CLUSTER.tool("restart", node)  # Slurm waits for it: the job is COMPLETING
        job.wait_state("COMPLETED", 150)
        self.assertEqual(pocket.Run(f"{FOLDER}/undisturbed").digest(), run.digest())
        self.assertEqual("0", job.field("Restarts"))
        self.assertEqual([], processes(run, "worker") + processes(run, "agent"))
        self.assertEqual([], os.listdir(f"{run.folder}/launches"))


class Recovery(Case):
    def test_ranks_killed_and_frozen_then_a_node_lost(self):
        run, job = self.start("all")
        self.fault(run, job, "a killed rank", lambda: os.kill(processes(run, "worker", "n2")[0], signal.SIGKILL))
        self.fault(run, job, "a frozen rank", lambda: os.kill(processes(run, "worker", "n1")[0], signal.SIGSTOP))
        self.fault(run, job, "a lost node", lambda: CLUSTER.tool("kill", "n3"))
        self.assertEqual([3, 3, 3, 2], [start["ranks"] for start in run.starts()])
        self.finish(run, job, lost=["n3"])


pocket.main(3600 if LONG else 280)
