# SPDX-License-Identifier: Apache-2.0
"""A program of others as the ranks of a job: preempted, at its time limit, with a rank that is killed or frozen, with a node that is lost.
The job goes on by itself and ends with the value that no fault changes; how soon the program trains again is printed. The same with an MPI
program, examples/heat_mpi, where there is mpicc.

One cluster with SlurmdTimeout=10 in `make test`; with 300, Slurm's default, too:
  DISTDL_LONG=10,300 python3 tests/cluster/program_test.py build/bin/distdl
"""
import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import time
import unittest

import pocket

STEPS_PROGRAM = os.path.join(pocket.REPOSITORY, "tests/app/steps_program.py")
HOSTILE = os.path.join(pocket.REPOSITORY, "tests/app/hostile_program.py")
TIMEOUTS = [int(text) for text in os.environ.get("DISTDL_LONG", "10").split(",")]
FOLDER = None
CLUSTER = None


def undisturbed(steps):
    value, prime = 1, (1 << 61) - 1
    for step in range(steps):
        value = (value * 31 + sum(pow(value + step, m + 2, prime) for m in range(12))) % prime
    return str(value)


def digest(file):
    with open(file, "rb") as opened:
        return hashlib.sha256(opened.read()).hexdigest()


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        global FOLDER
        FOLDER = pocket.work_folder()

    def submit(self, name, steps, seconds, options=(), more=()):
        command = ["/usr/bin/python3", STEPS_PROGRAM, f"{FOLDER}/{name}-state", str(steps), str(seconds)]
        return self.submit_program(name, command, options, ['run.metrics=["loss=loss ([0-9.]+)"]', *more])

    def submit_program(self, name, command, options, settings):
        folder = f"{FOLDER}/{name}"
        out = pocket.call(pocket.DISTDL, "submit", *options, f"--output={FOLDER}/slurm-%j.log", "--set", f"run.dir={folder}",
                          "--set", r"run.progress_pattern=^step (\d+)/(\d+)", "--set", "run.preflight=off",
                          *[word for each in settings for word in ("--set", each)], "--json", "--", *command)
        job = pocket.Job(str(json.loads(out)["job"]), FOLDER)
        self.addCleanup(pocket.finished, "scancel", job.number)
        return pocket.Run(folder), job

    def program_pid(self, words, rank):
        """Of the program of this rank, whose command line has these words, on whatever node."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    line = file.read().split("\0")
                with open(f"/proc/{pid}/environ") as file:
                    environment = file.read().split("\0")
            except OSError:
                continue
            if all(word in line for word in words) and line[0] != pocket.DISTDL and f"RANK={rank}" in environment:
                return int(pid)
        raise AssertionError(f"no process of rank {rank}")

    def finish(self, run, job, steps):
        job.wait("the end", run.finished, 120)
        job.wait_state("COMPLETED", 150)
        with open(f"{run.folder}-state/end") as file:
            self.assertEqual(undisturbed(steps), file.read().strip())

    def goes_on(self, run, job, what, began, step):
        """Waits until the program trains again."""
        starts = len(run.starts())
        job.wait(f"training to go on after {what}", lambda: len(run.starts()) > starts and run.step() != step, 60)
        print(f"{what}: training again after {time.monotonic() - began:.1f} s", flush=True)

    def check(self, timeout):
        global CLUSTER
        CLUSTER = pocket.Cluster(3, FOLDER, f"program{timeout}t", ["--slurmd-timeout", str(timeout)])
        nodes = ["--nodes=2-3", "--ntasks-per-node=2", "--time=00:10:00"]
        with self.subTest("faults", timeout=timeout):
            steps = 900
            run, job = self.submit(f"faults-{timeout}", steps, 0.04, nodes)
            job.wait("step 30", lambda: run.step() >= 30, 60)
            self.assertEqual(6, run.starts()[0]["ranks"])
            for what, number, rank in (("a rank that is killed", signal.SIGKILL, 3), ("a rank that crashes", signal.SIGSEGV, 1),
                                       ("a frozen rank", signal.SIGSTOP, 5)):
                began, step, starts = time.monotonic(), run.step(), len(run.starts())
                os.kill(self.program_pid([STEPS_PROGRAM, f"{run.folder}-state"], rank), number)
                job.wait(f"training to go on after {what}", lambda: len(run.starts()) > starts, 60)
                job.wait(f"a step after {what}", lambda: run.events("started")[-1]["time"] < self.time_of_last_step(run), 60)
                print(f"SlurmdTimeout {timeout}, {what}: training again after {time.monotonic() - began:.1f} s", flush=True)
            began, starts = time.monotonic(), len(run.starts())
            CLUSTER.tool("kill", "n3")
            job.wait("training to go on after a lost node", lambda: len(run.starts()) > starts, 120)
            job.wait("a step after a lost node", lambda: run.events("started")[-1]["time"] < self.time_of_last_step(run), 60)
            print(f"SlurmdTimeout {timeout}, a lost node: training again after {time.monotonic() - began:.1f} s", flush=True)
            self.assertEqual(4, run.starts()[-1]["ranks"])
            self.assertEqual("0", job.field("Restarts"))
            CLUSTER.tool("restart", "n3")
            self.finish(run, job, steps)
        with self.subTest("preemption", timeout=timeout):
            run, job = self.submit(f"preempted-{timeout}", 400, 0.03, nodes)
            job.wait("step 30", lambda: run.step() >= 30, 60)
            CLUSTER.preempt()
            job.wait("its second start", lambda: len(run.starts()) == 2, 180)
            self.finish(run, job, 400)
            self.assertEqual("1", job.field("Restarts"))
        with self.subTest("time limit", timeout=timeout):
            run, job = self.submit(f"limit-{timeout}", 800, 0.1, ["--nodes=2", "--ntasks-per-node=1", "--time=00:01:00"])
            job.wait("its second start", lambda: len(run.starts()) == 2, 180)
            self.finish(run, job, 800)
            self.goes_on_where_it_stopped(run)

        with self.subTest("hostile", timeout=timeout):
            self.check_hostile(timeout)
        with self.subTest("MPI", timeout=timeout):
            self.check_mpi(timeout, nodes)

    def goes_on_where_it_stopped(self, run):
        """It has saved when it was asked to, although Slurm sent SIGUSR1 to all its processes."""
        logs = "".join(open(file).read() for file in glob.glob(f"{run.folder}/logs/*.rank-0.log"))
        begins = [int(step) for step in re.findall(r"rank 0 of \d+ begins at step (\d+)", logs)]
        self.assertEqual([event["step"] for event in run.events("stopped")], begins[1:])

    def check_hostile(self, timeout):
        """Its daemons and its deaf processes end with its job, when that is cancelled, also where Slurm finds processes by their parents."""
        mark = f"hostile-{timeout}-{os.getpid()}"
        run, job = self.submit_program(f"hostile-{timeout}", ["/usr/bin/python3", HOSTILE, mark, "1000000", "hangs"], ["--nodes=2", "--time=00:10:00"], [])
        job.wait("its daemons", lambda: len(pocket.processes_with(mark)) >= 16, 60)
        pocket.call("scancel", job.number)
        job.wait_state("CANCELLED", 60)
        pocket.wait_for("the end of all its processes", lambda: not pocket.processes_with(mark), 30)
        self.assertEqual([], [row for row in run.events("error")])

    def check_mpi(self, timeout, nodes):
        """A rank that is killed, a lost node, a preemption: each time a new step of srun."""
        if not shutil.which("mpicc"):
            return print("skipped: an MPI program, because there is no mpicc (libopenmpi-dev)", flush=True)
        heat, plate, whole = f"{FOLDER}/heat", f"{FOLDER}/plate-{timeout}", f"{FOLDER}/undisturbed"
        size, steps = "1024", 1000
        os.environ["OMPI_MCA_mpi_yield_when_idle"] = "1"  # there are more ranks than processors
        if not os.path.exists(whole):
            pocket.call("mpicc", "-O2", f"{pocket.REPOSITORY}/examples/heat_mpi/heat.c", "-o", heat, "-lm")
            pocket.call(heat, whole, size, str(steps))
        run, job = self.submit_program(f"mpi-{timeout}", [heat, plate, size, str(steps), "50"], nodes,
                                       ["run.recovery=relaunch", "run.rank_frozen_seconds=1000", "comm.timeout_seconds=5"])
        job.wait("the first save", lambda: os.path.exists(plate), 60)

        def kill(rank, number):
            pid = self.program_pid([heat, plate], rank)
            os.kill(pid, number)
            return pid

        def preempt(held):
            CLUSTER.tool("restart", "n3")
            CLUSTER.preempt()
            job.wait("the request to stop", lambda: "asked to save and stop" in job.log(), 60)
            with contextlib.suppress(ProcessLookupError):  # on a busy machine its grace may be over
                os.kill(held, signal.SIGCONT)

        for what, fault in (("a rank that is killed", lambda held: kill(3, signal.SIGKILL)),
                            ("a lost node", lambda held: CLUSTER.tool("kill", "n3")), ("a preemption", preempt)):
            held = kill(0, signal.SIGSTOP)  # it would end before the fault
            began, starts = time.monotonic(), len(run.starts())
            fault(held)
            job.wait(f"an MPI program to go on after {what}", lambda: len(run.starts()) > starts, 120)
            job.wait(f"its step after {what}", lambda: run.events("started")[-1]["time"] < self.time_of_last_step(run), 60)
            print(f"SlurmdTimeout {timeout}, MPI, {what}: computes again after {time.monotonic() - began:.1f} s", flush=True)
        job.wait("the end", run.finished, 120)
        job.wait_state("COMPLETED", 150)
        self.assertEqual([6, 6, 4], [start["ranks"] for start in run.starts()][:3])
        self.assertEqual("1", job.field("Restarts"))
        self.assertEqual(digest(whole), digest(plate))

    @staticmethod
    def time_of_last_step(run):
        rows = [row for row in pocket.read_lines(f"{run.folder}/metrics.jsonl") if "step" in row]
        return rows[-1]["time"] if rows else 0

    def test_all(self):
        for timeout in TIMEOUTS:
            self.check(timeout)
            self.doCleanups()  # scancel would wait a minute for a cluster that is down
            CLUSTER.tool("down")


if __name__ == "__main__":
    pocket.main(limit=600)
