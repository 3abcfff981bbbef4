# SPDX-License-Identifier: Apache-2.0
"""Paths that cannot be looked at, in the place of each word that names a file or a folder: one clear error, never a defect of
distdl. DISTDL_PATHS=1 tries every path with every command."""
import os
import pathlib
import shutil
import subprocess
import unittest

from program import DISTDL, ProgramTest, become

ALL = bool(os.environ.get("DISTDL_PATHS"))
STRANGER = 61236  # without rights here; root may look at everything
P = "PATH"  # the word that is replaced
COMMANDS = [
    ("run", "--local", "-n", "1", P), ("run", "--check", P), ("run", "--local", "-n", "1", "job.toml", "--set", f"run.dir={P}"),
    ("run", "--local", "-n", "1", "job.toml", "--set", f"data.train={P}"), ("config", "--check", P), ("plan", P, "--nodes", "2"),
    ("plan", "job.toml", "--nodes", "2", "--from", P), ("submit", P, "--dry-run"), ("submit", "--lint", P), ("submit", "--join", P),
    ("init", P), ("status", P), ("log", P), ("why", P), ("ls", P), ("compare", P, P), ("report", P, "--file", "page.html"),
    ("report", "begun", "--file", P), ("trace", P), ("metrics", "export", P, "--to", "tensorboard"),
    ("metrics", "export", "begun", "--to", "tensorboard", "--out", P), ("metrics", "export", "begun", "--to", "mlflow", "--out", P),
    ("checkpoint", "ls", P), ("checkpoint", "show", P), ("checkpoint", "verify", P), ("checkpoint", "diff", P, "begun"),
    ("checkpoint", "digest", P), ("checkpoint", "why", "10", P), ("checkpoint", "gc", P), ("checkpoint", "export", P, "w.st"),
    ("checkpoint", "export", "begun", P), ("checkpoint", "import", "safetensors", P, "new"),
    ("checkpoint", "import", "safetensors", "w.safetensors", P), ("data", "info", P), ("data", "make", "shapes", P),
    ("data", "import", "text", P, "text.h5"), ("data", "import", "text", "job.toml", P), ("data", "import", "idx", P, P, "x.h5"),
    ("evaluate", P, "set.h5"), ("evaluate", "begun", P), ("predict", "begun", P), ("generate", P, "--prompt", "a"),
    ("sweep", P, "--local"), ("health", P), ("health", "--train", P, "--file", "p.json"), ("cancel", P), ("requeue", P), ("join", P),
    ("bench", "checkpoint", P), ("bench", "raw", P), ("doctor", P),
]
PATHS = {
    "no right to search": "closed/job.toml",
    "no right to read": "secret",
    "a long name": "n" * 300,
    "a long path": "/".join(["d" * 200] * 30),
    "a loop of links": "loop/job.toml",
    "a file as a folder": "job.toml/job.toml",
    "nothing": "",
    "control characters": "a\nb\x1b[31m\x07",
    "the parent of the root": "/../../..",
    "a device": "/dev/null",
    "bytes that are no UTF-8": b"\xff\xfe.toml",
}


class Paths(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()
        self.succeed("run", "--local", "-n", "1", "job.toml", "--set", "run.dir=begun", "--set", "train.end_at_step=10")
        (self.folder / "closed").mkdir()
        shutil.copy(self.folder / "job.toml", self.folder / "closed")
        (self.folder / "secret").write_text("secret")
        (self.folder / "loop").symlink_to("loop")
        for path in self.folder.rglob("*"):
            if os.geteuid() == 0:
                os.lchown(path, STRANGER, STRANGER)
        if os.geteuid() == 0:
            os.chown(self.folder, STRANGER, STRANGER)
        if not self.can_become(STRANGER):
            self.skipTest(f"user {STRANGER} cannot run \"{DISTDL}\"")
        (self.folder / "closed").chmod(0)
        (self.folder / "secret").chmod(0)
        self.addCleanup((self.folder / "closed").chmod, 0o700)

    def attempt(self, name, words, cwd=None):
        """Ends with a documented code, and says why in printable words."""
        def become_stranger():
            become(STRANGER)
            if cwd:
                os.chdir(cwd)
                os.rmdir(cwd)
        done = subprocess.run([DISTDL, *words], cwd=self.folder, preexec_fn=become_stranger, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, env={**os.environ, "XDG_STATE_HOME": str(self.folder / "state")})
        about = f"{name}: {words}: code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}"
        self.assertNotEqual(done.returncode, 70, about)
        self.assertTrue(0 <= done.returncode < 128, about)
        for unwanted in (b"internal error", b"terminate called", b"filesystem error", b"\x07", b"\x1b[31m"):
            self.assertNotIn(unwanted, done.stderr, about)
        return done

    def test_no_path_is_a_defect_of_the_program(self):
        paths = list(PATHS.items())
        for number, command in enumerate(COMMANDS):
            for name, path in paths if ALL else [paths[number % len(paths)], paths[(5 * number + 3) % len(paths)]]:
                path = os.fsencode(path)
                words = [os.fsencode(word).replace(P.encode(), path) for word in command]
                with self.subTest(path=name, command=command):
                    self.attempt(name, words)

    def test_a_job_file_behind_a_closed_folder_is_named(self):
        for words in (("run", "--local", "closed/job.toml"), ("submit", "closed/job.toml", "--dry-run"),
                      ("config", "--check", "closed/job.toml")):
            done = self.attempt("closed", words)
            self.assertIn(done.returncode, (74, 78), done.stderr)
            self.assertIn(b"closed/job.toml", done.stderr)
            self.assertIn(b"Permission denied", done.stderr)

    def test_a_checkpoint_that_may_not_be_read_is_not_called_damaged(self):
        step = next((self.folder / "begun" / "checkpoints").glob("step-*"))
        step.chmod(0)
        self.addCleanup(step.chmod, 0o700)
        done = self.attempt("closed", ("checkpoint", "ls", "begun"))
        self.assertIn(b"unreadable: ", done.stdout)
        for words in (("verify", "begun"), ("why", "10", "begun")):
            done = self.attempt("closed", ("checkpoint", *words))
            self.assertEqual(done.returncode, 74, done.stderr)
            self.assertNotIn(b"damaged", done.stdout + done.stderr)
            self.assertIn(b"Permission denied", done.stdout + done.stderr)

    def test_a_current_folder_that_is_gone(self):
        for number, command in enumerate(COMMANDS):
            if not ALL and number % 3:
                continue
            gone = self.folder / "gone"
            gone.mkdir()
            if os.geteuid() == 0:
                os.chown(gone, STRANGER, STRANGER)
            with self.subTest(command=command):
                self.attempt("gone", [word.replace(P, "here") for word in command], gone)
            self.assertFalse(gone.exists())


if __name__ == "__main__":
    unittest.main()
