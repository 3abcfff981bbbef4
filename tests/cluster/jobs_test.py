# SPDX-License-Identifier: Apache-2.0
"""distdl submit, status, log, requeue, cancel, ls on a real Slurm: a run is followed through its jobs; a chain goes on where a job died,
and ends when the run does; the runs of a sweep are jobs, or steps of one."""
import json
import os
import subprocess
import time
import unittest

import environment
import pocket

FOLDER = None
CLUSTER = None
GRACE = 15  # seconds that a rank's step, its save and Slurm's own delays may take together


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    CLUSTER = pocket.Cluster(2, FOLDER)


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
        asked = time.time()
        ledger = status(run.folder)["ledger"]
        answered = time.time()
        self.assertAlmostEqual(ledger["wall_seconds"], sum(ledger["seconds"].values()), delta=0.01 * ledger["wall_seconds"])
        self.assertGreater(ledger["wall_seconds"], 0.99 * (asked - began) - 2)
        self.assertLess(ledger["wall_seconds"], 1.01 * (answered - began) + 2)
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
        self.assertEqual(["distdl requeue"], [each["cause"] for each in seen["restarts"]])
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
        run, printed, jobs = self.submit("chain", "--nodes=1", "--chain", "3", "--set", "train.steps=200", "--set", "checkpoint.every=10",
                                         "--set", "run.rank_frozen_seconds=600")
        self.assertEqual(3, len(jobs))
        self.wait(run, "a checkpoint", lambda: run.events("checkpoint"), 30)
        run.hold()
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


class Shells(unittest.TestCase):
    """The shell from which distdl is called, or in which it runs, is not the batch script that it was written for."""

    def script(self, name, body):
        path = f"{FOLDER}/{name}.sbatch"
        with open(path, "w") as file:
            file.write(f"#!/bin/bash\n{body}\n")
        return path

    def words(self, name, steps=60):
        shell = environment.Shell(FOLDER, {})
        return " ".join([f"{pocket.REPOSITORY}/examples/lenet.toml", *shell.settings(name, steps)])

    def submit(self, name, body, *options):
        job = CLUSTER.submit("--nodes=2", "--time=5", *options, self.script(name, body))
        self.addCleanup(pocket.finished, "scancel", job.number)
        return job

    def test_variables_of_the_shell_change_neither_ranks_nor_bytes_nor_answers(self):
        environment.check_all_at_once(FOLDER, environment.prepare(FOLDER))

    def test_a_job_that_was_submitted_from_within_a_step_uses_all_its_nodes(self):
        train = f"{pocket.REPOSITORY}/sbatch/train.sbatch {self.words('inner')}"
        self.submit("outer", "export SLURM_RESTART_COUNT=1\n"
                    f"srun -N1 -n1 sbatch --nodes=2 --time=5 --output={FOLDER}/inner.log {train}").wait_state("COMPLETED", 30)
        run = pocket.Run(f"{FOLDER}/inner")
        pocket.wait_for("the inner job's run to finish", run.finished, 60)
        self.assertEqual([2], [row["ranks"] for row in run.events("launch")])
        self.assertEqual([0], [row["restart"] for row in run.events("job_started")])

    def test_each_line_of_a_list_is_trained(self):
        lines = "\n".join(self.words(f"line{i}", 20) for i in range(3))
        job = self.submit("list", f"while read -r words; do {pocket.DISTDL} run $words; done <<'END'\n{lines}\nEND")
        job.wait_state("COMPLETED", 90)
        self.assertEqual([True] * 3, [pocket.Run(f"{FOLDER}/line{i}").finished() for i in range(3)], job.story())

    def test_within_a_step_it_trains_or_says_at_once_why_not(self):
        job = self.submit("one-task", f"srun --nodes=1 --ntasks=1 {pocket.DISTDL} run {self.words('one-task')}")
        job.wait_state("COMPLETED", 60)
        self.assertEqual([2], [row["ranks"] for row in pocket.Run(f"{FOLDER}/one-task").events("launch")])
        job = self.submit("two-tasks", f"srun {pocket.DISTDL} run {self.words('two-tasks')}")
        job.wait_state("FAILED", 30)
        self.assertEqual("64:0", job.field("ExitCode"))
        self.assertIn("is started by each of the 2 tasks of step", job.log())

    def test_a_heterogeneous_job_is_refused(self):
        train = [f"{pocket.REPOSITORY}/sbatch/train.sbatch", *self.words("components").split()]
        job = CLUSTER.submit("--nodes=1", "--time=5", ":", "--nodes=1", *train)
        self.addCleanup(pocket.finished, "scancel", job.number)
        job.wait_state("FAILED", 30)
        self.assertEqual("78:0", job.field("ExitCode"))
        self.assertIn("is component", job.log())

    def test_without_scontrol_a_stop_ends_the_job_at_once(self):
        folder = f"{FOLDER}/few-commands"
        os.mkdir(folder)
        for program in os.listdir("/usr/bin"):
            if program not in ("scontrol", "squeue", "sinfo"):
                os.symlink(f"/usr/bin/{program}", f"{folder}/{program}")
        job = self.submit("no-scontrol", f"PATH={folder}\nexec {pocket.DISTDL} run {self.words('no-scontrol', 10**6)}")
        run = pocket.Run(f"{FOLDER}/no-scontrol")
        job.wait("the first steps", lambda: run.step() > 3, 60)
        self.assertIn("this node has no scontrol on PATH", job.log())
        pocket.call("scancel", "--batch", "--signal=USR1", job.number)
        job.wait_state("FAILED", GRACE)
        self.assertEqual("71:0", job.field("ExitCode"))
        self.assertIn("cannot be requeued from this node", job.log())
        self.assertEqual(run.step(), run.newest_checkpoint())


class Sweeps(unittest.TestCase):
    """As a job array, one of whose tasks is preempted, and within a job, which is warned: each run goes on where it was."""

    def sweep(self, name, steps):
        with open(f"{pocket.REPOSITORY}/examples/mlp.toml") as file:
            job = file.read().replace('"shapes.h5"', f'"{FOLDER}/shapes.h5"').replace("epochs = 4", f"steps = {steps}")
        job = job.replace("[run]\n", "[run]\nrank_frozen_seconds = 600.0\n")  # hold() stops ranks for longer than the default
        with open(f"{FOLDER}/{name}-job.toml", "w") as file:
            file.write(job + '[kernels]\nthreads = 1\n[slurm]\nnodes = "1"\ntime = "5"\n')
        self.file = f"{FOLDER}/{name}.toml"
        with open(self.file, "w") as file:
            file.write(f'[sweep]\njob = "{FOLDER}/{name}-job.toml"\nfolder = "{FOLDER}/{name}"\nat_once = 2\n'
                       "[vary]\noptim.learning_rate = [1e-9, 0.1, 1e-8]\n")
        return [pocket.Run(f"{FOLDER}/{name}/000{i}") for i in range(3)]

    @staticmethod
    def hold_two(runs):
        """When both train; else a quick machine would have finished one before the other begins."""
        held = set()

        def are_held():
            for run in set(runs[:2]) - held:
                if run.step() > 5:
                    run.hold()
                    held.add(run)
            return len(held) == 2

        pocket.wait_for("two runs that train", are_held, 40)

    def table(self):
        return json.loads(distdl("sweep", self.file, "--status", "--json"))["runs"]

    def check_end(self, runs, seconds):
        pocket.wait_for("all runs to finish", lambda: all(run.finished() for run in runs), seconds, lambda: json.dumps(self.table(), indent=1))
        table = self.table()
        self.assertEqual(("0001", ["finished"] * 3), (table[0]["run"], [run["state"] for run in table]))
        for run in runs:
            steps = run.steps()
            self.assertEqual(list(range(1, len(steps) + 1)), steps, "every step once, in order")

    def test_as_a_job_array(self):
        runs = self.sweep("array", 1000)
        array = distdl("sweep", self.file, "--array").split("array ")[1].split()[0]
        self.addCleanup(pocket.finished, "scancel", array)
        self.hold_two(runs)
        self.assertEqual([], runs[2].steps(), "at most two at a time")
        job = runs[1].events("job_started")[0]["job"]
        self.assertEqual("training", status(job)["state"])
        self.assertIn(job, distdl("requeue", runs[1].folder))
        for run in runs[:2]:
            run.go_on()
        self.check_end(runs, 120)
        self.assertEqual([1, 2, 1], [len(run.starts()) for run in runs])
        self.assertEqual(3, len({run.events("job_started")[0]["job"] for run in runs}))

    def test_within_a_job(self):
        runs = self.sweep("within", 1000)
        job = CLUSTER.submit("--nodes=2", f"{pocket.REPOSITORY}/examples/sweep/sweep.sbatch", self.file)
        self.addCleanup(pocket.finished, "scancel", job.number)
        self.hold_two(runs)
        pocket.call("scancel", "--batch", "--signal=USR1", job.number)
        for run in runs[:2]:
            run.go_on()
        job.wait("the sweep to go on", lambda: len(runs[0].starts()) == 2, 60)
        self.check_end(runs, 120)
        job.wait_state("COMPLETED", GRACE)
        self.assertEqual("1", job.field("Restarts"))


pocket.main(480)
