# SPDX-License-Identifier: Apache-2.0
"""Alerts of a job file: a command is run and a file is written, once for each cause."""
import os
import signal
import time
import unittest

from program import ENDLESS, PATIENCE, ProgramTest, wait_until

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
RISING = """
[[alert]]
when = "loss rising"
limit = 0.0001
steps = 1
file = "rising.txt"
"""
SLOWER = """
[[alert]]
when = "throughput halved"
limit = 0.1
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
        """By far, so that neither needs a quiet machine."""
        self.make_set()
        with open(self.folder / "job.toml", "a") as job:
            job.write(SLOWER)
        # A watch that looks now and then may find the rank stopped each time.
        run = self.start_watched("--set", "run.rank_frozen_seconds=600")
        self.wait_for_checkpoint()
        rank = self.ranks_of(run)[1]
        pause, end = 0.2, time.monotonic() + PATIENCE
        while not self.told("alert", "throughput halved"):  # a rank that computes now and then
            self.assertLess(time.monotonic(), end, self.rows("journal.jsonl"))
            os.kill(rank, signal.SIGSTOP)
            time.sleep(pause)
            os.kill(rank, signal.SIGCONT)
            time.sleep(0.002)
            pause = min(1.2 * pause, 2)
        self.wait_until_told("alert_cleared", "throughput halved")
        self.stop(run)
        self.assertEqual(len((self.folder / "slower.txt").read_text().splitlines()), len(self.told("alert", "throughput halved")))

    def test_tell_that_a_loss_rises_and_that_it_no_longer_does(self):
        self.make_set()
        job = self.folder / "job.toml"
        job.write_text(job.read_text() + RISING)
        run = self.start_watched("--set", "optim.learning_rate=1e-6")  # so that it only varies, from step to step
        self.wait_until_told("alert", "loss rising")
        self.stop(run)
        self.assertIn("loss rising: the mean loss of 1 steps is ", (self.folder / "rising.txt").read_text())
        if len(self.told("alert", "loss rising")) == len(self.told("alert_cleared", "loss rising")):
            return  # the last loss was the lowest one, by chance
        job.write_text(job.read_text().replace("limit = 0.0001", "limit = 1000.0"))  # which no such loss reaches
        run = self.start_watched("--set", "optim.learning_rate=1e-6")
        self.wait_until_told("alert_cleared", "loss rising", len(self.told("alert", "loss rising")))
        self.stop(run)

    def start_watched(self, *settings):
        return self.start(*self.run_local(2, *ENDLESS, *settings), variables={"DISTDL_ALERT_MS": "50"})

    def stop(self, run):
        run.terminate()
        code, _, err = self.finish(run)
        self.assertEqual(code, 75, err)

    def wait_until_told(self, event, when, times=1):
        wait_until(lambda: len(self.told(event, when)) >= times, f"{event} of {when}")

    def told(self, event, when):
        return [row for row in self.rows("journal.jsonl") if row["event"] == event and row["when"] == when]


if __name__ == "__main__":
    unittest.main()
