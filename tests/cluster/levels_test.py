# SPDX-License-Identifier: Apache-2.0
"""Runs that write no checkpoint on the way and lose processes and nodes all the same: the snapshots in the nodes' memory and on
their disks give back the newest step. The same for a program in C that srun starts."""
import os
import pathlib
import re
import shutil
import signal
import unittest

import pocket

JOB = "mlp.toml"
FOLDER = None
CLUSTER = None


def words(name, *more):
    settings = [f"data.train={FOLDER}/shapes.h5", f"run.dir={FOLDER}/{name}", "train.epochs=25", "checkpoint.every=0", "run.slow_node_share=0", *more]
    return [word for setting in settings for word in ("--set", setting)]


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    pocket.call(pocket.DISTDL, "run", "--local", "-n", "1", f"{pocket.REPOSITORY}/examples/{JOB}", *words("undisturbed"))
    CLUSTER = pocket.Cluster(3, FOLDER, "levels")


def kill_a_rank(name):
    """By SIGKILL, on whatever node; whether there was one."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                line = file.read().split("\0")
            if line[0].endswith("/distdl") and line[1] == "worker" and f"run.dir={FOLDER}/{name}" in line:
                os.kill(int(pid), signal.SIGKILL)
                return True
        except (OSError, IndexError):
            continue  # ended
    return False


class Levels(unittest.TestCase):
    def start(self, name, *settings):
        for node in ("n1", "n2", "n3"):
            CLUSTER.tool("rate", node, "200mbit")  # else it would be over before anything could happen to it
        return pocket.Run(f"{FOLDER}/{name}"), CLUSTER.train(["--nodes=2-3"], JOB, *words(name, *settings))

    def reach(self, run, job, fraction):
        job.wait(f"{fraction} of the steps",
                 lambda: run.starts() and run.step() >= fraction * run.starts()[-1]["total_steps"], 60)

    def lose_a_node(self, run, job, starts):
        CLUSTER.tool("kill", "n3")
        for node in ("n1", "n2"):
            CLUSTER.tool("rate", node, "none")
        job.wait("the run to resume after the loss of a node", lambda: len(run.starts()) == starts, 120)

    def finish(self, run, job, sources):
        """It ended with the bytes of the undisturbed run, having resumed from these sources, never from far back."""
        job.wait("the end", run.finished, 120)
        job.wait_state("COMPLETED", 20)
        starts = run.starts()
        self.assertEqual(len(sources) + 1, len(starts), job.story())
        for start, source in zip(starts[1:], sources):
            print(f"step {start['resumed_from']} of {start['total_steps']} from {start['resumed_source']}, "
                  f"{start['steps_repeated']} steps repeated")
            self.assertIn(source, start["resumed_source"], job.story())
            self.assertLessEqual(start["steps_repeated"], 60, starts)
        self.assertEqual(pocket.Run(f"{FOLDER}/undisturbed").digest(), run.digest())
        self.assertEqual(1, len(run.events("checkpoint")), "the last one alone")
        for node in ("n1", "n2"):
            left = pocket.call(pocket.TOOL, "exec", node, "ls", "/dev/shm")
            self.assertNotIn("distdl.slot", left, f"{node} keeps snapshots of a run that has ended")

    def test_1_own_memory_and_parity(self):
        run, job = self.start("parity", "checkpoint.memory_every=2", "checkpoint.parity_every=5")
        self.reach(run, job, 0.3)
        self.assertTrue(kill_a_rank("parity"))
        job.wait("the run to resume after the loss of a rank", lambda: len(run.starts()) == 2, 60)
        self.reach(run, job, 0.6)
        self.lose_a_node(run, job, 3)
        self.finish(run, job, ["3 of memory of its node", "1 of parity"])

    def test_2_partners(self):
        CLUSTER.tool("restart", "n3")
        run, job = self.start("partners", "checkpoint.partner_every=5")
        self.reach(run, job, 0.4)
        self.lose_a_node(run, job, 2)
        self.finish(run, job, ["1 of memory of another node"])

    def test_3_a_program_in_c(self):
        """Its ranks find each other by PMIx; a node without memory gets its part from the others."""
        CLUSTER.tool("restart", "n3")
        program = f"{os.path.dirname(pocket.DISTDL)}/capi_steps"
        for level in ("partner", "parity"):
            folder = pathlib.Path(FOLDER, f"c-{level}")
            start = ["srun", "--mpi=pmix", "--nodes=3", "--ntasks=3", program, str(folder)]
            options = f"checkpoint.{level}_every=1"
            ended = pocket.finished(*start, "1000000", options, "20")  # without closing anything
            self.assertIn("begin 0\n", ended.stdout, ended.stderr)
            for step in folder.glob("step-*"):
                shutil.rmtree(step)
            pocket.call(pocket.TOOL, "exec", "n2", "sh", "-c", "rm /dev/shm/distdl.*")
            output = pocket.call(*start, "25", options)
            self.assertRegex(output, r"(?s)from snapshots\nbegin \d+\n.*durable 25\n")
            self.assertGreaterEqual(int(re.search(r"begin (\d+)", output)[1]), 1)


pocket.main()
