# SPDX-License-Identifier: Apache-2.0
"""The examples as processes of this machine: what they compute, and that heat goes on where it stopped."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import ending  # noqa: E402

BIN = pathlib.Path(os.environ["DISTDL_BUILD_DIR"]).resolve() / "bin"
PATIENCE = 60  # seconds, for what should take one or two
REQUEUE, USAGE, CONFIG = 75, 64, 78  # docs/exit-codes.md


class Ranks:
    """Processes that meet in a folder, as the program distdl starts them on one machine."""

    def __init__(self, test, count, *command):
        meeting = tempfile.mkdtemp(dir=test.folder)
        self.processes = []
        for rank in range(count):
            variables = {"DISTDL_RANK": str(rank), "DISTDL_WORLD_SIZE": str(count), "DISTDL_RENDEZVOUS": meeting,
                         "DISTDL_LAUNCH_ID": os.path.basename(meeting)}
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, **variables})
            self.processes.append(process)
            test.addCleanup(process.communicate)
            test.addCleanup(process.kill)

    def end(self):
        """Exit codes, and what rank 0 printed."""
        outputs = [process.communicate(timeout=PATIENCE) for process in self.processes]
        return [process.returncode for process in self.processes], outputs[0][0], "".join(text for _, text in outputs)


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="distdl-examples-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def finish(self, count, *command):
        codes, output, errors = Ranks(self, count, *command).end()
        self.assertEqual([0] * count, codes, errors)
        return output

    def heat(self, count, name, *numbers):
        return self.finish(count, BIN / "example_heat", f"{self.folder}/{name}", *numbers)

    def digest(self, name):
        return self.finish(1, BIN / "distdl", "checkpoint", "digest", f"{self.folder}/{name}")

    def test_all_reduce_adds_up(self):
        for count, total in ((1, 1), (4, 10)):
            self.assertEqual(f"{count} ranks: each of 1000000 values is {total}\n",
                             self.finish(count, BIN / "example_all_reduce"))

    def test_heat_has_the_same_bytes_on_any_number_of_ranks(self):
        for count in (1, 2, 3, 5):
            self.heat(count, f"ranks-{count}", 61, 300)
        self.assertEqual(1, len({self.digest(f"ranks-{count}") for count in (1, 2, 3, 5)}))

    def test_heat_in_fortran_has_the_same_bytes_on_any_number_of_ranks(self):
        program = BIN / "example_heat_fortran"
        if not program.exists():
            self.skipTest("gfortran is not installed, or was not when this build was configured")
        for count in (1, 3):
            self.finish(count, program, f"{self.folder}/fortran-{count}", 61, 300)
        self.finish(3, program, f"{self.folder}/fortran-2", 61, 200, 100)
        self.assertIn("2 ranks, from step 200 of 300", self.finish(2, program, f"{self.folder}/fortran-2", 61, 300))
        self.assertEqual(1, len({self.digest(f"fortran-{count}") for count in (1, 2, 3)}))
        codes, _, errors = Ranks(self, 1, program, "/proc/none").end()
        self.assertEqual(([74], True), (codes, "heat: distdl_store_open: " in errors), errors)

    def test_heat_stops_on_a_signal_and_resumes_on_another_number_of_ranks(self):
        size, steps = 400, 2000
        self.heat(1, "undisturbed", size, steps)
        ranks = Ranks(self, 3, BIN / "example_heat", f"{self.folder}/disturbed", size, steps, 100)
        begin = time.monotonic()
        while not any(pathlib.Path(self.folder, "disturbed").glob("step-*")):
            self.assertLess(time.monotonic() - begin, PATIENCE, "no checkpoint")
            time.sleep(0.01)
        ranks.processes[1].send_signal(signal.SIGTERM)  # one rank knows, all stop
        codes, output, errors = ranks.end()
        self.assertEqual([REQUEUE] * 3, codes, errors)
        stopped = int(output.splitlines()[-1].split()[1].rstrip(":"))
        self.assertTrue(100 <= stopped < steps, output)
        self.assertIn(f"2 ranks, from step {stopped} of {steps}", self.heat(2, "disturbed", size, steps))
        self.assertEqual(self.digest("undisturbed"), self.digest("disturbed"))

    def own_model(self, *words, code=0):
        result = subprocess.run([str(word) for word in (BIN / "example_own_model", *words)], cwd=self.folder, text=True,
                                capture_output=True, timeout=PATIENCE)
        self.assertEqual(code, result.returncode, result.stderr)
        return result.stdout + result.stderr

    def test_own_model_trains_as_any_other(self):
        self.own_model("data", "make", "shapes", "set.h5", "--samples", "400", "--size", "12")
        pathlib.Path(self.folder, "job.toml").write_text(
            "[data]\ntrain = 'set.h5'\nholdout = 40\n[model]\nname = 'separable'\n[train]\nepochs = 2\n"
            "[parallel]\nmicrobatches = 6\nmicrobatch_size = 8\n")
        for count in (1, 2):
            self.own_model("run", "--local", "-n", count, "job.toml", "--set", f"run.dir=ranks-{count}")
        self.assertEqual(self.digest("ranks-1"), self.digest("ranks-2"))
        self.assertIn("must be one of fcn, gpt, lenet, mlp, resnet18, resnet34, resnet50, separable, vit",
                      self.own_model("config", "--check", "job.toml", "--set", "model.name=seperable", code=CONFIG))

    def test_heat_tells_what_is_wrong(self):
        for command, code, message in (((), USAGE, "usage: heat FOLDER"),
                                       ((f"{self.folder}/a", "some"), USAGE, "all of them positive"),
                                       ((f"{self.folder}/b", 2), CONFIG, "a plate of 2 x 2 is too small for 1 ranks")):
            codes, _, errors = Ranks(self, 1, BIN / "example_heat", *command).end()
            self.assertEqual(([code], True), (codes, message in errors), errors)


if __name__ == "__main__":
    ending.watch()
    unittest.main(verbosity=2)
