# SPDX-License-Identifier: Apache-2.0
"""The ways to start ranks under Slurm, right and wrong; and what `distdl doctor` says where."""
import json
import unittest

import pocket

FOLDER = None
CLUSTER = None


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{FOLDER}/shapes.h5", "--samples", "4000")
    CLUSTER = pocket.Cluster(2, FOLDER)


def worker(name):
    return [pocket.DISTDL, "worker", f"{pocket.REPOSITORY}/examples/mlp.toml", "--set", f"data.train={FOLDER}/shapes.h5",
            "--set", f"run.dir={FOLDER}/{name}", "--set", "train.epochs=2"]


def doctor(*launcher):
    """What doctor found, by name."""
    findings = json.loads(pocket.call(*launcher, pocket.DISTDL, "doctor", "--dir", FOLDER, "--json"))
    return {finding["what"]: finding for finding in findings}


class StartOfRanks(unittest.TestCase):
    def test_srun_alone_starts_the_same_run(self):
        pocket.call("srun", "--mpi=pmix", "-N2", *worker("plain"))
        run = pocket.Run(f"{FOLDER}/plain")
        self.assertEqual([2], [start["ranks"] for start in run.starts()])
        self.assertTrue(run.finished())
        pocket.call(pocket.DISTDL, "run", "--local", "-n", "1", *worker("local")[2:])
        self.assertEqual(run.digest(), pocket.Run(f"{FOLDER}/local").digest())

    def test_one_task_needs_no_pmix(self):
        pocket.call("srun", "--mpi=none", "-N1", "-n1", *worker("single"))
        self.assertEqual(1, pocket.Run(f"{FOLDER}/single").starts()[0]["ranks"])

    def test_without_pmix_ranks_meet_in_the_run_folder(self):
        done = pocket.finished("srun", "--mpi=none", "-N2", *worker("folder"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("no PMIx server answers: the rendezvous of the ranks is in", done.stderr)
        self.assertEqual([2], [start["ranks"] for start in pocket.Run(f"{FOLDER}/folder").starts()])

    def test_doctor_on_the_login_host(self):
        found = doctor()
        self.assertEqual("ok", found["Slurm"]["health"], found)
        self.assertNotIn("in job", found["Slurm"]["found"])
        self.assertEqual("ok", found["PMIx"]["health"], found)

    def test_doctor_in_an_allocation(self):
        found = doctor("salloc", "--quiet", "--nodes=2", "srun", "--nodes=1", "--ntasks=1")
        self.assertEqual("ok", found["Slurm"]["health"], found)
        self.assertRegex(found["Slurm"]["found"], r"in job \d+ on \d nodes?")
        self.assertEqual("ok", found["PMIx"]["health"], found)
        self.assertNotIn("fail", [finding["health"] for finding in found.values()], found)

    def test_doctor_where_no_controller_answers(self):
        CLUSTER.tool("cut", "ctl")
        self.addCleanup(CLUSTER.tool, "mend", "ctl")
        found = doctor()
        self.assertEqual("warn", found["Slurm"]["health"], found)
        self.assertTrue(found["Slurm"]["advice"], "says what to do")


pocket.main()
