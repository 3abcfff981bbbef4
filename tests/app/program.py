# SPDX-License-Identifier: Apache-2.0
"""Runs the program distdl as a user would, in a scratch folder, and sees what a user sees."""
import atexit
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import ending  # noqa: E402

ending.watch()
DISTDL = pathlib.Path(os.environ["DISTDL_BUILD_DIR"]).resolve() / "bin" / "distdl"
PATIENCE = 180  # seconds, for what should take some; machines can be busy
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
OTHERS_END = 10  # seconds that ranks have to end after one of them failed

JOB = """[run]
dir = "run"
relaunches = 0
[data]
train = "set.h5"
holdout = 60
[model]
name = "mlp"
hidden = [16]
[parallel]
microbatches = 6
microbatch_size = 4
[train]
epochs = 4
[checkpoint]
every = 10
"""
# Some hundred steps a second, so that one can act in mid-run; ENDLESS if it shall never end by itself.
SLOW = ["--set", "model.hidden=[256, 256]", "--set", "kernels.backend=reference"]
ENDLESS = SLOW + ["--set", "train.epochs=100000"]


# Nothing here depends on the job, the terminal or the permissions in which the tests run.
os.umask(0o022)
for name in list(os.environ):
    if name.startswith(("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SINFO_", "SCONTROL_", "PMI_", "PMIX_")) or name in ("NO_COLOR", "COLUMNS", "LINES"):
        del os.environ[name]


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {PATIENCE} s")


def error_lines(text):
    """What tells the user why it failed, without the time that lines of a Slurm job have."""
    lines = [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d ", "", line) for line in text.splitlines()]
    return [line for line in lines if line.startswith(("error ", "distdl: "))]


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="distdl-app-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)  # where a signal ends the test
        for name in ("STATE", "CACHE"):  # not the user's list of runs and measurements
            os.environ[f"XDG_{name}_HOME"] = str(self.folder / name.lower())
        (self.folder / "job.toml").write_text(JOB)

    def make_set(self, name="set.h5", *options):
        self.succeed("data", "make", "shapes", name, "--samples", "600", "--size", "12", *options)

    def start(self, *words, variables=None, output=subprocess.PIPE, **how):
        """Starts distdl with its stderr in the file `stderr`. It ends with this process, however that ends."""
        how.setdefault("cwd", self.folder)
        prepare = how.pop("preexec_fn", lambda: None)

        def end_with_the_test():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            prepare()

        self.stderr = self.folder / f"stderr.{time.monotonic_ns()}"
        with open(self.stderr, "wb") as errors:
            process = subprocess.Popen([DISTDL, *words], stdout=output, stderr=errors, text=True,
                                       env={**os.environ, **(variables or {})},
                                       preexec_fn=end_with_the_test, **how)
        process.stderr_file = self.stderr
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, process, within=PATIENCE):
        """Returns exit code, stdout, stderr."""
        try:
            out, _ = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.fail(f"still running after {within} s; stderr so far:\n{process.stderr_file.read_text()}")
        return process.returncode, out, process.stderr_file.read_text()

    def distdl(self, *words, **how):
        return self.finish(self.start(*words, **how))

    def succeed(self, *words, **how):
        code, out, err = self.distdl(*words, **how)
        self.assertEqual(code, 0, f"distdl {' '.join(map(str, words))}\n{out}{err}")
        return out

    @staticmethod
    def can_become(user):
        """Whether that user can run the program: it may lie in a folder that is closed, as root's home may be."""
        try:
            done = subprocess.run([DISTDL, "version"], cwd="/", preexec_fn=lambda: become(user), stdout=subprocess.DEVNULL)
            return done.returncode == 0
        except OSError:
            return False

    def fails(self, code, about, *words, **how):
        """The command ends with `code` and says exactly once why, in words that match all of `about`."""
        got, out, err = self.distdl(*words, **how)
        self.assertEqual(got, code, out + err)
        return self.says_once(about, err)

    def says_once(self, about, err):
        lines = error_lines(err)
        self.assertEqual(len(lines), 1, err)
        for text in about:
            self.assertIn(text, lines[0])
        return lines[0]

    def run_local(self, ranks, *more):
        return ["run", "--local", "-n", str(ranks), "job.toml", *more]

    def digest(self, run="run"):
        return self.succeed("checkpoint", "digest", run)

    def verify(self, run="run"):
        self.assertIn("ok", self.succeed("checkpoint", "verify", run))

    def rows(self, name, run="run"):
        """The whole lines of a JSON-lines file."""
        file = self.folder / run / name
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("}\n")]

    def wait_for_checkpoint(self, run="run"):
        wait_until(lambda: any(row["event"] == "checkpoint" for row in self.rows("journal.jsonl", run)), "a checkpoint")

    def log(self, run="run"):
        return "".join(file.read_text() for file in (self.folder / run / "logs").glob("*.log"))

    @staticmethod
    def ranks_of(supervisor):
        """Process ids of its ranks, in rank order. It may have other children, which come and go."""
        ranks = {}
        for pid in pathlib.Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split():
            try:
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it has just ended
            for word in words:
                if word.startswith(b"DISTDL_RANK="):
                    ranks[int(word.split(b"=")[1])] = int(pid)
        return [ranks[rank] for rank in sorted(ranks)]

    def mount_tmpfs(self, name, mebibytes):
        """A file system of its own that can be full; skips the test where the rights for that are missing."""
        where = self.folder / name
        where.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "distdl-test", where],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no right to mount a tmpfs here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", where], check=True)
        return where


def become(user):
    """In a process that is about to run distdl as root: it gets another user's rights, for root has all and is under no limit of processes."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def fill(folder, name="filler"):
    """Leaves no byte free."""
    with open(folder / name, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                pass
    return folder / name


__all__ = ["DISTDL", "ENDLESS", "JOB", "OTHERS_END", "PATIENCE", "SLOW", "ProgramTest", "error_lines", "fill", "signal",
           "wait_until"]
