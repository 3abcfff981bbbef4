# SPDX-License-Identifier: Apache-2.0
"""Runs that keep snapshots beside their checkpoints, or instead of them: how a relaunch and a restart go on."""
import os
import re
import signal
import unittest

from program import SLOW, ProgramTest, wait_until

SNAPSHOTS = [*SLOW, "--set", "train.epochs=30", "--set", "checkpoint.memory_every=2"]


class Snapshots(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def starts(self, run="run"):
        return [row for row in self.rows("journal.jsonl", run) if row["event"] == "started"]

    def newest(self, event):
        """Step of the newest one of the last start."""
        step = -1
        for row in self.rows("journal.jsonl"):
            step = -1 if row["event"] == "started" else row["step"] if row["event"] == event else step
        return step

    def kill_a_rank(self, run, start, reached, what):
        wait_until(lambda: len(self.starts()) == start and reached(), what)
        os.kill(self.ranks_of(run)[1], signal.SIGKILL)

    def ends_like_an_undisturbed_run(self, run):
        code, _, err = self.finish(run)
        self.assertEqual(code, 0, err)
        self.succeed(*self.run_local(3, *SLOW, "--set", "train.epochs=30", "--set", "run.dir=whole"))
        self.assertEqual(self.digest(), self.digest("whole"))

    def test_a_run_that_they_bring_forward_is_not_given_up(self):
        run = self.start(*self.run_local(2, *SNAPSHOTS, "--set", "checkpoint.every=0", "--set", "run.relaunches=1"))
        for start in (1, 2, 3):
            self.kill_a_rank(run, start, lambda: self.newest("snapshot") >= 100 * start, f"step {100 * start}")
        shown = re.compile(r"(?m)^levels +memory step \d+$")
        wait_until(lambda: shown.search(self.succeed("watch", "--once", "run")), "the levels")
        self.ends_like_an_undisturbed_run(run)
        self.assertNotIn("levels", self.succeed("status", "run", "--verbose"), "a run that ends well removes its snapshots")
        starts = self.starts()
        self.assertEqual(len(starts), 4)
        for start, row in enumerate(starts[1:], 1):
            self.assertGreaterEqual(row["resumed_from"], 100 * start)
            self.assertIn("2 of memory of its node", row["resumed_source"])

    def test_one_can_start_without_them(self):
        words = self.run_local(2, *SNAPSHOTS, "--set", "checkpoint.every=200", "--set", "run.relaunches=1")
        first = self.start(*words, "--set", "run.relaunches=0")
        self.kill_a_rank(first, 1, lambda: self.newest("checkpoint") >= 200 and self.newest("snapshot") >= 250, "step 250")
        code, _, err = self.finish(first)
        self.assertEqual(code, 137, err)
        saved = self.newest("checkpoint")  # a save that was due during a snapshot comes a step or two later
        second = self.start(*words, "--no-snapshots")
        self.kill_a_rank(second, 2, lambda: self.newest("snapshot") >= 300, "step 300")
        self.ends_like_an_undisturbed_run(second)
        _, back, relaunch = self.starts()
        self.assertEqual((back["resumed_from"], back["resumed_source"]), (saved, "the file system"))
        self.assertGreaterEqual(relaunch["resumed_from"], 300)
        self.assertIn("snapshots", relaunch["resumed_source"], "what the new run has taken itself is not left aside")


if __name__ == "__main__":
    unittest.main(verbosity=2)
