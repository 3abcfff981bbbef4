# SPDX-License-Identifier: Apache-2.0
"""The final checkpoint's bytes do not depend on the number of ranks, on who started them, or on what happened on the way."""
import threading
import time
import unittest

import pocket

JOB = "mlp.toml"  # with batch normalization, whose running statistics are state as well
FOLDER = None
CLUSTER = None


EACH_LAYER = ["--set", "parallel.bucket_mib=1e-6"]  # its gradients are a bucket of their own


def words(name):
    return ["--set", f"data.train={FOLDER}/shapes.h5", "--set", f"run.dir={FOLDER}/{name}", "--set", "train.epochs=25",
            "--set", "checkpoint.every=20", "--set", "run.slow_node_share=0"]


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    CLUSTER = pocket.Cluster(3, FOLDER)


class LocalRuns(threading.Thread):
    """Undisturbed runs on this machine, one after the other, while the job on the cluster waits for its nodes."""

    def __init__(self, sizes):
        super().__init__(daemon=True)
        self.sizes = sizes
        self.digests = {}
        self.error = None

    def run(self):
        try:
            for ranks in self.sizes:
                name = f"local-{ranks}"
                pocket.call("nice", pocket.DISTDL, "run", "--local", "-n", str(ranks), f"{pocket.REPOSITORY}/examples/{JOB}",
                            *words(name))
                self.digests[name] = pocket.Run(f"{FOLDER}/{name}").digest()
        except Exception as error:  # told by the main thread
            self.error = error


class SameBytes(unittest.TestCase):
    def disturbed(self):
        """Preempted twice, then a node loses power; goes on with two ranks instead of three."""
        for node in ("n1", "n2", "n3"):
            CLUSTER.tool("rate", node, "200mbit")  # else it would be over before anything could happen to it
        run = pocket.Run(f"{FOLDER}/disturbed")
        job = CLUSTER.train(["--nodes=2-3"], JOB, *words("disturbed"), *EACH_LAYER)
        total = lambda: run.starts()[-1]["total_steps"]
        for time_, fraction in enumerate((0.1, 0.3), start=1):
            job.wait(f"step {fraction} of the whole", lambda: run.starts() and run.step() >= fraction * total(), 60)
            CLUSTER.preempt()
            job.wait("the run to resume after a preemption", lambda: len(run.starts()) > time_, 60)
        job.wait("half of the steps", lambda: run.step() >= 0.5 * total(), 60)
        CLUSTER.tool("kill", "n3")
        for node in ("n1", "n2"):
            CLUSTER.tool("rate", node, "none")
        job.wait("the run to resume after the loss of a node", lambda: len(run.starts()) > 3, 120)
        job.wait("the end", run.finished, 120)
        job.wait_state("COMPLETED", 20)
        return run, job

    def test_final_checkpoint_is_the_same_whatever_happened(self):
        local = LocalRuns((1, 2, 3, 4, 6))
        began = time.monotonic()
        six = CLUSTER.train(["--nodes=3", "--ntasks-per-node=2"], JOB, *words("slurm-6"))
        six.wait_state("COMPLETED", 60)
        print(f"six ranks on three nodes: {time.monotonic() - began:.1f} s")
        local.start()
        began = time.monotonic()
        run, job = self.disturbed()
        print(f"disturbed run: {time.monotonic() - began:.1f} s, {run.result()}")
        local.join(270)
        self.assertFalse(local.is_alive(), "the local runs do not end")
        if local.error:
            raise local.error

        starts = run.starts()
        self.assertEqual([3, 3, 3, 2], [start["ranks"] for start in starts], job.story())
        self.assertTrue(all(start["resumed_from"] > 0 for start in starts[1:]), starts)
        self.assertEqual(2, len(run.events("stopped")), "both preemptions left time to save")
        self.assertEqual(3, run.result()["interruptions"])

        digests = dict(local.digests)
        for name in ("slurm-6", "disturbed"):
            digests[name] = pocket.Run(f"{FOLDER}/{name}").digest()
        self.assertEqual(7, len(digests))
        self.assertEqual(1, len(set(digests.values())), digests)
        self.assertEqual([6], [start["ranks"] for start in pocket.Run(f"{FOLDER}/slurm-6").starts()])
        print(f"seven runs, one digest: {digests['disturbed']}")


pocket.main()
