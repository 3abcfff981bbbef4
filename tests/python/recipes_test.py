# SPDX-License-Identifier: Apache-2.0
"""The recipes of examples/pytorch: at most ten changed lines each; they learn, stop when asked to, and go on.

usage: recipes_test.py [NAME]
"""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import environment

environment.need("torch", "numpy", torch="2.1")
RECIPES = environment.ROOT / "examples/pytorch"
sys.path.append(str(RECIPES))
import digits  # noqa: E402

NEEDS = {"lightning_digits": "lightning", "accelerate_digits": "accelerate", "transformers_digits": "transformers",
         "deepspeed_digits": "deepspeed"}
VARIABLES = {"DS_ACCELERATOR": "cpu", "DISTDL_TEST_DATA": str(digits.folder())}
SLOW = 0.05  # seconds that a step takes at least, so that the request to stop comes before its last one
NO_CHANGE = {"digits", "fixed_sum"}  # what all share; a script that was written for distdl


class Recipes(environment.Case):
    def need(self, name):
        if not (digits.folder() / "t10k-images-idx3-ubyte.gz").exists():
            self.skipTest(f"no digits in {digits.folder()}: set DISTDL_TEST_DATA")
        module = NEEDS.get(name)
        if module and environment.importlib.util.find_spec(module) is None:
            self.skipTest(f"no {module} for {sys.executable}")

    def check(self, name):
        """Stops it in the middle, and lets it go on to its end on one rank more."""
        self.need(name)
        program = RECIPES / f"{name}.py"
        first = self.start(environment.ROOT / "tests/python/programs/recipe.py", name, digits.STEPS, SLOW)
        self.stop_after(first, 5)
        self.assertEqual(75, first.returncode, self.output)
        output = self.launch(3, program, variables=VARIABLES)
        accuracy = float(self.told(output, "accuracy")[0])
        self.assertGreater(accuracy, 0.75, output)
        steps = [row["step"] for row in self.rows("metrics.jsonl") if "step" in row]
        self.assertEqual(digits.STEPS, max(steps))
        begins = [each for each, before in zip(steps[1:], steps) if each <= before]
        self.assertEqual([], begins, f"steps were done twice: {steps}")
        return output

    def start(self, *words):
        command = [environment.DISTDL, "run", "--local", "-n", "2", "--set", f"run.dir={self.folder / 'run'}", "--set",
                   "run.relaunches=0", "--", sys.executable, *words]
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   cwd=self.folder, env={**os.environ, **VARIABLES})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def stop_after(self, process, step):
        """Asks the run to stop when it has done so many steps, as Slurm does: by a signal to all processes."""
        end = time.monotonic() + environment.PATIENCE
        metrics = self.folder / "run/metrics.jsonl"
        while process.poll() is None and time.monotonic() < end:
            if metrics.exists() and any(row.get("step", 0) >= step for row in self.rows("metrics.jsonl")):
                break
            time.sleep(0.02)
        for pid in self.processes_of(process.pid):
            os.kill(pid, signal.SIGTERM)
        self.output, _ = process.communicate(timeout=environment.PATIENCE)

    def processes_of(self, pid):
        """All processes that it has started, and it, the newest first."""
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [each for child in children for each in self.processes_of(child)] + [int(pid)]

    def test_a_recipe_changes_ten_lines(self):
        for path in RECIPES.glob("*.py"):
            if path.stem in NO_CHANGE:
                continue
            code = path.read_text().split('"""')[2].splitlines()
            changed = [line for line in code if line.endswith("# distdl")]
            self.assertTrue(3 < len(changed) <= 10, f"{path.name}: {len(changed)}")
            self.assertEqual([], [line for line in code if "distdl" in line and line not in changed], path.name)

    def test_ddp(self):
        self.check("ddp")

    def test_fsdp2(self):
        self.check("fsdp2")

    def test_accelerate(self):
        self.check("accelerate_digits")

    def test_lightning(self):
        self.check("lightning_digits")

    def test_transformers(self):
        self.check("transformers_digits")

    def test_deepspeed(self):
        self.check("deepspeed_digits")

    def test_fixed_sum_has_one_digest_on_any_number_of_ranks(self):
        stopped = self.told(self.check("fixed_sum"), "sha256")
        alone = self.launch(3, RECIPES / "fixed_sum.py", run="three", variables=VARIABLES)
        self.assertEqual(stopped, self.told(alone, "sha256"))


if __name__ == "__main__":
    environment.main()
