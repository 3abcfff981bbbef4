# SPDX-License-Identifier: Apache-2.0
"""A parameter server that loses workers, servers, links and its scheduler: training goes on with what the holders of its ranges have kept, and each
microbatch of each step counts once.

One of them runs in `make test`. All of them, COUNT times in each mode, with the times until the run trains again:
  DISTDL_LONG=COUNT [DISTDL_SLURMD_TIMEOUT=10] python3 tests/cluster/server_loss_test.py build/bin/distdl LongServers
"""
import itertools
import os
import signal
import time
import unittest

import pocket
import recovery_case as case


def setUpModule():
    case.set_up("servers")


class ServersCase(case.Case):
    """A parameter server: servers on n1 and n2, of which each has a copy of the other's range, workers on all three nodes, the scheduler on n1."""
    servers = 2

    def start_servers(self, name, mode):
        return self.start(name, more=["parallel.strategy=parameter_server", f"parallel.server_mode={mode}", f"cluster.ps.tasks={self.servers}",
                                      "parallel.server_partners=true", "parallel.server_steps=8", "checkpoint.memory_every=0", "checkpoint.partner_every=0"])

    def finish_servers(self, run, job, mode, lost=(), restarts="0"):
        """The ledger is exact: each step counts once, and in it each microbatch in each range."""
        self.finish(run, job, lost=lost, restarts=restarts, same_bytes=mode == "synchronous")
        steps = run.steps()
        self.assertEqual(sorted(set(steps)), steps)
        if mode == "synchronous":  # no rank tells of the steps of a round that did not end, though they are kept
            return
        self.assertEqual(pocket.Run(f"{case.FOLDER}/undisturbed").step(), steps[-1])
        starts = run.starts()
        kept = [start["resumed_from"] for start in starts[1:]]
        ranks = {start["start"]: start["ranks"] for start in starts}
        told = 0
        for row in pocket.read_lines(f"{run.folder}/metrics.jsonl"):
            if "staleness" in row:
                told = max([told, *(step for step in kept if step < row["step"])])
                self.assertEqual((row["step"] - told) * 12 * min(self.servers, ranks[row["start"]]), sum(row["staleness"]), row)
                told = row["step"]
        self.assertEqual(steps[-1], told)


class Servers(ServersCase):
    def test_a_worker_and_a_server_are_lost(self):
        run, job = self.start_servers("servers", "bounded")
        self.fault(run, job, "a worker without a server", lambda: os.kill(run.processes("worker", "n3")[0], signal.SIGKILL))
        self.fault(run, job, "a server", lambda: os.kill(run.processes("worker", "n2")[0], signal.SIGKILL))
        for start in run.starts()[1:]:
            self.assertRegex(start["resumed_source"], "^what servers and their partners kept")
        self.finish_servers(run, job, "bounded")


@unittest.skipUnless(case.LONG, "DISTDL_LONG is not set")
class LongServers(ServersCase):
    """Of each mode, COUNT times. Training goes on within ten seconds."""

    def each(self, what, act, end=None, restarts="0"):
        """`end`: what there is to do then; returns the nodes that are lost for good."""
        for i, mode in itertools.product(range(case.LONG), ("synchronous", "bounded", "asynchronous")):
            with self.subTest(f"{i} {mode}"):
                pocket.wait_for("three idle nodes", lambda: set(pocket.call("sinfo", "-hNo%t").split()) == {"idle"}, 120)
                run, job = self.start_servers(f"{what.replace(' ', '-')}-{mode}{i}", mode)
                started, told = self.fault(run, job, f"{mode}: {what}", lambda run=run: act(run))
                self.assertLess(started, 10)
                self.assertLess(told, 15)
                self.assertRegex(run.starts()[-1]["resumed_source"], "^what servers and their partners kept")
                self.finish_servers(run, job, mode, lost=(end(run, job) if end else None) or [], restarts=restarts)

    def kill(self, run, node):
        os.kill(run.processes("worker", node)[0], signal.SIGKILL)

    def test_a_worker(self):
        self.each("a lost worker", lambda run: self.kill(run, "n3"))

    def test_a_worker_where_the_rest_of_a_step_takes_seconds(self):
        """Agents leave the others the time for it."""
        for node in case.NODES:
            case.CLUSTER.tool("rate", node, "none")
        run = pocket.Run(f"{case.FOLDER}/long-steps")
        job = case.CLUSTER.train(["--nodes=3"], case.JOB, *case.words(
            "long-steps", "parallel.strategy=parameter_server", "parallel.server_mode=asynchronous", "cluster.ps.tasks=2", "parallel.server_partners=true",
            "parallel.server_steps=4", "parallel.microbatches=9", "parallel.microbatch_size=1024", "model.hidden=[2048,2048,2048]", "train.steps=9",
            "train.evaluate_every=0", "checkpoint.memory_every=0", "checkpoint.partner_every=0"))
        self.addCleanup(pocket.finished, "scancel", job.number)
        job.wait("step 4", lambda: run.step() >= 4, 120)
        time.sleep(0.3)  # the next step has begun, and takes 3 s
        started, _ = self.fault(run, job, "a worker of long steps", lambda: self.kill(run, "n3"), 120)
        self.assertGreater(started, 3, "the rest of the step was over before other ranks would have been killed")
        start = run.starts()[-1]
        self.assertRegex(start["resumed_source"], "^what servers and their partners kept")
        self.assertIn(start["resumed_from"], range(5, 8))
        self.finish(run, job, same_bytes=False)
        self.assertEqual(9, run.step())

    def test_a_server(self):
        self.each("a lost server", lambda run: self.kill(run, "n2"))

    def test_the_node_of_a_server(self):
        self.each("a lost node of a server", lambda run: case.CLUSTER.tool("kill", "n2"), lambda *_: ["n2"])

    def test_a_server_and_its_partners_link(self):
        self.servers = 3

        def both(run):
            self.kill(run, "n2")
            case.CLUSTER.tool("cut", "n3")

        self.each("a lost server and its partners link", both, lambda *_: case.CLUSTER.tool("mend", "n3") and None)

    def test_the_node_of_the_scheduler(self):
        self.each("a lost node of the scheduler", lambda run: case.CLUSTER.tool("kill", "n1"), self.outlive_the_batch_host, restarts="01")


pocket.main(7200 if case.LONG else 280)
