# SPDX-License-Identifier: Apache-2.0
"""Bad nodes are found before ranks are started on them, left out, and avoided by what follows."""
import json
import os
import re
import time
import unittest

import pocket

FOLDER = None
CLUSTER = None


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    CLUSTER = pocket.Cluster(3, FOLDER, "preflight")


class Preflight(unittest.TestCase):
    def train(self, name, faults, *options, more=()):
        os.environ["DISTDL_PREFLIGHT_FAULTS"] = faults
        self.addCleanup(os.environ.pop, "DISTDL_PREFLIGHT_FAULTS", None)
        run = pocket.Run(f"{FOLDER}/{name}")
        job = CLUSTER.train(options, "mlp.toml", "--set", f"data.train={FOLDER}/shapes.h5", "--set", f"run.dir={run.folder}", "--set",
                            "train.epochs=2", *more)
        self.addCleanup(pocket.finished, "scancel", job.number)
        return run, job

    def test_a_wrong_node_is_left_out(self):
        run, job = self.train("wrong", "n2=digest", "--nodes=2-3")
        job.wait_state("COMPLETED", 90)
        self.assertTrue(run.finished(), job.log())
        check, = run.events("preflight")
        self.assertEqual(["n2"], check.get("excluded"), f"{check}\n{job.log()}")
        self.assertLess(check["seconds"], 20)
        self.assertEqual(["n1,n3"], [row["nodes"] for row in run.events("launch")])
        self.assertIn("n2; wrong: computes other gradients", pocket.call(pocket.DISTDL, "status", run.folder))

    def test_a_node_with_a_slow_link_is_left_out(self):
        """So slow that no other node seems as slow where all nodes share the processors of a busy machine."""
        CLUSTER.tool("rate", "n3", "10mbit")
        self.addCleanup(CLUSTER.tool, "rate", "n3", "none")
        run, job = self.train("slow", "", "--nodes=2-3", more=("--set", "run.slow_node_share=0.1"))
        job.wait_state("COMPLETED", 90)
        check, = run.events("preflight")
        self.assertEqual(["n3"], check.get("excluded"), f"{check}\n{job.log()}")
        self.assertRegex(check["cause"], "n3: .*network: ")
        self.assertEqual(["n1,n2"], [row["nodes"] for row in run.events("launch")])

    def test_links_are_measured_in_time_however_slow_they_are(self):
        self.addCleanup(lambda: [CLUSTER.tool("rate", node, "none") for node in ("n1", "n2", "n3")])
        for node in ("n1", "n2", "n3"):
            CLUSTER.tool("rate", node, "10mbit")
        run, job = self.train("narrow", "", "--nodes=3", "--ntasks-per-node=2")
        check, = pocket.wait_for("the pre-flight", lambda: run.events("preflight"), 90, job.story)
        self.assertNotIn("unmeasured", check, job.log())
        self.assertLess(check["seconds"], 10, job.log())
        row = re.search(r"3 nodes .* ([0-9.]+) +([0-9.]+)  ok, medians", job.log())
        self.assertTrue(row, job.log())
        self.assertTrue(0.5 < float(row[1]) < 5 and float(row[2]) > 0, row[0])

    def test_a_node_that_does_not_report_is_left_out(self):
        run, job = self.train("silent", "n1=silent", "--nodes=2-3", more=("--set", "run.preflight_seconds=4", "--set", "run.slow_node_share=0"))
        job.wait_state("COMPLETED", 90)
        check, = run.events("preflight")
        self.assertEqual((["n1"], "n1: has not reported"), (check["excluded"], check["cause"]), job.log())
        self.assertEqual(["n2,n3"], [row["nodes"] for row in run.events("launch")], "without the batch host")
        self.assertRegex(check["unmeasured"], "the links of n2 and n3 were not measured: ")
        self.assertRegex(job.log(), "n2 and n3 were not measured: .*; the run goes on without that")
        self.assertRegex(job.log(), r"2 nodes .* - +-  ok, medians")
        self.assertEqual("0", job.field("Restarts"))

    def test_a_slow_node_is_used_once_too_few_others_are_left(self):
        """An earlier start has found it slow, and left the row."""
        run = pocket.Run(f"{FOLDER}/back")
        os.mkdir(run.folder)
        with open(f"{run.folder}/bad-nodes.jsonl", "w", encoding="utf-8") as rows:
            rows.write(json.dumps({"event": "bad_node", "nodes": "n3", "cause": "slow: matrix product: 20 GFLOP/s", "time": time.time()}) + "\n")
        _, job = self.train("back", "", "--nodes=2-3", more=("--set", "train.epochs=100", "--set", "comm.timeout_seconds=5"))
        job.wait("training", lambda: run.step() >= 20, 90)
        self.assertEqual(["n1,n2"], [row["nodes"] for row in run.events("launch")], job.log())
        CLUSTER.tool("kill", "n2")
        self.addCleanup(CLUSTER.tool, "restart", "n2")
        job.wait("training with n3", lambda: len(run.starts()) == 2, 120)
        self.assertEqual(["n1,n2", "n1,n3"], [row["nodes"] for row in run.events("launch")], job.log())
        self.assertIn("n3 was left out, and is used all the same", job.log())
        self.assertEqual("0", job.field("Restarts"))

    def test_a_requeued_job_runs_elsewhere(self):
        run, job = self.train("elsewhere", "n1=file", "--nodes=2")
        job.wait_state("COMPLETED", 120)
        self.assertTrue(run.finished(), job.log())
        self.assertEqual(1, len(run.events("requeued")), job.log())
        self.assertEqual("n[2-3]", job.field("NodeList"), job.story())


pocket.main()
