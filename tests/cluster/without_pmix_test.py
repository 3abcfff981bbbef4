# SPDX-License-Identifier: Apache-2.0
"""A Slurm without PMIx: agents and ranks find each other in the run folder."""
import unittest

import pocket

FOLDER = None
CLUSTER = None


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    CLUSTER = pocket.Cluster(2, FOLDER, "nopmix", ["--without-pmix"])


class WithoutPmix(unittest.TestCase):
    def train(self, name, *more):
        run = pocket.Run(f"{FOLDER}/{name}")
        job = CLUSTER.train(["--nodes=2"], "mlp.toml", "--set", f"data.train={FOLDER}/shapes.h5", "--set", f"run.dir={run.folder}",
                            "--set", "train.epochs=2", *more)
        self.addCleanup(pocket.finished, "scancel", job.number)
        job.wait_state("COMPLETED", 90)
        self.assertTrue(run.finished(), job.log())
        self.assertEqual([2], [start["ranks"] for start in run.starts()], job.log())
        self.assertIn("srun here has no --mpi=pmix", job.log())
        return run

    def test_this_slurm_has_no_pmix(self):
        self.assertNotIn("pmix", pocket.call("srun", "--mpi=list").replace("nopmix", ""))

    def test_agents_and_ranks_train(self):
        self.train("agents")

    def test_ranks_without_agents_train(self):
        self.assertEqual(self.train("relaunch", "--set", "run.recovery=relaunch").digest(), self.train("again").digest())


pocket.main(check=["--without-pmix"])
