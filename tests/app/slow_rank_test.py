# SPDX-License-Identifier: Apache-2.0
"""One of three ranks has a third of the processor time of the others: microbatches move away from it, and the bytes stay the same."""
import json
import pathlib
import subprocess
import sys
import unittest

import program

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "slow_node"


class SlowRank(unittest.TestCase):
    def test_takes_less_and_the_run_is_faster(self):
        done = subprocess.run([sys.executable, BENCH, "--distdl", program.DISTDL, "--repeats", "1", "--seconds", "10", "--json"],
                              stdout=subprocess.PIPE, text=True, timeout=240)
        if done.returncode == 77:
            self.skipTest("no control groups here")
        self.assertEqual(done.returncode, 0)
        result = json.loads(done.stdout)
        self.assertTrue(result["same_bytes"])
        row = result["repeats"][0]
        self.assertTrue(row["on"]["moves"], "nothing has moved")
        self.assertLess(row["on"]["moves"][-1][2], 4, "of 12, that a third of the ranks would have")
        self.assertEqual(row["off"]["moves"], [])
        self.assertGreater(result["ratios"]["off"], 1.25)  # bench/slow_node measures; this is a machine with other work


if __name__ == "__main__":
    unittest.main(verbosity=2)
