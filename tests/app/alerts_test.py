# SPDX-License-Identifier: Apache-2.0
"""Alerts of a job file: a command is run and a file is written, once for each cause."""
import os
import signal
import time
import unittest

from program import ENDLESS, PATIENCE, ProgramTest

ALERTS = """
[[alert]]
when = "loss not finite"
run = ["sh", "-c", "echo $DISTDL_ALERT at $DISTDL_ALERT_STEP in $DISTDL_RUN >> told"]
file = "alerts.txt"
[[alert]]
when = "disk filling"
limit = 1.0
file = "disk.txt"
"""
SLOWER = """
[[alert]]
when = "loss rising"
limit = 0.0001
steps = 1
file = "rising.txt"
[[alert]]
when = "throughput halved"
steps = 3
file = "slower.txt"
"""


class AlertsTest(ProgramTest):
    def test_tell_that_a_loss_is_not_finite(self):
        self.make_set()
        with open(self.folder / "job.toml", "a") as job:
            job.write(ALERTS)
        code, out, err = self.distdl(*self.run_local(2, "--set", "optim.learning_rate=1e30"), variables={"DISTDL_ALERT_MS": "50"})
        self.assertEqual(code, 78, out + err)
        self.assertIn("alert: loss not finite: a loss became infinite or not a number", err)
        told = (self.folder / "told").read_text().splitlines()
        self.assertEqual(len(told), 1)
        self.assertRegex(told[0], f"^loss not finite at [0-9]* in {self.folder.resolve()}/run$")
        self.assertIn("loss not finite: a loss became infinite", (self.folder / "alerts.txt").read_text())
        self.assertEqual(len((self.folder / "disk.txt").read_text().splitlines()), 1)
        rows = [row for row in self.rows("journal.jsonl") if row["event"] == "alert"]
        self.assertEqual(sorted((row["rule"], row["when"]) for row in rows), [(1, "loss not finite"), (2, "disk filling")])
        self.assertIn("disk filling: ", self.succeed("status", "run"))

    def test_tell_that_a_run_gets_slower_and_that_it_no_longer_is(self):
        self.make_set()
        with open(self.folder / "job.toml", "a") as job:
            job.write(SLOWER)
        run = self.start(*self.run_local(2, *ENDLESS), variables={"DISTDL_ALERT_MS": "50"})
        self.wait_for_checkpoint()
        rank = self.ranks_of(run)[1]
        end = time.monotonic() + PATIENCE
        while not self.told("alert", "throughput halved"):  # a rank that computes now and then
            self.assertLess(time.monotonic(), end, self.rows("journal.jsonl"))
            os.kill(rank, signal.SIGSTOP)
            time.sleep(0.4)
            os.kill(rank, signal.SIGCONT)
            time.sleep(0.002)
        while not self.told("alert_cleared", "throughput halved"):
            self.assertLess(time.monotonic(), end, self.rows("journal.jsonl"))
            time.sleep(0.1)
        run.terminate()
        self.assertEqual(self.finish(run)[0], 75)
        self.assertEqual(len((self.folder / "slower.txt").read_text().splitlines()), len(self.told("alert", "throughput halved")))
        self.assertTrue(self.told("alert", "loss rising") and self.told("alert_cleared", "loss rising"))

    def told(self, event, when):
        return [row for row in self.rows("journal.jsonl") if row["event"] == event and row["when"] == when]


if __name__ == "__main__":
    unittest.main()
