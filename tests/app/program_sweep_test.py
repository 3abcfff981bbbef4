# SPDX-License-Identifier: Apache-2.0
"""Sweeps whose runs are a program of others: its parameters, the metric by which runs are compared, parts of runs."""
import json
import shutil
import sys
import unittest

from program import ProgramTest

# Gradient descent on x^2, with its state in the run folder.
PROGRAM = r"""
import json, os, signal, socket, sys, time
rate, how = float(sys.argv[1]), sys.argv[2]
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
file = os.environ["DISTDL_RUN_DIR"] + "/state.json"
step, x = json.load(open(file)) if os.path.exists(file) else (0, 1.0)
print("begins at", step, flush=True)
contract = socket.socket(socket.AF_UNIX)
contract.connect(os.environ["DISTDL_CONTRACT"])
while step < 40 and not asked:
    time.sleep(0.03 if how == "pattern" else 0.01)
    step, x = step + 1, x - rate * 2 * x
    if how == "pattern":
        print(f"step {step}/40\nloss {x * x}", flush=True)
    if how == "tells":
        contract.sendall(json.dumps({"step": step, "steps": 40, "metrics": {"loss": 7.0, "val_accuracy": 1 - x * x}}).encode() + b"\n")
    if how == "fails" and rate > 0.2:
        raise ValueError("too fast")
json.dump((step, x), open(file, "w"))
sys.exit(75 if asked else 0)
"""
JOB = """[run]
command = ["{python}", "descent.py", "{{rate}}", "{{how}}", "{{{{unknown}}"]
relaunches = 0
progress_pattern = 'step (\\d+)/(\\d+)'
metrics = ['loss=loss ([-+.0-9e]+)']
[run.parameters]
rate = 0.01
how = "pattern"
"""


class ProgramSweep(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "descent.py").write_text(PROGRAM)
        (self.folder / "job.toml").write_text(JOB.format(python=sys.executable))

    def sweep(self, text, vary, code=0):
        (self.folder / "sweep.toml").write_text(f'[sweep]\njob = "job.toml"\nfolder = "runs"\nat_once = 2\n{text}\n[vary]\n{vary}\n')
        got, out, err = self.distdl("sweep", "sweep.toml", "--local")
        self.assertEqual(code, got, out + err)
        return out + err

    def table(self):
        return json.loads(self.succeed("sweep", "sweep.toml", "--status", "--json"))["runs"]

    def begins(self, run):
        """The steps at which the starts of a run began."""
        log = next((self.folder / f"runs/{run}/logs").glob("*.rank-0.log")).read_text()
        return [int(line.rsplit(" ", 1)[1]) for line in log.splitlines() if "begins at" in line]

    def test_a_grid_compares_the_losses_that_patterns_find(self):
        out = self.sweep("", "run.parameters.rate = [0.001, 0.1, 0.3]")
        self.assertIn("3 of 3 runs finished; best: 0002", out)
        runs = self.table()
        self.assertEqual(["0002", "0001", "0000"], [run["run"] for run in runs])
        for run in runs:
            self.assertAlmostEqual((1 - 2 * float(run["keys"]["run.parameters.rate"])) ** 80, run["value"], places=9)
            self.assertEqual((40, "finished"), (run["steps"], run["state"]))
        self.assertRegex(self.succeed("compare", "runs"), "run.parameters")
        self.succeed("report", "runs")

    def test_random_draws_compare_evaluations_that_the_program_tells(self):
        self.sweep('method = "random"\nruns = 3\nmetric = "accuracy"',
                   'run.parameters.how = ["tells"]\nrun.parameters.rate = { min = 1e-3, max = 0.4, log = true }')
        for run in self.table():
            self.assertAlmostEqual(1 - (1 - 2 * float(run["keys"]["run.parameters.rate"])) ** 80, run["value"], places=9)
            rows = self.rows("metrics.jsonl", run["run_dir"])
            self.assertEqual(40, sum("validation_accuracy" in row for row in rows))
            self.assertTrue(all(row["loss"] == 7 for row in rows if "loss" in row))

    def test_halving_lets_the_best_go_on_where_they_have_saved(self):
        self.sweep('method = "halving"\nruns = 4\nfirst_steps = 8\nkeep_one_in = 2', "run.parameters.rate = { min = 1e-3, max = 0.4 }")
        runs = self.table()
        rates = [float(run["keys"]["run.parameters.rate"]) for run in runs]
        self.assertIn(rates[0], sorted(rates)[2:], rates)  # each is compared at the step at which it has stopped
        self.assertEqual((40, "finished"), (runs[0]["steps"], runs[0]["state"]))
        self.assertEqual(["paused"] * 3, [run["state"] for run in runs[1:]])
        self.assertLess(runs[-1]["steps"], 40)
        starts = self.begins(runs[0]["run"])
        self.assertEqual((0, sorted(starts)), (starts[0], starts))
        self.assertTrue(len(starts) > 1 and 8 <= starts[1] < 40, starts)
        self.assertIn("paused", self.succeed("sweep", "sweep.toml", "--status"))
        self.sweep('method = "halving"\nruns = 4\nfirst_steps = 8\nkeep_one_in = 2', "run.parameters.rate = { min = 1e-3, max = 0.4 }")
        self.assertEqual(starts, self.begins(runs[0]["run"]), "there was nothing left to do")

    def test_runs_that_fail_or_tell_nothing(self):
        out = self.sweep("", 'run.parameters.how = ["pattern", "fails", "nothing"]\nrun.parameters.rate = [0.3]')
        self.assertRegex(out, "run 0001 failed with code 79: .*ValueError: too fast")
        self.assertRegex(out, "run 0002 failed with code 0: it has told no loss")
        self.assertEqual("0000", self.table()[0]["run"])

    def test_what_cannot_be(self):
        out = self.sweep('method = "tournament"\nruns = 4\nfirst_steps = 8\nrounds = 1', "run.parameters.rate = [0.1, 0.2]", code=78)
        self.assertIn("those of a program (run.command) are its own", out)
        for value, text in (("run.parameters.lr=7", 'run.parameters has "lr=7", but run.command has no {lr} for it'),
                            ('run.parameters=["rate"]', "must have NAME=VALUE"), ("run.parameters=7", "a list of texts")):
            self.assertIn(text, self.fails(78, [], "run", "--local", "job.toml", "--set", value))

    def test_parameters_alone(self):
        for value, wanted in (("0.25", "0.25"), ('"a b"', "a b"), ("{how}", "{how}"), ("", "")):
            _, out, _ = self.distdl("run", "--local", "--set", "run.dir=alone", "--set", f"run.parameters.rate={value}", "--", "printf",
                                    "<%s>", "x{rate}x{rate}{", "{other}{", '{"a": {rate}}')
            self.assertEqual(f"<x{wanted}x{wanted}{{><{{other}}{{><{{\"a\": {wanted}}}>", out.strip())
            self.succeed("status", "alone")
            shutil.rmtree(self.folder / "alone")


if __name__ == "__main__":
    unittest.main()
