# SPDX-License-Identifier: Apache-2.0
"""Run folders that older versions wrote, kept in old_runs: today's program verifies them and goes on from them."""
import pathlib
import tarfile
import unittest

from program import ProgramTest

ARCHIVES = sorted((pathlib.Path(__file__).parent / "old_runs").glob("*.tar.xz"))
MORE = 5  # steps


class OldRuns(ProgramTest):
    def test_verify_and_resume(self):
        self.assertTrue(ARCHIVES)
        for archive in ARCHIVES:
            with self.subTest(archive=archive.name):
                self.setUp()
                with tarfile.open(archive) as files:
                    files.extractall(self.folder)
                self.assertEqual(self.digest(), (self.folder / "digest").read_text())
                step = int(self.digest().split()[1])
                self.succeed("checkpoint", "verify", "--deep", "run")
                self.assertIn("its job was not kept", self.succeed("compare", "run", "run"))
                code, _, err = self.distdl(*self.run_local(3, "--set", f"train.steps={step + MORE}"))
                self.assertEqual(code, 0, err)
                self.assertEqual([row.get("resumed_from") for row in self.rows("journal.jsonl") if row["event"] == "started"][-1], step)
                self.assertEqual([row["step"] for row in self.rows("metrics.jsonl") if "loss" in row][-MORE:],
                                 list(range(step + 1, step + MORE + 1)))
                self.assertRegex(self.succeed("compare", "run", "run"), rf"(?m)^steps +{step + MORE} +{step + MORE}$")
                self.assertEqual(self.digest().split()[1], str(step + MORE))
                self.verify()


if __name__ == "__main__":
    unittest.main()
