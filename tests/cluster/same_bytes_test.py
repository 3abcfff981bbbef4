# SPDX-License-Identifier: Apache-2.0
"""The final checkpoint's bytes do not depend on the number of ranks, on who started them, or on what happened on the way.

With two and with four ranks on this machine too, and each model as processes, here and on two and three nodes, in products of all kinds of ranks, about ten minutes:
  DISTDL_LONG=1 python3 tests/cluster/same_bytes_test.py build/bin/distdl
"""
import collections
import json
import os
import threading
import time
import unittest

import pocket

LONG = os.environ.get("DISTDL_LONG", "")
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
    CLUSTER = pocket.Cluster(3, FOLDER, options=["--cpus", "4"] if LONG else [])


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
                            *words(name), timeout=pocket.PATIENCE * 120)
                self.digests[name] = pocket.Run(f"{FOLDER}/{name}").digest()
        except Exception as error:  # told by the main thread
            self.error = error


class SameBytes(unittest.TestCase):
    def disturbed(self):
        """Preempted twice, then a node loses power; goes on with two ranks instead of three."""
        for node in ("n1", "n2", "n3"):
            CLUSTER.tool("rate", node, "200mbit")  # else it would be over before anything could happen to it
        run = pocket.Run(f"{FOLDER}/disturbed")
        disk = f"{FOLDER}/disk"  # each node has a folder of its own in it
        os.mkdir(disk)
        job = CLUSTER.train(["--nodes=2-3"], JOB, *words("disturbed"), *EACH_LAYER, "--set", f"data.stage={disk}")
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
        local = LocalRuns((1, 2, 3, 4, 6) if LONG else (1, 3, 6))
        began = time.monotonic()
        six = CLUSTER.train(["--nodes=3", "--ntasks-per-node=2"], JOB, *words("slurm-6"))
        six.wait_state("COMPLETED", 60)
        print(f"six ranks on three nodes: {time.monotonic() - began:.1f} s")
        local.start()
        began = time.monotonic()
        run, job = self.disturbed()
        print(f"disturbed run: {time.monotonic() - began:.1f} s, {run.result()}")
        local.join(pocket.PATIENCE * 270)
        self.assertFalse(local.is_alive(), "the local runs do not end")
        if local.error:
            raise local.error

        # Slurm 24.11 requeues a job that has ended with its node lost: that start finds nothing left to train.
        starts = [start for start in run.starts() if start.get("resumed_from") != run.result()["steps"]]
        self.assertEqual([3, 3, 3, 2], [start["ranks"] for start in starts], job.story())
        self.assertTrue(all(start["resumed_from"] > 0 for start in starts[1:]), starts)
        self.assertEqual(2, len(run.events("stopped")), "both preemptions left time to save")
        self.assertEqual(3, run.result()["interruptions"])
        self.assertEqual(["n1", "n2", "n3"], sorted(os.listdir(f"{FOLDER}/disk/distdl-data-{os.getuid()}")))

        digests = dict(local.digests)
        for name in ("slurm-6", "disturbed"):
            digests[name] = pocket.Run(f"{FOLDER}/{name}").digest()
        self.assertEqual(len(local.sizes) + 2, len(digests))
        self.assertEqual(1, len(set(digests.values())), digests)
        self.assertEqual([6], [start["ranks"] for start in pocket.Run(f"{FOLDER}/slurm-6").starts()])
        print(f"{len(digests)} runs, one digest: {digests['disturbed']}")


Product = collections.namedtuple("Product", "nodes per_node tensor pipeline context strategy schedule")
HERE = 0  # nodes: processes of this machine, without Slurm
# The other ranks are replicas of the data. A model of images has no chunks: there are replicas in place of context ranks.
PRODUCTS = (
    Product(HERE, 8, 4, 2, 1, "replicas", "zero-bubble"),
    Product(HERE, 8, 1, 4, 2, "sharded", "1f1b"),
    Product(HERE, 4, 1, 1, 1, "sharded_parameters", "1f1b"),
    Product(2, 4, 2, 2, 2, "sharded_gradients", "interleaved"),
    Product(2, 2, 4, 1, 1, "replicas", "1f1b"),
    Product(3, 2, 2, 1, 1, "sharded_parameters", "1f1b"),
    Product(3, 2, 1, 1, 2, "sharded", "1f1b"),
)
COMMON = {"run.preflight": "off", "checkpoint.every": 0, "checkpoint.mode": "sync", "train.steps": 3, "train.evaluate_every": 0,
          "parallel.microbatches": 8, "parallel.microbatch_size": 2, "parallel.tensor_shards": 4,
          "optim.name": "adamw", "optim.learning_rate": 0.01, "optim.clip_norm": 0.5}
TEXT = {"data.holdout": 129, "model.name": "gpt", "model.layers": 2, "model.width": 32, "model.heads": 8, "model.context": 16,
        "model.vocabulary": 257, "model.dropout": 0.1, "parallel.context_chunks": 4}
IMAGES = {"data.holdout": 20}


@unittest.skipUnless(LONG, "DISTDL_LONG is not set")
class Models(unittest.TestCase):
    """Of four tensor shards. Each kind of rank occurs in each of its degrees, with each model."""

    @classmethod
    def setUpClass(cls):
        pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/images.h5", "--samples", "330", "--size", "12", "--classes", "4")
        pocket.call(pocket.DISTDL, "data", "import", "text", f"{pocket.REPOSITORY}/docs/configuration.md", f"{FOLDER}/text.h5")

    def words(self, name, product):
        context = product.context if self.keys.get("parallel.context_chunks", 1) > 1 else 1
        keys = {"run.dir": f"{FOLDER}/{name}", "parallel.tensor_ranks": product.tensor, "parallel.pipeline_ranks": product.pipeline,
                "parallel.context_ranks": context, "parallel.strategy": product.strategy, "parallel.schedule": product.schedule}
        return [self.file, *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]

    def digest_here(self, name, product):
        pocket.call(pocket.DISTDL, "run", "--local", "-n", str(product.per_node), *self.words(name, product), timeout=300)
        return pocket.Run(f"{FOLDER}/{name}").digest()

    def digest_of(self, name, job):
        run = pocket.Run(f"{FOLDER}/{name}")
        job.wait(f"the end of {name}", run.finished, 100)
        job.wait_state("COMPLETED", 30)
        return run.digest()

    def check(self, model, data, keys):
        self.keys = {**COMMON, "data.train": f"{FOLDER}/{data}.h5", **keys}
        self.file = f"{FOLDER}/{model}.toml"
        with open(self.file, "w") as file:
            file.write("".join(f"{key} = {json.dumps(value)}\n" for key, value in self.keys.items()))
        began = time.monotonic()
        named = {f"{model}-{number}": product for number, product in enumerate(PRODUCTS)}
        jobs = {}
        for name, product in named.items():  # Slurm starts them one after the other, as nodes become free
            if product.nodes != HERE:
                jobs[name] = CLUSTER.submit(f"--nodes={product.nodes}", f"--ntasks-per-node={product.per_node}",
                                            f"{pocket.REPOSITORY}/sbatch/train.sbatch", *self.words(name, product))
                self.addCleanup(pocket.finished, "scancel", jobs[name].number)
        expected = self.digest_here(f"{model}-alone", Product(HERE, 1, 1, 1, 1, "replicas", "1f1b"))
        for name, product in named.items():
            with self.subTest(model=model, product=product):
                digest = self.digest_of(name, jobs[name]) if name in jobs else self.digest_here(name, product)
                starts = pocket.Run(f"{FOLDER}/{name}").starts()
                self.assertEqual([max(product.nodes, 1) * product.per_node], [start["ranks"] for start in starts])
                self.assertEqual(expected, digest)
        print(f"{model}: {len(named)} products in {time.monotonic() - began:.0f} s, {expected}", flush=True)

    def test_gpt_with_a_tied_head(self):
        self.check("tied", "text", TEXT)

    def test_gpt_with_a_head_of_its_own(self):
        self.check("untied", "text", {**TEXT, "model.tied_head": False})

    def test_gpt_with_grouped_heads(self):
        self.check("grouped", "text", {**TEXT, "model.tied_head": False, "model.variant": "llama", "model.kv_heads": 4})

    def test_vit(self):
        self.check("vit", "images", {**IMAGES, "model.name": "vit", "model.patch": 6, "model.layers": 2, "model.width": 16, "model.heads": 4, "model.dropout": 0.1})

    def test_resnet18(self):
        self.check("resnet18", "images", {**IMAGES, "model.name": "resnet18", "train.steps": 1, "optim.name": "sgd"})


pocket.main(900 if LONG else 280)
