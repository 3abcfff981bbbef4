# SPDX-License-Identifier: Apache-2.0
"""Runs on three nodes of a pocket cluster to which something happens, from which the agents recover within the job."""
import json
import os
import signal
import time
import unittest
import unittest.mock

import pocket

JOB = "mlp.toml"
LONG = int(os.environ.get("DISTDL_LONG", "0"))
TIMEOUT = os.environ.get("DISTDL_SLURMD_TIMEOUT", "300")
NODES = ("n1", "n2", "n3")
FOLDER = None
CLUSTER = None  # of three nodes


def words(name, *more):
    settings = [f"data.train={FOLDER}/shapes.h5", f"run.dir={FOLDER}/{name}", "train.epochs=40", "checkpoint.every=200",
                "checkpoint.memory_every=10", "checkpoint.partner_every=10", "run.slow_node_share=0", *more]
    return [word for setting in settings for word in ("--set", setting)]


def set_up(name):
    """A cluster of three nodes, and a run to which nothing happens."""
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    pocket.call(pocket.DISTDL, "run", "--local", "-n", "1", f"{pocket.REPOSITORY}/examples/{JOB}", *words("undisturbed"))
    if LONG and int(TIMEOUT) <= 30:  # more than the minute for which a node that was cut off refuses the job's next start
        os.environ["POCKET_CRED_EXPIRE"] = "65"
    CLUSTER = pocket.Cluster(3, FOLDER, name, ["--slurmd-timeout", TIMEOUT])


class Case(unittest.TestCase):
    def start(self, name, *options, more=()):
        for node in NODES:
            CLUSTER.tool("rate", node, "200mbit")  # else it would be over before anything could happen to it
        run = pocket.Run(f"{FOLDER}/{name}")
        job = CLUSTER.train(["--nodes=2-3", *options], JOB, *words(name, *more))
        self.addCleanup(pocket.finished, "scancel", job.number)
        job.wait("step 60", lambda: run.step() >= 60, 60)
        return run, job

    def start_with_wrong_bits(self, name, *options, more=()):
        """One bit of a rank of n2 flips before step 71; the audit of step 80 must find it. Two ranks a node: of two ranks in all
        nothing tells which one is right. What resumes from a checkpoint flips no bit again."""
        with unittest.mock.patch.dict(os.environ, DISTDL_FLIP_BIT="parameters:2:70"):
            run, job = self.start(name, "--ntasks-per-node=2", *options, more=["train.audit_every=20", "checkpoint.every=20", *more])
        job.wait("a second start", lambda: len(run.starts()) == 2, 120)
        found, = run.events("corrupted")
        self.assertEqual((80, 60, [2], "n2", True), tuple(found[key] for key in ("step", "audited", "wrong_ranks", "nodes", "certain")))
        self.assertEqual([None, 60], [start.get("resumed_from") for start in run.starts()])
        self.assertEqual(("silent corruption", "n2"), self.losses(run)[0])
        self.assertIn("n2: rank 2 ended with code 72 (corruption)", pocket.call(pocket.DISTDL, "log", run.folder))
        bad, = [row for row in pocket.read_lines(f"{run.folder}/bad-nodes.jsonl") if row["event"] == "bad_node"]
        self.assertEqual("n2", bad["nodes"])
        return run, job

    def losses(self, run):
        """Kind and node of each generation that broke off, as the journal has them."""
        return [(row.get("kind"), row.get("node")) for row in run.events("failure")]

    def check_times(self, run):
        """Each second is in one bucket, and those of recoveries have some."""
        status = json.loads(pocket.call(pocket.DISTDL, "status", run.folder, "--goodput", "--json"))
        times = status["ledger"]
        seconds = times["seconds"]
        print({name: round(value, 1) for name, value in seconds.items()}, flush=True)
        self.assertAlmostEqual(sum(seconds.values()), times["wall_seconds"], delta=0.01 * times["wall_seconds"])
        for bucket in ("detect", "recover", "lost work"):
            self.assertGreater(seconds[bucket], 0, bucket)
        self.assertEqual(0, seconds["restart wait"])
        self.assertEqual([kind for kind, _ in self.losses(run)], [row["kind"] for row in status["restarts"]])

    def fault(self, run, job, what, act, seconds=30):
        """Returns the seconds until the ranks train again, and until they tell of further steps. A parameter server tells those of a round at its end."""
        began = time.monotonic()
        starts = len(run.starts())
        act()
        job.wait(f"a new start after {what}", lambda: len(run.starts()) > starts, seconds)
        started = time.monotonic() - began
        done = len(run.steps())
        job.wait(f"steps after {what}", lambda: len(run.steps()) > done, seconds)
        told = time.monotonic() - began
        print(f"{what}: training again after {started:.1f} s, further steps told after {told:.1f} s, from step "
              f"{run.starts()[-1].get('resumed_from')} on {run.starts()[-1]['ranks']} ranks", flush=True)
        return started, told

    def join(self, run):
        """A second job, whose node joins the run."""
        printed = json.loads(pocket.call(pocket.DISTDL, "submit", "--join", run.folder, "--json"))
        self.addCleanup(pocket.finished, "scancel", printed["job"])
        return pocket.Job(printed["job"], run.folder)

    def refuse_to_join(self, run, why):
        refused = pocket.finished(pocket.DISTDL, "submit", "--join", run.folder)
        self.assertEqual((64, ""), (refused.returncode, refused.stdout))
        self.assertIn(why, refused.stderr)

    def finish(self, run, job, lost=(), restarts="0", seconds=120, same_bytes=True):
        for node in set(NODES) - set(lost):
            CLUSTER.tool("rate", node, "none")
        job.wait("the end", run.finished, seconds)
        for node in lost:
            CLUSTER.tool("restart", node)  # Slurm waits for it: the job is COMPLETING
        job.wait_state("COMPLETED", 150)
        if same_bytes:
            self.assertEqual(pocket.Run(f"{FOLDER}/undisturbed").digest(), run.digest())
        self.assertIn(job.field("Restarts"), restarts)
        self.assertEqual([], run.processes("worker") + run.processes("agent"))
        self.assertEqual([], os.listdir(f"{run.folder}/launches"))

    def outlive_the_batch_host(self, run, job):
        """n1 is lost: to the end of the run without it, and of the job when it is back."""
        for node in ("n2", "n3"):
            CLUSTER.tool("rate", node, "none")
        job.wait("the end", run.finished, 120)
        time.sleep(5)
        CLUSTER.tool("restart", "n1")
        job.wait_state("COMPLETED", 400)
