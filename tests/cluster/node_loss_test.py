# SPDX-License-Identifier: Apache-2.0
"""Nodes that vanish or are cut off, while Slurm notices at once (SlurmdTimeout=10) or not for long (300, its default), and a
controller that is away: the job goes on by itself, never FAILED, and ends with the bytes of a run that nothing happened to.

One scenario runs in `make test`. All of them, about 30 minutes, and each kind of product of ranks, about 20:
  DISTDL_LONG=10,300 python3 tests/cluster/node_loss_test.py build/bin/distdl Long
  DISTDL_LONG=10,300 python3 tests/cluster/node_loss_test.py build/bin/distdl Products
"""
import os
import signal
import time
import unittest

import pocket

LONG = os.environ.get("DISTDL_LONG", "")
NODES = ("n1", "n2", "n3")
FOLDER = None
CLUSTER = None
TIMEOUT = None  # SlurmdTimeout of CLUSTER


class Job:
    """A job file, its settings, and the digest of a run on one rank that nothing happened to."""
    COMMON = ["comm.timeout_seconds=5", "run.slow_node_share=0"]

    def __init__(self, file, *settings):
        self.file, self.settings, self.undisturbed = file, settings, None

    def words(self, name, more=()):
        settings = [*self.COMMON, *self.settings, *more, f"run.dir={FOLDER}/{name}"]
        return [word.format(folder=FOLDER) for setting in settings for word in ("--set", setting)]

    def digest(self):
        if not self.undisturbed:
            name = f"undisturbed-{id(self)}"
            pocket.call(pocket.DISTDL, "run", "--local", "-n", "1", f"{pocket.REPOSITORY}/examples/{self.file}", *self.words(name))
            self.undisturbed = pocket.Run(f"{FOLDER}/{name}").digest()
        return self.undisturbed


SHAPES = Job("mlp.toml", "data.train={folder}/shapes.h5", "train.epochs=40", "checkpoint.every=20")
TEXT_SETTINGS = ["data.train={folder}/text.h5", "data.holdout=2000", "model.context=32", "model.width=32", "parallel.microbatches=6",
                 "parallel.microbatch_size=2", "parallel.tensor_shards=2", "optim.clip_norm=0", "train.epochs=1", "train.steps=300",
                 "checkpoint.every=40"]
TEXT = Job("gpt.toml", *TEXT_SETTINGS)
CHUNKED_TEXT = Job("gpt.toml", *TEXT_SETTINGS, "parallel.context_chunks=2")  # which changes the bytes


def setUpModule():
    global FOLDER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    pocket.call(pocket.DISTDL, "data", "import", "text", f"{pocket.REPOSITORY}/docs/configuration.md", f"{FOLDER}/text.h5")


def use_cluster(timeout):
    global CLUSTER, TIMEOUT
    if TIMEOUT == timeout:
        return
    if CLUSTER:
        CLUSTER.tool("down")
    CLUSTER = pocket.Cluster(3, FOLDER, f"loss{timeout}t", ["--slurmd-timeout", str(timeout)])
    TIMEOUT = timeout


class Case(unittest.TestCase):
    def start(self, name, timeout, train, more=(), options=()):
        """On three nodes. `more`: settings beside those of the job `train`."""
        use_cluster(timeout)
        for node in NODES:
            CLUSTER.tool("rate", node, "50mbit")  # else it would be over before anything could happen to it, on a fast machine
        run = pocket.Run(f"{FOLDER}/{name}")
        job = CLUSTER.train(["--nodes=2-3", *options], train.file, *train.words(name, more))
        self.addCleanup(pocket.finished, "scancel", job.number)
        job.wait("step 60", lambda: run.step() >= 60, 60)
        return run, job

    def finish(self, run, job, train, seconds=180, lost=None):
        for node in set(NODES) - {lost}:
            CLUSTER.tool("rate", node, "none")
        job.wait("the end", run.finished, seconds)
        if lost:
            CLUSTER.tool("restart", lost)  # Slurm waits for it: the job is COMPLETING
        job.wait_state("COMPLETED", 150)  # a node that was cut off reports once a minute what has ended there
        self.assertEqual(train.digest(), run.digest())


class NodeLoss(Case):
    """Of ranks that hold the model together: three stages of two tensor ranks; with two nodes, four stages."""

    def test_a_lost_node_that_is_back_and_then_a_controller_that_is_away(self):
        run, job = self.start("both", 300, TEXT, PRODUCTS["all"], ["--ntasks-per-node=2"])
        CLUSTER.tool("kill", "n3")
        began = time.monotonic()
        job.wait("the run to go on with the nodes that are left", lambda: len(run.starts()) == 2, 120)
        print(f"on two nodes {time.monotonic() - began:.0f} s after the third one was lost")
        for node in ("n1", "n2"):
            CLUSTER.tool("rate", node, "5mbit")  # the restart ends that of n3; a step then takes so long that the run outlives all that follows
        CLUSTER.tool("restart", "n3")  # srun ends a step as soon as a node of it is back
        job.wait("the run to go on with the node that is back", lambda: len(run.starts()) == 3, 60)
        self.assertEqual([6, 4, 6], [start["ranks"] for start in run.starts()])
        self.assertEqual("0", job.field("Restarts"))
        CLUSTER.tool("kill", "ctl")
        os.kill(run.processes("run")[0], signal.SIGUSR1)
        pocket.wait_for("distdl to wait for Slurm", lambda: "waiting for Slurm to requeue the job" in job.log(), 60, job.log)
        CLUSTER.tool("restart", "ctl")
        job.wait("the run to go on after its requeue", lambda: len(run.starts()) == 4, 90)
        self.assertEqual("1", job.field("Restarts"))
        self.finish(run, job, TEXT)
        self.assertEqual(["1x3x2", "1x4x1", "1x3x2", "1x3x2"], [row["product"].split()[0] for row in run.events("product")])


@unittest.skipUnless(LONG, "DISTDL_LONG is not set")
class Long(Case):
    def check(self, timeout, fault):
        kind, node, seconds = fault
        run, job = self.start(f"{kind}-{node}-{seconds}-{timeout}", timeout, SHAPES)
        began = time.monotonic()
        CLUSTER.tool(kind, node)
        if kind == "cut":
            time.sleep(seconds)
            CLUSTER.tool("mend", node)
        self.finish(run, job, SHAPES, timeout + 240, node if kind == "kill" else None)
        print(f"{kind} {node} {seconds} s, SlurmdTimeout={timeout}: completed {time.monotonic() - began:.0f} s after, starts "
              f"{[(start['ranks'], start['restart']) for start in run.starts()]}", flush=True)
        pocket.wait_for("all nodes to be idle", lambda: pocket.call("sinfo", "-h", "-p", "batch", "-o", "%T").split() == ["idle"],
                        timeout + 90, lambda: pocket.call("sinfo", "-N"))

    def test_all(self):
        for timeout in map(int, LONG.split(",")):
            for fault in [("kill", "n3", 0), ("kill", "n1", 0), *(("cut", node, seconds) for node in ("n3", "n1")
                                                                  for seconds in (15, 45, 100))]:
                with self.subTest(timeout=timeout, fault=fault):
                    self.check(timeout, fault)


CHUNKS = ["parallel.context_chunks=2"]
PRODUCTS = {
    "sharded": ["parallel.strategy=sharded"],
    "gradients": ["parallel.strategy=sharded_gradients", "parallel.recompute=blocks"],
    "pipelines": ["parallel.pipeline_ranks=3"],
    "interleaved": ["parallel.pipeline_ranks=2", "parallel.schedule=interleaved", "parallel.strategy=sharded"],
    "tensor": ["parallel.tensor_ranks=2", "parallel.strategy=sharded_gradients"],
    "all": ["parallel.pipeline_ranks=3", "parallel.tensor_ranks=2", "parallel.recompute=blocks"],
    "parameters": ["parallel.strategy=sharded_parameters"],
    "auto": ["parallel.strategy=auto"],
    "context": [*CHUNKS, "parallel.context_ranks=2", "parallel.strategy=sharded", "parallel.recompute=blocks"],
    "replicas": ["train.audit_every=10"],
    "gpipe": ["parallel.pipeline_ranks=2", "parallel.schedule=gpipe", "parallel.strategy=sharded"],
    "zero-bubble": ["parallel.pipeline_ranks=2", "parallel.schedule=zero-bubble", "parallel.strategy=sharded_gradients"],
    "sharded-tensor": ["parallel.tensor_ranks=2", "parallel.strategy=sharded"],
    "audited-tensor": ["parallel.tensor_ranks=2", "train.audit_every=10"],
    "audited-pipelines": ["parallel.pipeline_ranks=3", "train.audit_every=10"],
    "context-gradients": [*CHUNKS, "parallel.context_ranks=2", "parallel.strategy=sharded_gradients"],
    "context-and-pipelines": [*CHUNKS, "parallel.context_ranks=2", "parallel.pipeline_ranks=3", "parallel.schedule=zero-bubble"],
}


@unittest.skipUnless(LONG, "DISTDL_LONG is not set")
class Products(Case):
    """The job is preempted, a rank is killed, one frozen, a node lost: each start has the product that is possible then."""

    def check(self, timeout, kind):
        train = CHUNKED_TEXT if CHUNKS[0] in PRODUCTS[kind] else TEXT
        run, job = self.start(f"{kind}-{timeout}", timeout, train, PRODUCTS[kind], ["--ntasks-per-node=2"])
        CLUSTER.preempt()
        job.wait("the run to resume after a preemption", lambda: len(run.starts()) > 1 and run.step() >= 100, 90)
        faults = {"a killed rank": lambda: os.kill(run.processes("worker", "n2")[0], signal.SIGKILL),
                  "a frozen rank": lambda: os.kill(run.processes("worker", "n1")[0], signal.SIGSTOP),
                  "a lost node": lambda: CLUSTER.tool("kill", "n3")}
        seconds = []
        for number, (what, act) in enumerate(faults.items(), 3):
            began = time.monotonic()
            act()
            job.wait(f"the run to go on after {what}", lambda number=number: len(run.starts()) == number, timeout + 120)
            seconds.append(f"{time.monotonic() - began:.1f} s after {what}")
        self.finish(run, job, train, 240, "n3")
        # srun may end the step as the node comes back, before the agents have agreed on the end: one more start then finds nothing to train.
        self.assertEqual([6, 6, 6, 6, 4], [start["ranks"] for start in run.starts()][:5])
        self.assertIn([start["resumed_from"] for start in run.starts()[5:]], ([], [300]))
        print(f"{kind}, SlurmdTimeout={timeout}: trains again {', '.join(seconds)}", flush=True)
        pocket.wait_for("all nodes to be idle", lambda: pocket.call("sinfo", "-h", "-p", "batch", "-o", "%T").split() == ["idle"],
                        timeout + 90, lambda: pocket.call("sinfo", "-N"))

    def test_all(self):
        for timeout in map(int, LONG.split(",")):
            for kind in PRODUCTS:
                with self.subTest(timeout=timeout, kind=kind):
                    self.check(timeout, kind)


pocket.main(3600 if LONG else 600)
