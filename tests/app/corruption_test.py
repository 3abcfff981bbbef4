# SPDX-License-Identifier: Apache-2.0
"""Wrong bits in a rank: the run names it, goes back to the last audited checkpoint and ends with the right bytes; a restore that
gives another loss than before ends the run."""
import json
import shutil
import unittest

from program import ProgramTest, error_lines

JOB = ["--set", "train.epochs=2", "--set", "train.audit_every=10", "--set", "checkpoint.every=5", "--set", "checkpoint.mode=sync"]


class Corruption(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def events(self, name):
        return [row for row in self.rows("journal.jsonl") if row["event"] == name]

    def test_a_flipped_bit_costs_a_relaunch_from_the_last_audited_checkpoint(self):
        self.succeed(*self.run_local(3, *JOB, "--set", "run.dir=whole"))
        run = self.start(*self.run_local(3, *JOB, "--set", "run.relaunches=1"),
                         variables={"DISTDL_FLIP_BIT": "parameters:2:21"})
        code, _, err = self.finish(run)
        self.assertEqual(code, 0, err)
        self.assertIn("silent corruption found by the audit of step 30 on ", err)
        self.assertIn("rank 2: other parameters", err)
        self.assertRegex(err, "the ranks ended with code 72; relaunching .* the newest checkpoint is that of step 20")
        [row] = self.events("corrupted")
        self.assertEqual((row["step"], row["audited"], row["wrong_ranks"], row["certain"]), (30, 20, [2], True))
        self.assertEqual(row["set_aside"], [25, 30])
        self.assertEqual([start.get("resumed_from") for start in self.events("started")], [None, 20])
        self.assertEqual(self.digest(), self.digest("whole"))
        log = self.log()
        for rank in (0, 1, 2):
            self.assertRegex(log, rf"error host=\S+ rank={rank} .*silent corruption")

    def test_another_loss_after_a_restore_ends_the_run(self):
        job = ["--set", "train.steps=30", "--set", "checkpoint.every=5", "--set", "checkpoint.mode=sync"]
        self.succeed(*self.run_local(2, *job))
        shutil.rmtree(self.folder / "run/checkpoints/step-000000000030")  # as if the run had been lost before
        metrics = self.folder / "run/metrics.jsonl"
        lines = metrics.read_text().splitlines()
        found = next(i for i, line in enumerate(lines) if json.loads(line)["step"] == 26)
        row = json.loads(lines[found])
        row["loss"] += 1e-9
        metrics.write_text("\n".join([*lines[:found], json.dumps(row), *lines[found + 1:]]) + "\n")
        code, _, err = self.distdl(*self.run_local(2, *job, "--set", "run.relaunches=2"))
        self.assertEqual(code, 77, err)
        self.assertIn("step 26 gave the loss 0x1.", err)
        self.assertNotIn("relaunching", err)
        self.assertEqual(len(error_lines(err)), 1, err)
        self.succeed(*self.run_local(2, *job, "--set", "train.check_resumed_loss=false"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
