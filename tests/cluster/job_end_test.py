# SPDX-License-Identifier: Apache-2.0
"""How a job ends before its work does: time limit, scancel, run.requeue = false; and one that cannot start at all.

Every way in which Slurm ends, stops or requeues a job, COUNT times each (five make thirty):
  DISTDL_LONG=COUNT python3 tests/cluster/job_end_test.py build/bin/distdl Long
"""
import os
import time
import unittest

import pocket

LONG = int(os.environ.get("DISTDL_LONG", "0"))
FOLDER = None
CLUSTER = None
GRACE = 15  # seconds that a rank's step, its save and Slurm's own delays may take together


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    CLUSTER = pocket.Cluster(2, FOLDER)


def nodes_are_free():
    return pocket.call("sinfo", "-h", "-p", "batch", "-o", "%T").split() == ["idle"]


class Case(unittest.TestCase):
    def start(self, name, options, *settings, steps=5):
        """More work than fits."""
        run = pocket.Run(f"{FOLDER}/{name}")
        job = CLUSTER.train(options, "lenet.toml", *self.settings(run), *settings)
        self.addCleanup(self.cancel, job)
        job.wait("the first steps", lambda: run.step() >= steps, 30)
        return job, run

    @staticmethod
    def settings(run):
        return ["--set", f"data.train={FOLDER}/shapes.h5", "--set", f"run.dir={run.folder}", "--set", "train.epochs=1000", "--set",
                "checkpoint.every=0"]

    def cancel(self, job):
        pocket.call("scancel", job.number)
        pocket.wait_for("the nodes to be free", nodes_are_free, GRACE, job.story)

    def restart(self, run):
        """The same run in a job of its own."""
        job = CLUSTER.train([], "lenet.toml", *self.settings(run))
        self.addCleanup(self.cancel, job)
        return job

    def check_goes_on(self, job, run, reason):
        """After one stop: saved at the step where it stopped, back in the queue, resumed there."""
        job.wait("the run to go on after Slurm restarted it", lambda: len(run.starts()) >= 2 and run.step() > 5, 60)
        stopped = run.events("stopped")[0]
        self.assertIn(reason, stopped["reason"])
        self.assertEqual(stopped["step"], run.starts()[1]["resumed_from"])
        self.assertIn(job.field("Restarts"), ("1", "2"))  # of a job of one minute the next start is warned soon, too
        return stopped


class JobEnd(Case):
    def test_stops_before_the_time_limit_and_goes_on(self):
        began = time.time()
        job, run = self.start("limit", ["--time=1", "--signal=B:USR1@0"], "--set", "train.stop_margin_seconds=50")
        job.wait("the job to stop by itself", lambda: run.events("stopped"), 40)
        stopped = self.check_goes_on(job, run, "end of the job in")
        self.assertGreater(stopped["time"], began + 60 - 50 - 5, "stopped without need")  # however long its ranks took to start
        self.assertLess(stopped["time"], began + 60 - 50 + GRACE)
        steps = run.steps()
        self.assertEqual(list(range(1, len(steps) + 1)), steps, "every step once, in order")

    def test_slurms_warning_stops_the_run_and_it_goes_on(self):
        job, run = self.start("warned", ["--time=1"])  # the script's own --signal
        self.check_goes_on(job, run, "signal SIGUSR1")

    def test_a_warning_while_the_ranks_start_is_not_lost(self):
        job, run = self.start("early", ["--signal=B:USR1@0"], steps=0)
        job.wait("srun", lambda: any(words[0] == "srun" for words in pocket.processes_with(run.folder)), 20)
        pocket.call("scancel", "--batch", "--signal=USR1", job.number)
        job.wait("Slurm to restart the job", lambda: job.field("Restarts") == "1", 30)
        job.wait("the run to go on", lambda: run.step() >= 5, 60)

    def test_a_second_start_is_refused_and_scancel_saves_and_does_not_requeue(self):
        job, run = self.start("cancelled", [])
        second = pocket.finished(pocket.DISTDL, "run", "--local", f"{pocket.REPOSITORY}/examples/lenet.toml", "--set",
                                 f"data.train={FOLDER}/shapes.h5", "--set", f"run.dir={run.folder}")
        self.assertEqual(73, second.returncode, second.stderr)
        self.assertRegex(second.stderr, rf"uses the run folder .*: host n1, pid \d+, job {job.number} \(restart 0\), since ")
        pocket.call("scancel", job.number)
        job.wait_state("CANCELLED", GRACE)
        pocket.wait_for("the run to save", lambda: run.events("stopped"), GRACE, job.story)
        pocket.wait_for("the nodes to be free", nodes_are_free, GRACE, job.story)
        self.assertEqual(run.events("stopped")[0]["step"], run.newest_checkpoint())
        self.assertEqual("CANCELLED", job.state(), "requeued though it was cancelled")
        self.assertEqual("0", job.field("Restarts"))

    def test_a_job_that_cannot_start_ends_before_its_ranks_do(self):
        run = pocket.Run(f"{FOLDER}/refused")
        words = [f"{pocket.REPOSITORY}/sbatch/train.sbatch", f"{pocket.REPOSITORY}/examples/lenet.toml", "--set", f"run.dir={run.folder}"]
        for code, said, *bad in ((3, 'cannot open data set "none.h5"', "data.train=none.h5"),
                                 (78, "train.epochs", f"data.train={FOLDER}/shapes.h5", "--set", "train.epochs=0")):
            jobs = pocket.call("squeue", "--noheader", "--states=all", "--format=%i")
            refused = pocket.finished("bash", *words, "--set", *bad)
            self.assertEqual(code, refused.returncode, refused.stderr)
            self.assertRegex(refused.stderr, rf"\Adistdl: .*{said}.*\n\Z")
            self.assertEqual(jobs, pocket.call("squeue", "--noheader", "--states=all", "--format=%i"))
            job = CLUSTER.submit(*words, "--set", *bad)
            job.wait_state("FAILED", 40)
            self.assertEqual([f"{code}:0", "0"], [job.field("ExitCode"), job.field("Restarts")])
            self.assertRegex(job.log(), rf"\A(\d{{4}}-\d\d-\d\dT[\d:]{{8}} )?distdl: .*{said}.*\n\Z")
        self.assertFalse(os.path.exists(run.folder), "a rank was started")

    def test_requeue_can_be_switched_off(self):
        job, run = self.start("no-requeue", [], "--set", "run.requeue=false")
        pocket.call("scancel", "--batch", "--signal=USR1", job.number)
        job.wait_state("FAILED", GRACE)
        self.assertEqual("75:0", job.field("ExitCode"))
        self.assertEqual(run.events("stopped")[0]["step"], run.newest_checkpoint())
        self.assertEqual("0", job.field("Restarts"))


@unittest.skipUnless(LONG, "DISTDL_LONG is not set")
class Long(Case):
    """After each end: a checkpoint of the last step, from which the run goes on; no step twice; or the end that was asked for."""

    def each(self, name, options, end, *settings):
        for number in range(LONG):
            with self.subTest(number):
                job, run = self.start(f"{name}{number}", options, *settings)
                job, run = end(job, run)
                self.check_all_steps(job, run)
                self.cancel(job)
                print(f"{name} {number + 1}: ok, {run.step()} steps, starts from {[start.get('resumed_from', 0) for start in run.starts()]}",
                      flush=True)

    def check_all_steps(self, job, run):
        job.wait("more steps", lambda: len(run.starts()) > 1 and run.step() > run.starts()[-1]["resumed_from"], 60)
        steps = run.steps()
        self.assertEqual(list(range(1, len(steps) + 1)), steps, "every step once, in order")
        self.assertIn(": ok", pocket.call(pocket.DISTDL, "checkpoint", "verify", run.folder))

    def ended_for_good(self, job, run, state):
        """Goes on in another job, by hand."""
        job.wait_state(state, 60)
        pocket.wait_for("the nodes to be free", nodes_are_free, GRACE, job.story)
        self.assertEqual(["0", 1], [job.field("Restarts"), len(run.starts())], "requeued though it was not to be")
        self.assertEqual(run.events("stopped")[0]["step"], run.newest_checkpoint())
        return self.restart(run), run

    def goes_on(self, job, run):
        job.wait("the run to go on", lambda: len(run.starts()) == 2, 120)
        return job, run

    def test_preempted_and_requeued(self):
        def end(job, run):
            CLUSTER.preempt(2)
            return self.goes_on(job, run)

        self.each("preempted", [], end)

    def test_preempted_and_cancelled(self):
        def end(job, run):
            CLUSTER.preempt(2)
            return self.goes_on(job, run)  # it has requeued itself within the grace time

        pocket.call("scontrol", "update", "PartitionName=batch", "PreemptMode=CANCEL", "GraceTime=10")
        self.addCleanup(pocket.call, "scontrol", "update", "PartitionName=batch", "PreemptMode=REQUEUE", "GraceTime=10")
        self.each("graced", [], end)

    def test_time_limit(self):
        self.each("limit", ["--time=1", "--signal=B:USR1@0"], self.goes_on, "--set", "train.stop_margin_seconds=45")

    def test_scancel(self):
        def end(job, run):
            pocket.call("scancel", job.number)
            return self.ended_for_good(job, run, "CANCELLED")

        self.each("cancelled", [], end)

    def test_requeued_by_hand(self):
        def end(job, run):
            pocket.call("scontrol", "requeue", job.number)
            return self.goes_on(job, run)

        self.each("requeued", [], end)

    def test_suspended_and_then_preempted(self):
        def end(job, run):
            pocket.call("scontrol", "suspend", job.number)
            time.sleep(5)
            step = run.step()
            pocket.call("scontrol", "resume", job.number)
            job.wait("some steps", lambda: run.step() > step + 5, 30)
            self.assertEqual([1, []], [len(run.starts()), run.events("stopped")], job.story())
            CLUSTER.preempt(2)
            return self.goes_on(job, run)

        self.each("suspended", [], end)


pocket.main(3600 if LONG else 280)
