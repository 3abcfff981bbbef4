# SPDX-License-Identifier: Apache-2.0
"""A pocket cluster for the tests of whole runs, the jobs on it, and the runs that these jobs make.

A test's last line is `pocket.main()`. It takes the program distdl as its argument, and exits 77 where no cluster can be made. Every
cluster is taken down, whatever happens: also where the test is killed. Every wait has a limit, and says what it waited for.
"""
import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.append(os.path.join(REPOSITORY, "tests"))
import ending  # noqa: E402

TOOL = os.path.join(REPOSITORY, "sbatch/pocket-cluster")
PATIENCE = 3  # times its limit after which a wait counts as one without an end: a slow or busy machine is no failure
DISTDL = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(REPOSITORY, "build/bin/distdl")


def finished(*command, timeout=120):
    """Runs a command; its exit code and what it printed."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def call(*command, timeout=120):
    """Runs a command; its stdout. Fails with all that it printed if the command does."""
    done = finished(*command, timeout=timeout)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for(what, condition, seconds, explain=lambda: ""):
    end = time.monotonic() + PATIENCE * seconds
    while not (result := condition()):
        if time.monotonic() > end:
            # Who hangs, and where in the kernel, is known now only.
            there = call("ps", "-eo", "pid,ppid,stat,etimes,wchan:24,args")
            raise AssertionError(f"waited {PATIENCE * seconds} s in vain for {what}\n{explain()}\n--- processes\n{there}")
        time.sleep(0.05)
    return result


def work_folder():
    """Under /var/tmp, for the nodes have a /tmp of their own."""
    folder = tempfile.mkdtemp(prefix="distdl-cluster-test-", dir="/var/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("STATE", "CACHE"):  # not the user's list of runs and measurements
        os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name.lower()}"
    return folder


def processes_with(text):
    """Command lines, as lists of words, of all processes that have `text` in it, on whatever machine; without this one's."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                line = file.read()
        except OSError:
            continue  # ended
        if text in line and int(pid) != os.getpid():
            found.append(line.split("\0")[:-1])
    return found


def read_lines(path):
    """The objects of a JSON-lines file, as far as they are whole."""
    rows = []
    if os.path.exists(path):
        with open(path) as lines:
            for line in lines:
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    pass  # being written
    return rows


class Run:
    """A run, as its folder tells."""

    def __init__(self, folder):
        self.folder = folder

    def events(self, kind):
        return [row for row in read_lines(f"{self.folder}/journal.jsonl") if row["event"] == kind]

    def processes(self, verb, node=None):
        """Pids of the "distdl VERB" of this run, on one node or on all."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    line = file.read().split("\0")
                with open(f"/proc/{pid}/environ") as file:
                    environment = file.read().split("\0")
            except OSError:
                continue  # ended
            if line[0].endswith("distdl") and line[1:2] == [verb] and any(word.endswith(self.folder) for word in line):
                if node is None or f"SLURMD_NODENAME={node}" in environment:
                    found.append(int(pid))
        return sorted(found)

    def hold(self, number=signal.SIGSTOP):
        """Stops its ranks where they are, so that what the test does next finds it under way on any machine; `go_on` goes on."""
        ranks = self.processes("worker")
        assert ranks, f"{self.folder} has no ranks"
        for pid in ranks:
            os.kill(pid, number)

    def go_on(self):
        self.hold(signal.SIGCONT)

    def starts(self):
        return self.events("started")

    def steps(self):
        """Numbers of all steps in the order in which they were done."""
        return [row["step"] for row in read_lines(f"{self.folder}/metrics.jsonl") if "loss" in row]

    def step(self):
        return (self.steps() or [0])[-1]

    def result(self):
        with open(f"{self.folder}/result.json") as file:
            return json.load(file)

    def finished(self):
        try:
            return self.result()["status"] == "finished"  # else it stopped or failed
        except FileNotFoundError:
            return False

    def newest_checkpoint(self):
        """Its step."""
        return int(self.digest().split()[1])

    def digest(self):
        return call(DISTDL, "checkpoint", "digest", self.folder).strip()


class Job:
    def __init__(self, number, folder):
        self.number = number
        self.log_file = f"{folder}/slurm-{number}.log"

    def field(self, name):
        end = time.monotonic() + 15  # in which a restarted or busy slurmctld answers
        while (done := finished("scontrol", "show", "job", "-o", self.number)).returncode != 0 and time.monotonic() < end:
            time.sleep(0.5)
        record = done.stdout
        return next((word.split("=", 1)[1] for word in record.split() if word.startswith(name + "=")), None)

    def state(self):
        return self.field("JobState")

    def log(self):
        if not os.path.exists(self.log_file):
            return "(no log yet)"
        with open(self.log_file, errors="replace") as file:
            return file.read()

    def story(self):
        return f"{call('scontrol', 'show', 'job', self.number)}\n--- log\n{self.log()}"

    def wait(self, what, condition, seconds):
        """Waits for something that the job does; fails at once if the job fails meanwhile."""

        def met():
            if condition():
                return True
            if self.state() in ("FAILED", "TIMEOUT", "NODE_FAIL") and not condition():
                raise AssertionError(f"the job failed before {what}\n{self.story()}")
            return False

        wait_for(what, met, seconds, self.story)

    def wait_state(self, state, seconds):
        wait_for(f"job {self.number} to be {state}", lambda: self.state() == state, seconds, self.story)


def take_down_at_the_end(folder):
    """Of this process, however it comes: a process of its own waits for that, then takes down the cluster that POCKET_NAME names now and
    removes the folder."""
    script = """trap '' HUP INT TERM; cat; "$0" down; rm -rf -- "$1" """
    guard = subprocess.Popen(["bash", "-c", script, TOOL, folder], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True, cwd="/")

    def end_and_wait():
        guard.stdin.close()
        guard.wait(120)

    atexit.register(end_and_wait)


class Cluster:
    """Nodes n1, n2 ... as long as the test runs; sbatch and its kin then speak to them. `options` are those of "up"."""

    def __init__(self, nodes, folder, name="whole", options=()):
        self.folder = folder
        os.environ["POCKET_NAME"] = f"{name}{os.getpid()}"
        take_down_at_the_end(folder)
        self.tool("up", str(nodes), *options)
        for line in self.tool("env").splitlines():
            key, value = line.removeprefix("export ").split("=", 1)
            os.environ[key] = value.strip("'\"")

    @staticmethod
    def tool(*words):
        return call(TOOL, *words)

    def submit(self, *words):
        if any(re.fullmatch(r"--nodes=\d+-\d+", str(word)) for word in words):
            self.let_jobs_leave()
        number = call("sbatch", "--parsable", f"--output={self.folder}/slurm-%j.log", *words).strip()
        return Job(number, self.folder)

    @staticmethod
    def let_jobs_leave(seconds=30):
        """While a job before leaves its nodes, one that takes a range of nodes would get the fewest."""
        end = time.monotonic() + seconds
        while "completing\n" in call("sinfo", "-hN", "-o", "%T") and time.monotonic() < end:
            time.sleep(0.05)

    def train(self, options, job_file, *words):
        return self.submit(*options, f"{REPOSITORY}/sbatch/train.sbatch", f"{REPOSITORY}/examples/{job_file}", *words)

    def preempt(self, nodes=3):
        """A short job of the partition with higher priority takes all nodes."""
        return self.submit("--partition=urgent", "--exclusive", f"--nodes={nodes}", "--wrap", "sleep 1")


def main(limit=280, check=()):
    """Runs the tests where the host has all that "pocket-cluster check", with the options of `check`, asks for."""
    missing = subprocess.run([TOOL, "check", *check], capture_output=True, text=True)
    if missing.returncode != 0:
        print("skipped:", missing.stderr.strip())
        sys.exit(77)
    os.environ["DISTDL"] = DISTDL
    ending.watch(signal.SIGALRM)
    signal.alarm(PATIENCE * limit)
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
