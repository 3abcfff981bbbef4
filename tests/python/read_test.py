# SPDX-License-Identifier: Apache-2.0
"""distdl.read of runs of Python programs and of distdl's own training; distdl.steps."""
import importlib.util
import json
import os
import subprocess
import sys
import unittest

import environment

environment.need("numpy")
import numpy as np  # noqa: E402

import distdl  # noqa: E402

LOOP = """
    import sys, time, distdl, numpy as np
    state = {"x": np.zeros(4)}
    loop = distdl.steps(30, state, every=10)
    print("first", loop.first)
    for step in loop:
        state["x"] += step
        distdl.metrics.log(loss=float(step))
        if step == int(sys.argv[1]) and distdl.run.rank() == 0:
            (distdl.run.folder() / "STOP").touch()
            time.sleep(1)
    print("sum", state["x"][0])
    """


class Read(environment.Case):
    def test_a_loop_stops_goes_on_and_is_read(self):
        first = self.ranks(2, LOOP, 12, code=76)
        self.assertEqual(["0", "0"], self.told(first, "first"))
        run = distdl.read(self.folder / "run")
        stopped = run.step()
        self.assertTrue(12 < stopped < 30, stopped)
        self.assertEqual(stopped, run.state()["step"])
        second = self.ranks(3, LOOP, 100)
        self.assertEqual([str(stopped)] * 3, self.told(second, "first"))
        self.assertEqual([f"{sum(range(30)):.1f}"] * 3, self.told(second, "sum"))
        self.assertEqual(list(range(1, 31)), [row["step"] for row in run.rows()])
        self.assertEqual(29, run.rows()[-1]["loss"])
        self.assertEqual(("finished", 30), (run.result()["status"], run.step()))
        self.assertIn("started", [row["event"] for row in run.journal()])
        np.testing.assert_array_equal(np.full(4, sum(range(30))), run.weights()["x"])

    def test_rows_of_a_step_that_was_done_twice(self):
        folder = self.folder / "run"
        folder.mkdir()
        (folder / "metrics.jsonl").write_text("".join(line + "\n" for line in (
            '{"step":1,"loss":1,"start":1}', '{"step":2,"loss":2,"start":1}', '{"step":2,"loss":3,"start":2}', "torn",
            '{"step":2,"validation_loss":5,"start":1}')))
        self.assertEqual([(1, 1), (2, 3), (2, None)], [(row["step"], row.get("loss")) for row in distdl.read(folder).rows()])
        if environment.importlib.util.find_spec("pandas"):
            self.assertEqual([1, 2, 2], list(distdl.read(folder).metrics()["step"]))

    def test_what_is_not_there(self):
        with self.assertRaisesRegex(distdl.NotFound, "there is no run folder"):
            distdl.read(self.folder / "nothing")
        self.assertIsNone(distdl.newest(self.folder))
        self.assertIsNone(distdl.read(self.folder).result())

    def train(self):
        """A run of distdl's own, in the folder "run"."""
        for command in (["data", "make", "shapes", "shapes.h5", "--samples", "200"],
                        ["run", "--local", environment.ROOT / "examples/mlp.toml", "--set", "train.epochs=1", "--set", "data.holdout=50", "--set", "run.dir=run"]):
            done = subprocess.run([str(word) for word in [environment.DISTDL, *command]], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_a_run_of_distdl_itself(self):
        self.train()
        run = distdl.read(self.folder / "run")
        self.assertGreater(len(run.weights()), 3)
        self.assertTrue(all(np.isfinite(each).all() for each in run.weights().values()))
        with self.assertRaisesRegex(distdl.NotFound, "has arrays only"):
            run.state()

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("pandas", "matplotlib"))), f"no pandas or matplotlib for {sys.executable}")
    def test_the_notebook(self):
        self.train()
        cells = json.loads((environment.ROOT / "examples/notebook/run.ipynb").read_text())["cells"]
        self.assertFalse([cell for cell in cells if cell.get("outputs")], "a notebook is kept without outputs")
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        done = subprocess.run([sys.executable, "-c", code + "\nprint(len(steps), list(axes.lines))"], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(self.folder)})
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\d+ .*Line2D")


if __name__ == "__main__":
    environment.main()
