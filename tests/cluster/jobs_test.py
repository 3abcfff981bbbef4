# SPDX-License-Identifier: Apache-2.0
"""distdl submit, status, log, requeue, cancel, ls on a real Slurm: a run is followed through its jobs; a chain goes on where a job died,
and ends when the run does."""
import json
import os
import subprocess
import time
import unittest

import pocket

FOLDER = None
GRACE = 15  # seconds that a rank's step, its save and Slurm's own delays may take together


def setUpModule():
    global FOLDER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    pocket.Cluster(2, FOLDER)


def distdl(*words):
    return pocket.call(pocket.DISTDL, *words)


def status(name):
    return json.loads(distdl("status", name, "--json"))


class Jobs(unittest.TestCase):
    def submit(self, name, *words):
        """The run and what submit prints as JSON. More work than fits, unless `words` say otherwise."""
        run = pocket.Run(f"{FOLDER}/{name}")
        printed = json.loads(distdl("submit", f"{pocket.REPOSITORY}/examples/lenet.toml", "--json", "--set", f"data.train={FOLDER}/shapes.h5",
                                    "--set", f"run.dir={run.folder}", "--set", "train.epochs=1000", "--set", "checkpoint.every=0", *words))
        jobs = [pocket.Job(number, run.folder) for number in printed["jobs"]]
        self.addCleanup(lambda: [pocket.finished("scancel", job.number) for job in jobs])
        return run, printed, jobs

    def wait(self, run, what, condition, seconds):
        def story():
            return json.dumps(status(run.folder), indent=1) + pocket.finished(pocket.DISTDL, "log", run.folder).stdout

        return pocket.wait_for(what, condition, seconds, story)

    def check_ledger(self, run, began):
        now = time.time()
        ledger = status(run.folder)["ledger"]
        self.assertAlmostEqual(ledger["wall_seconds"], sum(ledger["seconds"].values()), delta=0.01 * ledger["wall_seconds"])
        self.assertAlmostEqual(ledger["wall_seconds"], now - began, delta=0.01 * (now - began) + 2)
        return ledger["seconds"]

    def test_a_run_is_followed_through_its_jobs(self):
        began = time.time()
        run, printed, (job,) = self.submit("one", "--nodes=2", "--time=5", "--set", "slurm.job_name=two words")
        follower = subprocess.Popen([pocket.DISTDL, "log", "-f", run.folder], stdout=subprocess.PIPE, text=True)
        self.addCleanup(follower.kill)
        self.wait(run, "the first steps", lambda: run.step() >= 5, 30)
        self.assertEqual(["two words", "2"], [pocket.call("squeue", "--noheader", "--format=%j", "--jobs", job.number).strip(),
                                              job.field("NumNodes")])
        seen = status(job.number)
        self.assertEqual((seen["run"], seen["state"], seen["job"], seen["restart"]), (printed["run"], "training", job.number, 0))
        self.assertEqual(("RUNNING", "n[1-2]"), (seen["jobs"][0]["state"], seen["jobs"][0]["nodes"]))
        self.assertGreater(seen["end_of_job"], time.time() + 100)
        self.assertTrue(seen["deadline"])
        self.assertIn(f"{printed['run']}  training", distdl("ls").replace("   ", "  "))
        second = pocket.finished(pocket.DISTDL, "submit", f"{run.folder}/../job.toml")
        self.assertEqual(64, second.returncode)
        self.check_save_now(run)
        self.check_requeue(run, job)
        buckets = self.check_ledger(run, began)
        self.assertGreater(buckets["queued"], 2, "Slurm holds a requeued job back")
        self.assertGreater(buckets["training"], 1)
        self.check_end_after_save(run, job, follower)
        self.check_submit_again(run)

    def check_save_now(self, run):
        self.assertEqual([], run.events("checkpoint"))
        open(f"{run.folder}/SAVE", "w").close()
        self.wait(run, "a checkpoint at once", lambda: run.events("checkpoint"), GRACE)
        self.assertFalse(os.path.exists(f"{run.folder}/SAVE"))
        self.assertEqual(status(run.folder)["checkpoint"]["step"], run.events("checkpoint")[0]["step"])

    def check_requeue(self, run, job):
        self.assertIn(job.number, distdl("requeue", run.folder))
        self.wait(run, "the run to go on after the requeue", lambda: len(run.starts()) == 2, 60)
        seen = status(run.folder)
        self.assertEqual(1, seen["restart"])
        self.assertEqual(["signal SIGUSR1"], [each["cause"] for each in seen["restarts"]])
        self.assertEqual(run.events("stopped")[0]["step"], seen["restarts"][0]["resumed_from"])

    def check_end_after_save(self, run, job, follower):
        self.wait(run, "some more steps", lambda: status(run.folder)["step"] > run.starts()[1]["resumed_from"] + 3, GRACE)
        distdl("cancel", "--after-save", run.folder)
        job.wait_state("FAILED", GRACE)
        self.assertEqual(["76:0", "1"], [job.field("ExitCode"), job.field("Restarts")])
        self.assertEqual(run.events("stopped")[1]["step"], run.newest_checkpoint())
        self.assertFalse(os.path.exists(f"{run.folder}/STOP"))
        self.assertEqual("ended", status(run.folder)["state"])
        text, _ = follower.communicate(timeout=GRACE)  # it ends with the run
        self.assertIn("stopped for good, as a user asked for it", text)
        times = [line.split()[0] if line[0] == "2" else line.split()[1] for line in text.splitlines() if "T" in line]
        self.assertEqual(sorted(times), times)

    def check_submit_again(self, run):
        number = distdl("requeue", run.folder).split()[-1]
        self.addCleanup(pocket.finished, "scancel", number)
        self.wait(run, "the run to go on in a job of its own", lambda: len(run.starts()) == 3, 30)
        self.assertEqual(number, status(run.folder)["job"])
        distdl("cancel", number)
        self.wait(run, "the run to be cancelled", lambda: status(run.folder)["state"] == "cancelled", GRACE)

    def test_a_chain_goes_on_where_a_job_died_and_ends_with_the_run(self):
        run, printed, jobs = self.submit("chain", "--nodes=1", "--chain", "3", "--set", "train.steps=200", "--set", "checkpoint.every=10")
        self.assertEqual(3, len(jobs))
        self.wait(run, "a checkpoint", lambda: run.events("checkpoint"), 30)
        self.assertEqual("PENDING", jobs[1].state())
        self.assertEqual([jobs[0].number, "training"], [status(run.folder)[key] for key in ("job", "state")])
        pocket.call("scancel", "--full", "--signal=KILL", jobs[0].number)
        self.wait(run, "the next job to go on", lambda: len(run.starts()) == 2, 40)
        seen = status(run.folder)
        self.assertEqual(jobs[1].number, seen["job"])
        self.assertRegex(seen["restarts"][0]["cause"], "signal SIG|the job ended without a word")  # its ranks may be quick enough
        self.assertGreater(run.starts()[1]["resumed_from"], 0)
        self.wait(run, "the run to finish", run.finished, 60)
        jobs[1].wait_state("COMPLETED", GRACE)
        jobs[2].wait_state("CANCELLED", GRACE)
        self.assertEqual("finished", status(printed["run"])["state"])
        self.assertRegex(distdl("ls"), r"\d of \d runs that have ended finished")


pocket.main()
