# SPDX-License-Identifier: Apache-2.0
"""R3: a training run is killed at a random step and phase, again and again, and its last checkpoint has the same bytes as that
of a run which nobody disturbed. 3 times; in the long run 50."""
import os
import pathlib
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "app"))
from program import SLOW, ProgramTest, wait_until  # noqa: E402

LONG = "DISTDL_LONG_PROOFS" in os.environ
KILLS = 50 if LONG else 3
JOB = [*SLOW, "--set", f"train.epochs={120 if LONG else 12}", "--set", "checkpoint.every=4"]


class Resume(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def started(self):
        return sum(row["event"] == "started" for row in self.rows("journal.jsonl"))

    def kill_once(self, ranks, chance):
        """Everybody at once, as when a node dies, or one rank only. Returns False if the run was over before."""
        starts = self.started()
        run = self.start(*self.run_local(ranks, *JOB), start_new_session=True)
        wait_until(lambda: self.started() > starts or run.poll() is not None, "the start of training")
        time.sleep(chance.expovariate(4))
        if run.poll() is not None:
            return False
        try:
            if chance.random() < 0.7:
                os.killpg(run.pid, signal.SIGKILL)
            else:
                os.kill(chance.choice(self.ranks_of(run)), signal.SIGKILL)
        except (OSError, IndexError):  # it has just ended
            pass
        run.communicate(timeout=60)
        return run.returncode != 0

    def test_killed_anywhere_it_goes_on_to_the_same_bytes(self):
        self.succeed(*self.run_local(3, *JOB, "--set", "run.dir=whole"))
        seed = int(os.environ.get("DISTDL_PROOF_SEED", "1"))
        chance = random.Random(seed)
        kills = 0
        for number in range(KILLS):
            if not self.kill_once(1 + number % 3, chance):
                break
            kills += 1
        self.succeed(*self.run_local(2, *JOB))
        steps = {row["step"] for row in self.rows("metrics.jsonl") if "loss" in row}
        self.assertEqual(steps, set(range(1, len(steps) + 1)))
        self.assertEqual(self.digest(), self.digest("whole"))
        self.verify()
        print(f"killed {kills} times (seed {seed}); {len(steps)} steps; the digests are equal")
        self.assertGreaterEqual(kills, 1 if not LONG else 40)


if __name__ == "__main__":
    unittest.main()
