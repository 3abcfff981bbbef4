# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders that are unwritable or full: real file systems of a few MiB, mounted by the test."""
import json
import os
import subprocess
import sys
import unittest

from program import DISTDL, ENDLESS, OTHERS_END, SLOW, ProgramTest, error_lines, fill, wait_until


class UnwritableFolder(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def test_a_file_in_the_way(self):
        (self.folder / "run").write_text("a file")
        self.fails(74, ["\"run\"", "run.dir"], *self.run_local(3))
        (self.folder / "other").mkdir()
        (self.folder / "other" / "checkpoints").write_text("a file")
        self.fails(74, ["other/checkpoints"], *self.run_local(3, "--set", "run.dir=other"))

    def test_a_read_only_file_system(self):
        disk = self.mount_tmpfs("disk", 8)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        self.fails(74, ["disk/run", "Read-only file system"], *self.run_local(3, "--set", "run.dir=disk/run"))

    def test_no_permission(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        (self.folder / "run").mkdir(mode=0o755)
        self.folder.chmod(0o755)
        for path in DISTDL.parents:
            if not path.stat().st_mode & 0o001:
                self.skipTest(f"another user cannot reach the program: {path}")
        self.fails(74, ["\"run\"", "Permission denied"], *self.run_local(2), user=65534, group=65534, extra_groups=[])


class FullDisk(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()
        self.disk = self.mount_tmpfs("disk", 24)
        self.where = ["--set", "run.dir=disk/run"]

    def saves(self):
        return [row["step"] for row in self.rows("journal.jsonl", "disk/run") if row["event"] == "checkpoint"]

    def start_and_fill(self, *job):
        run = self.start(*self.run_local(2, *job, *self.where))
        self.wait_for_checkpoint("disk/run")
        filler = fill(self.disk)

        def failed_twice():  # what older checkpoints left when they went is filled too
            fill(self.disk, "more")
            return run.stderr_file.read_text().count("training continues") >= 2
        wait_until(failed_twice, "failed saves")
        self.assertIsNone(run.poll(), "the run ended")
        self.verify("disk/run")
        return run, filler

    def unfill(self):
        for name in ("filler", "more"):
            (self.disk / name).unlink(missing_ok=True)

    def test_room_for_fewer_than_are_kept(self):
        job = ["--set", "model.hidden=[1024, 1024]", "--set", "train.steps=60"]
        self.succeed(*self.run_local(2, *job, "--set", "run.dir=whole"))
        size = sum(file.stat().st_size for file in (self.folder / "whole/checkpoints/step-000000000060").iterdir())
        self.mount_tmpfs("small", int(3.6 * size / (1 << 20)))  # not for three and the one that is being written
        code, _, err = self.distdl(*self.run_local(2, *job, "--set", "run.dir=small/run"))
        self.assertEqual(code, 0, err)
        self.assertIn("has space for 3 checkpoints, but checkpoint.keep = 3", err)
        self.assertIn("has too little free space: the checkpoint of step 10 is deleted", err)
        self.assertNotIn("training continues", err)
        self.assertEqual(self.digest("small/run"), self.digest("whole"))
        self.verify("small/run")

    def test_full_at_the_start(self):
        filler = fill(self.disk)
        self.fails(74, ["No space left"], *self.run_local(3, *self.where))
        with open(filler, "r+b") as file:  # room for the run's folders and logs, not for a checkpoint
            file.truncate(filler.stat().st_size - (128 << 10))
        self.fails(74, ["needs space", "MiB free"], *self.run_local(3, *self.where))
        filler.unlink()
        self.succeed(*self.run_local(3, *self.where))

    def test_full_for_a_while(self):
        job = [*SLOW, "--set", "train.epochs=20"]
        self.succeed(*self.run_local(3, *job, "--set", "run.dir=whole"))
        run, filler = self.start_and_fill(*job)
        self.unfill()
        code, _, err = self.finish(run)
        self.assertEqual(code, 0, err)
        self.assertIn("error host=", err)
        result = json.loads((self.disk / "run" / "result.json").read_text())
        self.assertGreaterEqual(result["failed_saves"], 2)
        self.assertEqual(self.digest("disk/run"), self.digest("whole"))

    def test_full_when_asked_to_stop(self):
        run, filler = self.start_and_fill(*ENDLESS)
        run.terminate()
        code, _, err = self.finish(run, OTHERS_END)
        self.assertEqual(code, 74, err)
        self.assertNotIn("training continues", error_lines(err)[-1])
        self.assertIn("MiB free", error_lines(err)[-1])
        self.assertRegex(err.splitlines()[-1], r"stopped; the newest checkpoint is that of step \d+")
        self.verify("disk/run")
        self.unfill()
        again = self.start(*self.run_local(3, *ENDLESS, *self.where))  # goes on from the checkpoint before
        wait_until(lambda: "resuming from step" in again.stderr_file.read_text(), "the resume")
        again.terminate()
        self.assertEqual(self.finish(again)[0], 75)

    def test_full_at_the_end(self):
        run, _ = self.start_and_fill(*SLOW, "--set", "train.epochs=20")
        code, _, err = self.finish(run)
        self.assertEqual(code, 74, err)
        result = self.disk / "run" / "result.json"  # if there was room for it
        self.assertTrue(not result.exists() or json.loads(result.read_text())["status"] == "failed")
        self.verify("disk/run")


def in_own_mount_namespace():
    """Starts this script again where its mounts end with it, whatever happens, if the rights allow."""
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if "DISTDL_TEST_MOUNTS" not in os.environ and subprocess.run([*unshare, "true"], capture_output=True).returncode == 0:
        os.environ["DISTDL_TEST_MOUNTS"] = "own"
        os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


if __name__ == "__main__":
    in_own_mount_namespace()
    unittest.main(verbosity=2)
