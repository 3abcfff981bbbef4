# SPDX-License-Identifier: Apache-2.0
"""Alerts of a job file: a command is run and a file is written, once, when a loss is not finite."""
import unittest

from program import ProgramTest

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


if __name__ == "__main__":
    unittest.main()
