# SPDX-License-Identifier: Apache-2.0
"""examples/numpy: it learns, is stopped in the middle, and goes on with another number of ranks."""
import os
import subprocess
import sys
import time

import environment

environment.need("numpy")
PROGRAM = environment.ROOT / "examples/numpy/train.py"
DATA = os.environ.get("DISTDL_TEST_DATA", str(environment.ROOT.parent / "shared/data"))


class NumpyExample(environment.Case):
    def test_it_stops_and_goes_on(self):
        if not os.path.exists(f"{DATA}/t10k-images-idx3-ubyte.gz"):
            self.skipTest(f"no digits in {DATA}: set DISTDL_TEST_DATA")
        self.assertLessEqual(len(PROGRAM.read_text().splitlines()), 60)
        folder, variables = self.folder / "run", {"DISTDL_TEST_DATA": DATA, "OPENBLAS_NUM_THREADS": "1"}
        first = subprocess.Popen([environment.DISTDL, "run", "--local", "-n", "2", "--set", f"run.dir={folder}", "--", sys.executable,
                                  PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **variables})
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        metrics, end = folder / "metrics.jsonl", time.monotonic() + environment.PATIENCE
        while first.poll() is None and time.monotonic() < end and not (metrics.exists() and '"step":5' in metrics.read_text()):
            time.sleep(0.02)
        (folder / "STOP").touch()
        output, _ = first.communicate(timeout=environment.PATIENCE)
        self.assertEqual(76, first.returncode, output)
        output = self.launch(3, PROGRAM, variables=variables)
        self.assertGreater(float(self.told(output, "accuracy")[0]), 0.85, output)
        steps = [row["step"] for row in self.rows("metrics.jsonl") if "step" in row]
        self.assertEqual(sorted(set(steps)), steps, "steps were done twice")
        self.assertEqual(600, steps[-1])


if __name__ == "__main__":
    environment.main()
