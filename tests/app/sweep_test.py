# SPDX-License-Identifier: Apache-2.0
"""Many runs of one job: a grid, a sweep that is stopped and goes on, halving, the script of a job array."""
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from program import ProgramTest, wait_until

SWEEP = """[sweep]
job = "job.toml"
folder = "runs"
at_once = 2
{sweep}
[vary]
optim.learning_rate = [0.1, 0.01, 1e-9]
"""


class SweepTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def write(self, text="", name="sweep.toml", sweep=SWEEP):
        (self.folder / name).write_text(sweep.format(sweep=text))

    def table(self):
        return json.loads(self.succeed("sweep", "sweep.toml", "--status", "--json"))["runs"]

    def test_a_grid_shows_its_best_run(self):
        self.write()
        out = self.succeed("sweep", "sweep.toml", "--local")
        self.assertIn("3 of 3 runs finished; best: ", out)
        runs = self.table()
        self.assertEqual(sorted(run["run"] for run in runs), ["0000", "0001", "0002"])
        self.assertEqual([run["value"] for run in runs], sorted(run["value"] for run in runs))
        self.assertEqual(runs[-1]["keys"], {"optim.learning_rate": "1e-09"})
        self.assertIn("sweep in", self.succeed("ls"))
        self.assertIn(f"best: {runs[0]['run']}", self.succeed("ls"))
        self.assertRegex(self.succeed("compare", "runs"), r"(?m)^key +runs/0000 +runs/0001 +runs/0002$")
        self.assertIn("report.html: 3 runs", self.succeed("report", "runs"))
        self.assertEqual(self.succeed("watch", "runs").count("finished: all steps are done"), 3)
        self.fails(3, ["runs/0000.log", "is no job file", "distdl ls"], "compare", "runs/0000", "runs/0000.log")
        self.succeed(*self.run_local(2, "--set", "optim.learning_rate=0.01", "--set", "run.dir=alone"))
        of_sweep = next(run for run in runs if run["keys"]["optim.learning_rate"] == "0.01")
        self.assertEqual(self.digest(of_sweep["run_dir"]), self.digest("alone"))
        self.assertIn("3 of 3", self.succeed("sweep", "sweep.toml", "--local"))  # there is nothing left to do
        self.write('metric = "accuracy"')
        self.fails(78, ["has the runs of another sweep"], "sweep", "sweep.toml", "--local")

    def test_one_that_is_stopped_goes_on(self):
        self.write()
        job = (self.folder / "job.toml").read_text()
        (self.folder / "job.toml").write_text(job.replace("[train]\nepochs = 4", "[train]\nepochs = 100000"))
        process = self.start("sweep", "sweep.toml", "--local")
        wait_until(lambda: all(self.rows("metrics.jsonl", f"runs/000{i}") for i in (0, 1)), "two runs that train")
        process.send_signal(signal.SIGTERM)
        code, out, err = self.finish(process)
        self.assertEqual(code, 75, out + err)
        self.assertIn("0 of 3 runs finished", out)
        self.assertTrue((self.folder / "runs/0000/checkpoints").exists())
        steps = max(run["steps"] for run in self.table()) + 20
        (self.folder / "job.toml").write_text(job.replace("epochs = 4", f"steps = {steps}"))
        self.assertIn("3 of 3 runs finished", self.succeed("sweep", "sweep.toml", "--local"))
        for i in (0, 1):
            self.assertTrue(any("resumed_from" in row for row in self.rows("journal.jsonl", f"runs/000{i}")))

    def told(self):
        """What must not depend on kills: ranking, decisions, the models of all runs."""
        decisions = {file.name: file.read_text() for file in sorted((self.folder / "runs").glob("r*-0*.json"))}
        return self.table(), decisions, [self.digest(f"runs/{number:04}") for number in range(4)]

    def kill(self, moment, number, whom="group"):
        """A sweep that is killed at the N-th such moment (tests/storm/kill_at.cpp), or only the process that meets it."""
        count = self.folder / "count"
        count.unlink(missing_ok=True)
        process = self.start("sweep", "sweep.toml", "--local", start_new_session=True, variables={
            "LD_PRELOAD": os.environ["KILL_AT_LIBRARY"], "KILL_AT": moment, "KILL_COUNT": f",{number},",
            "KILL_FILE": str(count), "KILL_WHOM": whom})
        code, _, err = self.finish(process)
        self.assertEqual(code, -signal.SIGKILL if whom == "group" else 0, err)

    def kill_and_resume(self, moment, counts, whom="group"):
        """Sweeps that are killed, one after the other, and then one that is left alone."""
        for number in counts:
            self.kill(moment, number, whom)
        self.succeed("sweep", "sweep.toml", "--local")
        return self.told()

    def test_kills_change_no_decision_and_no_model(self):
        """tests/storm/sweep_storm does so at random."""
        methods = {"halving": 'method = "halving"\nruns = 4\nfirst_steps = 5\nkeep_one_in = 2',
                   "tournament": 'method = "tournament"\nruns = 4\nseed = 3\nfirst_steps = 5\nrounds = 1'}
        kills = {"halving": [('write:after:"validation_loss"', (1,), "group"), ("rename:after:rung-0", (1,), "group")],
                 "tournament": [('write:after:"validation_loss"', (1,), "group"), ("rename:before:round-0", (1,), "group"),
                                ("rename:after:.trash-step-", (1, 1), "group"), ("rename:after:step-0", (2,), "self")]}
        job = (self.folder / "job.toml").read_text()
        (self.folder / "job.toml").write_text(job.replace("epochs = 4", "steps = 12").replace("relaunches = 0", "relaunches = 1"))
        # One after the other, so that the N-th moment is always the same.
        sweep = SWEEP.replace("at_once = 2", "at_once = 1") + "checkpoint.keep = [50]\n"
        for method, text in methods.items():
            self.write(text, sweep=sweep)
            self.succeed("sweep", "sweep.toml", "--local")
            undisturbed = self.told()
            for kill in kills[method]:
                with self.subTest(method=method, kill=kill):
                    shutil.rmtree(self.folder / "runs")
                    self.assertEqual(self.kill_and_resume(*kill), undisturbed)
            shutil.rmtree(self.folder / "runs")

    def test_a_run_whose_process_is_killed_is_started_again(self):
        self.write()
        job = (self.folder / "job.toml").read_text()
        (self.folder / "job.toml").write_text(job.replace("[train]\nepochs = 4", "[train]\nsteps = 400"))
        process = self.start("sweep", "sweep.toml", "--local")
        wait_until(lambda: self.rows("metrics.jsonl", "runs/0000"), "a run that trains")
        lock = (self.folder / "runs/0000/LOCK").read_text()
        os.kill(int(re.search(r"^pid=(\d+)$", lock, re.M)[1]), signal.SIGKILL)
        code, out, err = self.finish(process)
        self.assertEqual(code, 0, out + err)
        self.assertIn("run 0000 ended with code 137", err)
        self.assertIn("3 of 3 runs finished", out)

    def test_within_a_job_of_slurm_each_run_is_a_step(self):
        """With a false srun, which runs its command here."""
        self.write()
        for name, text in (("srun", 'echo "$@" >> srun.log; while [[ $1 == --* ]]; do shift; done; exec "$@"'),
                           ("scontrol", 'echo "$@" >> scontrol.log; [[ $1 != show ]] || echo "JobId=7 JobState=RUNNING Restarts=0"')):
            (self.folder / name).write_text(f"#!/bin/bash\n{text}\n")
            (self.folder / name).chmod(0o755)
        job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[1-2]",
               "PATH": f"{self.folder}:{os.environ['PATH']}"}
        process = self.start("sweep", "sweep.toml", variables=job)
        wait_until(lambda: self.rows("metrics.jsonl", "runs/0000"), "a run that trains")
        process.send_signal(signal.SIGUSR1)
        code, out, err = self.finish(process)
        if code != 0:  # unless it was quicker
            self.assertEqual(code, 75, out + err)
            self.assertIn("requeue 7", (self.folder / "scontrol.log").read_text())
            self.succeed("sweep", "sweep.toml", variables=job)
        self.assertIn("--nodes=1 --ntasks=1 --cpus-per-task=1 --exact --mem=0", (self.folder / "srun.log").read_text())
        self.assertEqual({run["state"] for run in self.table()}, {"finished"})

    def test_halving_lets_the_best_go_on(self):
        self.write('method = "halving"\nruns = 4\nfirst_steps = 5\nkeep_one_in = 2')
        self.succeed("sweep", "sweep.toml", "--local")
        runs = self.table()
        self.assertEqual(sorted(run["steps"] for run in runs)[:3], [5, 5, 10])
        self.assertEqual([run["state"] for run in runs].count("finished"), 1)
        self.assertEqual(runs[0]["state"], "finished")

    def test_in_a_tournament_losers_go_on_with_the_models_of_winners(self):
        # On a slow machine more saves come by time: the one of the last meeting is to stay.
        self.write('method = "tournament"\nruns = 4\nseed = 3\nfirst_steps = 6\nrounds = 2',
                   sweep=SWEEP + "checkpoint.keep = [50]\n")
        self.succeed("sweep", "sweep.toml", "--local")
        self.assertEqual({run["state"] for run in self.table()}, {"finished"})
        for number, step in ((1, 6), (2, 12)):
            held = json.loads((self.folder / f"runs/round-000{number}.json").read_text())
            self.assertEqual((held["step"], held["held"], len(held["meetings"])), (step, True, 2))
        meeting = held["meetings"][0]
        digests = {self.digest(f"runs/000{meeting[who]}@12").split()[-1] for who in ("winner", "loser")}
        self.assertEqual(len(digests), 1)
        self.verify(f"runs/000{meeting['loser']}")

    def test_the_loser_of_a_round_has_the_best_model_of_the_winner(self):
        self.write('method = "tournament"\nruns = 2\nfirst_steps = 6\nrounds = 1',
                   sweep=SWEEP + "train.keep_best = [true]\ntrain.evaluate_every_steps = [2]\n")
        self.kill("rename:after:round-0", 2)  # when the round is held
        meeting = json.loads((self.folder / "runs/round-0001.json").read_text())["meetings"][0]
        best = {self.digest(f"runs/000{meeting[who]}@best") for who in ("winner", "loser")}
        self.assertEqual(len(best), 1)

    def test_a_run_that_fails_does_not_end_the_sweep(self):
        (self.folder / "sweep.toml").write_text(SWEEP.format(sweep="").replace("1e-9", "1e30"))
        out = self.succeed("sweep", "sweep.toml", "--local")
        self.assertIn("2 of 3 runs finished, 1 failed", out)
        self.assertEqual(self.table()[-1]["state"], "failed")
        self.assertIn("became", self.table()[-1]["cause"])

    def test_what_is_wrong_is_said_before_anything_starts(self):
        (self.folder / "sweep.toml").write_text(SWEEP.format(sweep="").replace("learning_rate", "learning_rat"))
        self.fails(78, ['unknown key "optim.learning_rat"'], "sweep", "sweep.toml", "--local")
        self.assertFalse((self.folder / "runs").exists())
        self.write()
        self.fails(64, ["--local"], "sweep", "sweep.toml", variables={"SLURM_JOB_ID": ""})

    def test_a_job_array_has_a_task_for_each_run(self):
        self.write()
        script = self.succeed("sweep", "sweep.toml", "--array", "--dry-run")
        self.assertIn("#SBATCH --array=0,1,2%2", script)
        (self.folder / "array.sh").write_text(script)
        self.assertEqual(subprocess.run(["bash", "-n", "array.sh"], cwd=self.folder, check=False).returncode, 0)
        begin = script.index("case $")
        part = script[begin:script.index("esac") + 4]
        for task, rate in enumerate(("0.1", "0.01", "1e-09")):
            words = subprocess.run(["bash", "-c", f'{part}\nprintf "%s\n" "$@"'], capture_output=True, text=True, check=True,
                                   env={"SLURM_ARRAY_TASK_ID": str(task)}).stdout.splitlines()
            self.assertEqual(words, ["job.toml", "--set", f"optim.learning_rate={rate}", "--set", f"run.dir=runs/000{task}"])
        self.write('method = "halving"\nruns = 4\nfirst_steps = 5')
        self.fails(78, ["a job array cannot"], "sweep", "sweep.toml", "--array", "--dry-run")


if __name__ == "__main__":
    unittest.main()
