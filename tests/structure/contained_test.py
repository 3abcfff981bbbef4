# SPDX-License-Identifier: Apache-2.0
"""A run of tests that is told to end, or whose terminal goes, leaves nothing behind: tests/contained and tests/ending.py."""

import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import project

CONTAINED = project.ROOT / "tests/contained"
# As ctest and a test: the test cleans up, but not the process that it starts in a session of its own, nor its folders.
TEST = f"""
import os, pathlib, subprocess, sys, unittest
sys.path.append({str(project.ROOT / "tests")!r})
import ending
class Case(unittest.TestCase):
    def test_a(self):
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        tests = pathlib.Path(os.environ["TEST_TMPDIR"])
        for folder in (tests / "run", pathlib.Path("/dev/shm", tests.name + "-run")):
            folder.mkdir()
        self.addCleanup(pathlib.Path("cleaned").touch)
        pathlib.Path("ready.new").write_text(f"{{tests}} {{os.getpid()}}")
        os.rename("ready.new", "ready")
        while True: subprocess.run(["sleep", "0.1"])
    def test_b(self):
        pathlib.Path("went-on").touch()
ending.watch()
unittest.main()
"""


def running(text):
    """Pids of processes with this text in the environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text.encode() in pathlib.Path("/proc", pid, "environ").read_bytes():
                found.append(int(pid))
        except OSError:
            pass
    return found


def wait_until(condition, what):
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within 60 s")
        time.sleep(0.02)


class Contained(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "a_test.py").write_text(TEST)
        self.mark = f"CONTAINED_TEST={self.folder.name}"
        self.command = [CONTAINED, "sh", "-c", f"{sys.executable} a_test.py; true"]
        self.how = {"cwd": self.folder, "env": {**os.environ, "CONTAINED_TEST": self.folder.name}}

    def await_test(self):
        wait_until((self.folder / "ready").exists, "the test begins")
        return pathlib.Path((self.folder / "ready").read_text().split()[0])

    def nothing_is_left(self, tests):
        self.assertTrue((self.folder / "cleaned").exists(), "the test has not cleaned up")
        self.assertFalse((self.folder / "went-on").exists(), "the next test began")
        self.assertEqual(running(self.mark), [])
        self.assertFalse(tests.exists())
        self.assertFalse(pathlib.Path("/dev/shm", tests.name + "-run").exists())

    def test_signal_ends_all(self):
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL, **self.how)
            tests = self.await_test()
            process.send_signal(number)
            self.assertEqual(process.wait(60), 128 + number)
            self.nothing_is_left(tests)
            for name in ("ready", "cleaned"):
                (self.folder / name).unlink()

    def test_snapshots_of_tests_that_run_beside_stay(self):
        shared = os.open("/dev/shm", os.O_RDONLY | os.O_CLOEXEC)
        self.addCleanup(os.close, shared)
        fcntl.flock(shared, fcntl.LOCK_SH)  # as another run of tests
        process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL, **self.how)
        self.await_test()
        orphan = pathlib.Path("/dev/shm", f"distdl.slot-{os.geteuid()}-{self.folder.name}")
        orphan.touch()
        self.addCleanup(orphan.unlink, missing_ok=True)
        process.terminate()
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        self.assertTrue(orphan.exists(), "a run of tests that was ended has removed another one's snapshot")

    def test_terminal_that_goes_ends_all(self):
        leader, follower = os.openpty()
        process = subprocess.Popen(["setsid", "--ctty", "--wait", *self.command], stdin=follower, stdout=follower, stderr=follower,
                                   start_new_session=True, **self.how)
        os.close(follower)
        tests = self.await_test()
        os.close(leader)
        process.wait(60)
        wait_until(lambda: not running(self.mark), "all processes end")
        self.nothing_is_left(tests)

    def test_exit_code_is_that_of_the_command(self):
        for code in (0, 3):
            self.assertEqual(subprocess.run([CONTAINED, "sh", "-c", f"exit {code}"]).returncode, code)

    def test_process_whose_parent_is_gone_is_collected(self):
        orphan = "(sleep 0.2 & echo $! > pid); p=$(cat pid); for i in $(seq 300); do [ -e /proc/$p ] || exit 5; sleep 0.05; done"
        self.assertEqual(subprocess.run([CONTAINED, "bash", "-c", orphan], **self.how).returncode, 5)

    def test_process_that_is_left_is_named_and_ended(self):
        done = subprocess.run([CONTAINED, "sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 & sleep 0.2"], stderr=subprocess.PIPE, text=True, **self.how)
        self.assertEqual(done.returncode, 0)
        self.assertIn("sleep", done.stderr)
        self.assertEqual(running(self.mark), [])


if __name__ == "__main__":
    project.main()
