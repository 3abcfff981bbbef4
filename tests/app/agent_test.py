# SPDX-License-Identifier: Apache-2.0
"""Agents on this machine alone, as srun starts them on the nodes of a job; tests/cluster has several nodes."""
import json
import shutil
import signal
import time
import unittest

from program import ENDLESS, ProgramTest, wait_until

SOON = 25  # seconds: an agent that waits for others gives up after 60


class Agent(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()
        self.launch = self.folder / "run/launches/ab12"
        self.launch.mkdir(parents=True)

    def words(self, *more):
        return ["agent", "job.toml", "--launch", "ab12", *more]

    def join(self):
        agent = self.start("agent", "--join", "run")
        wait_until(lambda: (self.launch / "node-1.json").exists(), "the record of the node that joins")
        return agent

    def test_ends_at_once_if_the_record_of_a_generation_is_damaged(self):
        (self.launch / "1.json").write_text("{}")
        began = time.monotonic()
        self.fails(69, ['run/launches/ab12/1.json" is damaged'], *self.words())
        self.assertLess(time.monotonic() - began, SOON)

    def test_one_that_joins_ends_with_the_launch(self):
        first = self.start(*self.words(*ENDLESS))
        wait_until(lambda: (self.launch / "1.json").exists(), "the first generation")
        with open(self.folder / "run/journal.jsonl", "a", encoding="utf-8") as journal:
            print(json.dumps({"event": "launch", "time": 1, "id": "ab12"}), file=journal)
        shutil.copytree(self.launch, self.folder / "copy")
        joined = self.join()
        wait_until(lambda: "has joined the run" in first.stderr_file.read_text(), "that the first agent knows the second")
        time.sleep(2)  # it sends heartbeats
        first.send_signal(signal.SIGKILL)
        self.finish(first)
        shutil.rmtree(self.launch)
        code, _, err = self.finish(joined, SOON)
        self.assertEqual(0, code, err)
        self.assertIn("the launch has ended meanwhile", err)
        (self.folder / "copy").rename(self.launch)
        joined = self.join()
        shutil.rmtree(self.launch)
        code, _, err = self.finish(joined, SOON)
        self.assertEqual(71, code, f"nobody has answered: {err}")
        self.assertFalse(self.launch.exists())

    def test_the_next_start_removes_what_a_killed_one_has_left_of_its_launch(self):
        killed = self.start(*self.words(*ENDLESS))
        wait_until((self.launch / "ranks").exists, "the ranks to meet")
        killed.send_signal(signal.SIGKILL)
        self.finish(killed)
        self.assertTrue((self.launch / "launch.json").exists())
        self.succeed(*self.run_local(1, "--set", "train.epochs=1"))
        self.assertFalse(self.launch.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
