# SPDX-License-Identifier: Apache-2.0
"""Signals of a real Slurm to a run: by any delivery, one save, and the job goes on; a suspension; what distdl doctor says."""
import json
import os
import signal
import subprocess
import time
import unittest

import pocket

FOLDER = None
CLUSTER = None
DOCTOR = None
ON = "--nodelist=n[1-2]"  # n3 is the doctor's


def setUpModule():
    global FOLDER, CLUSTER, DOCTOR
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    CLUSTER = pocket.Cluster(3, FOLDER)
    # Slurm looks at time limits only each 30 s: beside the other tests.
    DOCTOR = subprocess.Popen([pocket.DISTDL, "doctor", "--signal", "--json", "--dir", FOLDER, "--sbatch=--nodelist=n3"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tearDownModule():
    if DOCTOR.poll() is None:
        DOCTOR.terminate()  # it cancels its job
    DOCTOR.communicate(timeout=30)


class Runs(unittest.TestCase):
    def start(self, name, *settings):
        run = pocket.Run(f"{FOLDER}/{name}")
        job = CLUSTER.train([ON, "--time=10"], "lenet.toml", "--set", f"data.train={FOLDER}/shapes.h5", "--set",
                            f"run.dir={run.folder}", "--set", "train.epochs=1000", "--set", "checkpoint.every=0", *settings)
        self.addCleanup(self.cancel, job)
        job.wait("the first steps", lambda: run.step() >= 5, 40)
        return job, run

    def cancel(self, job):
        pocket.call("scancel", job.number)
        pocket.wait_for("the nodes to be free", lambda: "n1" in pocket.call("sinfo", "-h", "-N", "-p", "batch", "-t", "idle", "-o", "%N"),
                        20, job.story)

    def processes(self, run, word):
        """Ids of the srun, or the workers, of a run."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().split("\0")
            except OSError:
                continue  # ended
            if word in words[:2] and any(run.folder in each for each in words):
                found.append(int(pid))
        return sorted(found)

    def test_by_any_delivery_one_save_and_the_job_goes_on(self):
        job, run = self.start("any")
        for number, (way, act) in enumerate((
                ("Slurm to all tasks, as at a preemption", lambda: pocket.call("scancel", "--signal=TERM", job.number)),
                ("Ctrl-C at srun alone", lambda: os.kill(self.processes(run, "srun")[0], signal.SIGINT)),
                ("all processes of the job", lambda: pocket.call("scancel", "--full", "--signal=INT", job.number))), start=1):
            act()
            job.wait(f"the run to go on after a signal by {way}", lambda: len(run.starts()) == number + 1, 60)
            self.assertEqual([number, str(number)], [len(run.events("stopped")), job.field("Restarts")], way)
            self.assertEqual(run.events("stopped")[-1]["step"], run.starts()[-1]["resumed_from"], way)
            step = run.step()
            job.wait("some steps", lambda: run.step() > step, 30)
        steps = run.steps()
        self.assertEqual(list(range(1, len(steps) + 1)), steps, "every step once, in order")

    def test_a_suspension_stops_nothing_and_moves_the_end(self):
        job, run = self.start("suspended", "--set", "comm.timeout_seconds=5")
        first = run.events("deadline")[0]
        pocket.call("scontrol", "suspend", job.number)
        time.sleep(8)
        step = run.step()
        pocket.call("scontrol", "resume", job.number)
        job.wait("the run to know the new end", lambda: run.events("deadline")[-1]["end"] >= first["end"] + 7, 30)
        job.wait("some steps", lambda: run.step() > step + 5, 30)
        self.assertEqual([1, []], [len(run.starts()), run.events("stopped")], job.story())
        last = run.events("deadline")[-1]
        self.assertLess(last["step_seconds"], 5, "the suspension counts as a step")
        self.assertEqual(["REQUEUE", 5, 5], [last["preemption"], last["grace_seconds"], first["grace_seconds"]])
        self.assertIn("s before the end of the job", last["reason"])


class WhatTheDoctorSays(unittest.TestCase):
    def test_shows_who_got_which_signal(self):
        out, err = DOCTOR.communicate(timeout=120)
        self.assertEqual(0, DOCTOR.returncode, out + err)
        trial = json.loads(out)
        self.assertTrue(trial["works"], out)
        self.assertEqual(["preemption", "script", "srun", "--signal", "limits", "verdict"], [row["what"] for row in trial["findings"]])
        self.assertEqual({"ok"}, {row["health"] for row in trial["findings"]}, out)
        self.assertEqual(["batch", "supervisor", "task", "task"], [each["part"] for each in trial["processes"]])
        self.assertEqual(["TERM", "USR1", "INT", "USR1"], [each["signal"] for each in trial["processes"][2]["signals"]])
        self.assertEqual([], [name for name in os.listdir(FOLDER) if name.startswith(".distdl")])

    def test_within_an_allocation(self):
        done = pocket.finished("salloc", "--nodes=1", "--nodelist=n3", pocket.DISTDL, "doctor", "--signal", "--dir", FOLDER)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn("SIGTERM to all tasks: 1 of 1 tasks got it", done.stdout)


pocket.main()
