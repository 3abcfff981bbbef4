# SPDX-License-Identifier: Apache-2.0
"""Run folders that older versions wrote, kept in old_runs: today's program verifies them and goes on from them, with the same bytes."""
import pathlib
import tarfile
import unittest

from bits import library
from program import ProgramTest

ARCHIVES = sorted((pathlib.Path(__file__).parent / "old_runs").glob("*.tar.xz"))
MORE = 5  # steps


class OldRuns(ProgramTest):
    def test_verify_and_resume(self):
        self.assertTrue(ARCHIVES)
        for archive in ARCHIVES:
            self.setUp()
            with tarfile.open(archive) as files:
                files.extractall(self.folder)
            root = self.folder
            for digest in sorted(root.rglob("digest")):
                with self.subTest(archive=archive.name, run=digest.parent.name):
                    self.folder = digest.parent
                    self.verify_and_resume()

    def verify_and_resume(self):
        def kept(name, otherwise):
            file = self.folder / name
            return file.read_text() if file.exists() else otherwise

        self.assertEqual(self.digest(), kept("digest", None))
        step = int(self.digest().split()[1])
        self.succeed("checkpoint", "verify", "--deep", "run")
        compared = self.succeed("compare", "run", "run")
        if not kept("run/job.toml", None):
            self.assertIn("its job was not kept", compared)
        code, _, err = self.distdl(*self.run_local(int(kept("ranks", 3)), "--set", f"train.steps={step + MORE}"))
        self.assertEqual(code, 0, err)
        self.assertNotRegex(err, "written by an older distdl")  # keys that came later have their usual values there
        self.assertEqual([row.get("resumed_from") for row in self.rows("journal.jsonl") if row["event"] == "started"][-1], step)
        self.assertEqual(max(row["step"] for row in self.rows("metrics.jsonl") if "loss" in row), step + MORE)
        self.assertRegex(self.succeed("compare", "run", "run"), rf"(?m)^steps +{step + MORE} +{step + MORE}$")
        self.assertEqual(self.digest().split()[1], str(step + MORE))
        if kept("library", None) == library():
            self.assertEqual(self.digest(), kept("digest_later", None), "not what the older version made of it")
        else:
            print(f"{self.folder.name}: its later bytes are not compared: known are those with {kept('library', 'no library')}, and here is {library()}")
        self.verify()


if __name__ == "__main__":
    unittest.main()
