# SPDX-License-Identifier: Apache-2.0
"""The examples on a real Slurm cluster: an all-reduce under srun, heat in a plate that is preempted, requeued, stopped, and
goes on with other ranks, to the same bytes, and what docs/tutorial.md shows of a cluster."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import pocket

sys.path.insert(0, f"{pocket.REPOSITORY}/tests/app")
import shown_commands  # pylint: disable=wrong-import-position

FOLDER = None
CLUSTER = None
BIN = os.path.dirname(pocket.DISTDL)
HEAT = f"{BIN}/example_heat"
PLATE = ["256", "20000", "1000"]  # size, steps, steps between checkpoints


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    CLUSTER = pocket.Cluster(3, FOLDER)
    os.environ["HEAT"] = HEAT


def digest(name):
    return pocket.call(pocket.DISTDL, "checkpoint", "digest", f"{FOLDER}/{name}").strip()


def heat(options, name):
    return CLUSTER.submit(*options, f"{pocket.REPOSITORY}/examples/heat/heat.sbatch", f"{FOLDER}/{name}", *PLATE)


def starts(job):
    """(ranks, first step) of each time that the job ran."""
    return [(int(ranks), int(step)) for ranks, step in re.findall(r"^(\d+) ranks, from step (\d+) of", job.log(), re.MULTILINE)]


def saves(job):
    return [int(step) for step in re.findall(r"^step (\d+): .* saved$", job.log(), re.MULTILINE)]


class Examples(unittest.TestCase):
    def test_all_reduce_under_srun(self):
        output = pocket.call("srun", "--mpi=pmix", "--nodes=3", "--ntasks-per-node=2", f"{BIN}/example_all_reduce")
        self.assertEqual("6 ranks: each of 1000000 values is 21\n", output)

    def test_heat_survives_preemption_and_goes_on_with_other_ranks(self):
        job = heat(["--nodes=3"], "disturbed")
        job.wait("a checkpoint", lambda: saves(job), 60)
        CLUSTER.preempt()
        job.wait("the end of the first run", lambda: len(starts(job)) == 2, 60)
        job.wait("a checkpoint of the second run", lambda: saves(job)[-1] >= starts(job)[1][1] + 1000, 60)
        pocket.call("scancel", job.number)
        job.wait_state("CANCELLED", 30)
        (ranks, first), (ranks_again, resumed) = starts(job)
        self.assertEqual((6, 0, 6), (ranks, first, ranks_again), job.story())
        self.assertIn(resumed, saves(job))
        self.assertNotEqual(0, resumed % 1000, "saved because it was told to stop, not because the time had come")

        other = heat(["--nodes=2", "--ntasks-per-node=1"], "disturbed")
        other.wait_state("COMPLETED", 120)
        self.assertEqual([(2, saves(job)[-1])], starts(other), other.story())
        self.assertEqual(int(PLATE[1]), saves(other)[-1])

        pocket.call(HEAT, f"{FOLDER}/undisturbed", *PLATE)
        self.assertEqual(digest("undisturbed"), digest("disturbed"))

    def test_the_tutorial(self):
        """Its commands in the order of the page; a wait before those that a reader types a while later."""
        folder = pathlib.Path(f"{FOLDER}/tutorial")
        folder.mkdir()
        env = {**os.environ, "PATH": f"{BIN}:{pocket.REPOSITORY}/sbatch:{os.environ['PATH']}", "XDG_STATE_HOME": f"{folder}/state"}
        run = pocket.Run(f"{folder}/run-shapes-lenet")

        def shell(command):
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            self.assertEqual(0, done.returncode, done.stdout)
            return done.stdout

        self.addCleanup(shell, "distdl cancel || true")
        shell("distdl data make shapes shapes.h5 && distdl init shapes.h5")
        text = (pathlib.Path(pocket.REPOSITORY) / "docs/tutorial.md").read_text()
        for block in shown_commands.blocks(text, "cluster"):
            for command, lines in block:
                with self.subTest(command=command):
                    if command == "distdl status":
                        pocket.wait_for("training", lambda: run.step() > 20, 60)
                    if command.startswith("distdl status --verbose"):
                        pocket.wait_for("training without the node", lambda: len(run.starts()) == 2 and run.step() > run.starts()[1].get("resumed_from", 0), 90)
                    if command.startswith("distdl checkpoint digest"):
                        pocket.wait_for("the end of the run", run.finished, 120)
                    told = shell(command)
                    self.assertTrue(shown_commands.matches(lines, told), "the tutorial shows\n" + "\n".join(lines) + f"\nit prints\n{told}")


pocket.main()
