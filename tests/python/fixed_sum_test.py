# SPDX-License-Identifier: Apache-2.0
"""distdl.torch.fixed_sum: the same weights, bit for bit, on 1, 2, 3 or 8 ranks, and when a rank is lost."""
import pathlib

import environment

environment.need("torch", "numpy")
PROGRAM = pathlib.Path(__file__).resolve().parent / "programs/fixed.py"


class FixedSum(environment.Case):
    def digests(self, count, steps=40, *arguments, run="run", checkpoints=None, **more):
        variables = {"SEEDED": "1", **({"CHECKPOINTS": str(self.folder / checkpoints)} if checkpoints else {})}
        found = set(self.told(self.launch(count, PROGRAM, steps, *arguments, run=run, variables=variables, **more), "digest"))
        self.assertEqual(1, len(found))
        return found

    def test_any_number_of_ranks_and_the_loss_of_one(self):
        digests = self.digests(1, run="one")
        for count in (2, 3, 8):
            digests |= self.digests(count, run=str(count))
        lost = self.folder / "lost"
        digests |= self.digests(3, 40, lost, run="lost", options=["--set", "run.relaunches=2"])
        self.assertTrue(lost.exists())
        self.assertEqual(1, len(digests))

    def test_a_run_goes_on_with_other_ranks(self):
        whole = self.digests(2, 40, run="whole")
        self.digests(3, 20, run="begin", checkpoints="parts")
        self.assertEqual(whole, self.digests(2, 40, run="end", checkpoints="parts"))


if __name__ == "__main__":
    environment.main()
