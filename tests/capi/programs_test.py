# SPDX-License-Identifier: Apache-2.0
"""Programs in C and Fortran that use libdistdl.so: killed in the middle of saves, 20 times, in the long run 100, they lose nothing that
was durable. The example of docs/c-api.md runs."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
import ending  # noqa: E402

BUILD = pathlib.Path(os.environ["DISTDL_BUILD_DIR"]).resolve()
BIN = BUILD / "bin"
PATIENCE = 120  # seconds, for what should take one or two
PEER_LOST, REQUEUE = 69, 75  # docs/exit-codes.md
KILLS = 100 if "DISTDL_LONG_PROOFS" in os.environ else 20


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="distdl-capi-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, count, *command):
        processes = ranks.start(self.folder, count, *command)
        for process in processes:
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
        return processes

    def finish(self, count, *command):
        codes, output, errors = ranks.finish(self.start(count, *command), PATIENCE)
        self.assertEqual([0] * count, codes, errors)
        return output

    def distdl(self, *words):
        return self.finish(1, BIN / "distdl", *words)

    def steps(self, name, steps, options, *more):
        return [BIN / "capi_steps", f"{self.folder}/{name}", steps, options, *more]

    def start_saving(self, count, command):
        """The ranks, and what rank 0 has printed when they begin to save."""
        processes = self.start(count, *command)
        lines = []
        for line in processes[0].stdout:
            lines.append(line.split())
            if lines[-1][0] == "begin":
                return processes, lines
        self.fail(processes[0].stderr.read())

    def kill_once(self, count, command, chance):
        """What rank 0 printed until all were killed, at any time after they began to save."""
        processes, lines = self.start_saving(count, command)
        time.sleep(chance.uniform(0, 0.3))
        ranks.kill(processes)
        rest, _ = processes[0].communicate(timeout=PATIENCE)
        whole = rest[:rest.rfind("\n") + 1]
        return dict(line[:1] + [" ".join(line[1:])] for line in lines + [line.split() for line in whole.splitlines()])

    def kill_often(self, kills, options):
        """The sources from which the starts resumed."""
        chance = random.Random(int(os.environ.get("DISTDL_PROOF_SEED", "1")))
        command = self.steps("killed", 1000000, options)
        durable, sources = 0, []
        for number in range(kills):
            told = self.kill_once(1 + number % 3, command, chance)
            self.assertGreaterEqual(int(told["begin"]), durable, f"start {number} lost steps")
            durable = int(told.get("durable", told["begin"]))
            sources.append(told.get("from", ""))
        self.assertGreater(durable, 0)
        self.distdl("checkpoint", "verify", f"{self.folder}/killed")
        output = self.finish(2, *self.steps("killed", durable + 3, options))  # removes what is left in memory
        self.assertGreaterEqual(int(re.search(r"begin (\d+)", output)[1]), durable)
        print(f"killed {kills} times; {durable} steps; from {sources}")
        return sources

    def test_kills_lose_nothing_that_was_durable(self):
        sources = self.kill_often(KILLS, "")
        self.assertIn("the file system", sources)

    def test_kills_leave_snapshots_in_memory(self):
        self.assertIn("snapshots", self.kill_often(max(3, KILLS // 5), "checkpoint.memory_every=1"))

    def test_snapshots_on_the_disk_of_a_node_are_found(self):
        disk, folder = pathlib.Path(self.folder, "disk"), pathlib.Path(self.folder, "disks")
        disk.mkdir()
        options = f"checkpoint.disk_every=1; checkpoint.disk_folder={disk}"
        processes, _ = self.start_saving(2, self.steps("disks", 1000000, options))
        while not processes[0].stdout.readline().startswith("durable"):
            self.assertIsNone(processes[0].poll())
        ranks.kill(processes)
        ranks.finish(processes, PATIENCE)
        lineage = json.loads((folder / "OWNER").read_text())["lineage"]
        for buffer in pathlib.Path("/dev/shm").glob(f"distdl.*-{lineage}*"):
            buffer.unlink()
        for step in folder.glob("step-*"):
            shutil.rmtree(step)
        output = self.finish(3, *self.steps("disks", 1, options))
        self.assertRegex(output, r"from snapshots\nbegin [1-9]")

    def test_others_notice_a_rank_that_is_lost(self):
        processes, _ = self.start_saving(3, self.steps("lost", 1000000, "checkpoint.mode=sync"))
        processes[1].kill()
        codes, _, errors = ranks.finish(processes, PATIENCE)
        self.assertEqual([PEER_LOST, -9, PEER_LOST], codes, errors)
        self.assertRegex(errors, r"rank [02]: distdl_\w+: .*rank 1\b")

    def test_a_program_may_end_in_the_middle_of_a_save(self):
        for number in range(1, 6):
            codes, _, errors = ranks.finish(self.start(1, *self.steps(f"ends-{number}", 100, "", number)), PATIENCE)
            self.assertEqual([5], codes, errors)

    def test_a_run_stops_on_a_signal_and_resumes(self):
        folder = pathlib.Path(self.folder, "checkpoints")
        run = [BIN / "distdl", "run", "--local", "-n", "2", "--set", f"run.dir={self.folder}/run", "--"]
        process = self.start(1, *run, *self.steps("checkpoints", 1000000, ""))[0]
        begin = time.monotonic()
        while not any(folder.glob("step-*")):
            self.assertLess(time.monotonic() - begin, PATIENCE, "no checkpoint")
            time.sleep(0.01)
        process.terminate()
        codes, _, errors = ranks.finish([process], PATIENCE)
        self.assertEqual([REQUEUE], codes, errors)
        stopped = int((folder / "LATEST").read_text().split("-")[1])
        output = self.finish(1, *run, *self.steps("checkpoints", stopped + 5, ""))
        self.assertIn(f"begin {stopped}\n", output)

    def test_tools_read_what_was_saved(self):
        self.finish(2, *self.steps("tools", 4, "checkpoint.keep=2"))
        self.assertIn("ok", self.distdl("checkpoint", "verify", f"{self.folder}/tools"))
        self.assertRegex(self.distdl("checkpoint", "ls", f"{self.folder}/tools"), r"(?m)^ +4 ")
        self.assertIn("rows", self.distdl("checkpoint", "show", f"{self.folder}/tools"))

    def test_fortran(self):
        if not (BIN / "capi_fortran").exists():
            self.skipTest("gfortran is not installed, or was not when this build was configured")
        for count in (1, 3):
            self.assertEqual("Fortran: all right\n", self.finish(count, BIN / "capi_fortran", f"{self.folder}/fortran-{count}"))

    def test_julia(self):
        julia = shutil.which("julia")
        if not julia:
            self.skipTest("there is no julia on PATH")
        for count in (1, 3):
            run = f"{self.folder}/julia-{count}"
            output = self.finish(1, "env", f"DISTDL_LIBRARY={BUILD}/lib/libdistdl.so", BIN / "distdl", "run", "--local", "-n", count, "--set",
                                 f"run.dir={run}", "--", julia, ROOT / "examples/julia/mean.jl")
            self.assertIn(f"{count} ranks: the mean is {(count - 1) / 2}", output)
            self.assertIn("values", self.distdl("checkpoint", "show", run))

    def compile(self, name, source, *options):
        compiler = shutil.which("cc") or self.skipTest("there is no C compiler")
        path = pathlib.Path(self.folder, name + ".c")
        path.write_text(source)
        subprocess.run([compiler, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", *options, path, "-o", path.with_suffix(""),
                        f"-I{ROOT}/src/capi", f"-L{BUILD}/lib", "-ldistdl", f"-Wl,-rpath,{BUILD}/lib"], check=True)
        return path.with_suffix("")

    def test_example_of_the_guide(self):
        example = re.search(r"```c\n(.*?)```", (ROOT / "docs/c-api.md").read_text(), re.DOTALL)[1]
        program = self.compile("example", example)
        first = self.finish(2, program, f"{self.folder}/checkpoints")
        self.assertEqual("begins at step 0\nends at step 100\n", first)
        self.assertEqual("begins at step 100\nends at step 200\n", self.finish(3, program, f"{self.folder}/checkpoints"))


if __name__ == "__main__":
    ending.watch()
    unittest.main(verbosity=2)
