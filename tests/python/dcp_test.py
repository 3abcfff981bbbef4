# SPDX-License-Identifier: Apache-2.0
"""Sharded states: torch.distributed.checkpoint into distdl's checkpoints, and distdl.Checkpoint with DTensors."""
import pathlib
import subprocess

import environment

environment.need("torch", "numpy", torch="2.1")
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


class Sharded(environment.Case):
    def test_what_two_ranks_save_three_and_one_load(self):
        folder = self.folder / "ck"
        self.launch(2, PROGRAMS / "dcp.py", "save", folder, run="saves")
        for count in (3, 1):
            output = self.launch(count, PROGRAMS / "dcp.py", "load", folder, run=f"loads-{count}")
            self.assertEqual(count, len(self.told(output, "done")), output)
        told = subprocess.run([environment.DISTDL, "checkpoint", "verify", folder], capture_output=True, text=True, check=True)
        self.assertIn("ok", told.stdout)

    def test_other_ranks_load_a_sharded_state(self):
        folder = self.folder / "ck"
        totals = {*self.told(self.launch(2, PROGRAMS / "states.py", "save", folder, run="saves"), "total"),
                  *self.told(self.launch(4, PROGRAMS / "states.py", "load", folder, run="loads"), "total")}
        self.assertEqual(1, len(totals), totals)


if __name__ == "__main__":
    environment.main()
