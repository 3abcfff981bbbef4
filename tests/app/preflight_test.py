# SPDX-License-Identifier: Apache-2.0
"""The check of nodes before ranks are started there, with an srun that runs the tasks of all nodes on this machine, one after the
other; tests/cluster/preflight_test.py has real nodes."""
import json
import os
import unittest

from program import ProgramTest

SCHEDULER, REQUEUE = 71, 75  # docs/exit-codes.md
SRUN = """#!/bin/bash
cd {folder}
[[ $* != --mpi=list ]] || {{ echo pmix; exit; }}
nodes=$(cat nodes) step=
for word; do
  case $word in --nodelist=*) nodes=${{word#*=}};; --job-name=*) step=${{word#*=}};; esac
done
[[ $step == distdl-preflight ]] || {{ printf '%s\\n' "$*" >> launches; exit 75; }}
echo "$nodes" >> looks
while [[ $1 != */distdl ]]; do shift; done
for node in ${{nodes//,/ }}; do SLURMD_NODENAME=$node timeout 20 "$@" || code=$?; done
exit ${{code:-0}}
"""
SCONTROL = """#!/bin/bash
cd {folder}
case $1 in
  requeue) touch queued; echo requeue >> told;;
  update) echo "$*" >> told;;
  show) state=RUNNING
    [[ ! -e queued && $3 == 7 ]] || state=PENDING
    echo "JobId=$3 JobState=$state Partition=batch NumNodes=$(tr , '\\n' < left | grep -c .) NodeList=$(cat left) ReqTRES=node=$(cat needed)"
esac
"""


class Preflight(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()
        (self.folder / "bin").mkdir()
        for name, text in {"srun": SRUN, "scontrol": SCONTROL, "sinfo": "#!/bin/sh\nprintf 'n%s batch* idle\\n' 1 2 3 4 5\n",
                           "squeue": "#!/bin/sh\nexit 1\n", "sbatch": "#!/bin/sh\necho 8\n"}.items():
            file = self.folder / "bin" / name
            file.write_text(text.format(folder=self.folder) if "{folder}" in text else text)
            file.chmod(0o755)

    def in_job(self, nodes, faults="", needed=2, *more, chain="", left=None):
        """A start in a job with these nodes, of which Slurm has left these; exit code and stderr. No node is slow unless a test
        asks for that: a busy machine is so now and then, which is worth a second look."""
        count = nodes.count(",") + 1
        (self.folder / "nodes").write_text(nodes)
        (self.folder / "left").write_text(left or nodes)
        (self.folder / "needed").write_text(str(needed))
        for name in ("launches", "looks", "told", "queued"):
            (self.folder / name).unlink(missing_ok=True)
        code, _, err = self.distdl("run", "job.toml", "--set", "run.slow_node_share=0", "--set", "run.requeue=true", *more, variables={
            "PATH": f"{self.folder}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": nodes, "SLURM_NNODES": str(count),
            "SLURM_JOB_NUM_NODES": str(count), "SLURM_NTASKS": str(count), "SLURM_JOB_END_TIME": "1900000000",
            "DISTDL_PREFLIGHT_FAULTS": faults, "DISTDL_CHAIN": chain})
        return code, err

    def said(self, name):
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def test_good_nodes_are_looked_at_once_and_used(self):
        code, err = self.in_job("n1,n2,n3")
        self.assertEqual(REQUEUE, code, err)
        self.assertEqual(["n1,n2,n3"], self.said("looks"), err)
        self.assertNotIn("--nodelist", self.said("launches")[0])
        self.assertIn("pre-flight of 3 nodes", err)
        self.assertEqual([3], [row["node_count"] for row in self.rows("journal.jsonl") if row["event"] == "preflight"])
        self.assertFalse((self.folder / "run" / "bad-nodes.jsonl").exists())
        self.assertEqual([], list((self.folder / "run" / "launches").iterdir()), "nothing is left behind")

    def test_a_wrong_node_is_left_out_for_a_while(self):
        code, err = self.in_job("n1,n2,n3", "n2=digest")
        self.assertEqual(REQUEUE, code, err)
        self.assertRegex(err, "n2 .*wrong: computes other gradients than 2 nodes of its kind")
        self.assertIn("--nodes=2", self.said("launches")[0])
        self.assertIn("--nodelist=n1,n3", self.said("launches")[0])
        self.assertEqual(["requeue", "update JobId=7 ExcNodeList=n2"], self.said("told"), "at the requeue of this srun's 75")
        bad, excluded = self.rows("bad-nodes.jsonl")
        for row, event in (bad, "bad_node"), (excluded, "excluded"):
            self.assertEqual((event, "n2", "7"), (row["event"], row["nodes"], row["job"]))
        self.assertIn("n2; wrong: computes other", self.succeed("status", "run"))
        self.assertEqual(["n2"], [bad["node"] for bad in json.loads(self.succeed("status", "run", "--json"))["bad_nodes"]])

        code, err = self.in_job("n2,n3,n4")
        self.assertEqual(["n3,n4"], self.said("looks"), err)
        self.assertIn("n2 is left out, as it was by an earlier start", err)
        code, err = self.in_job("n1,n2", needed=2)
        self.assertEqual(["n1,n2"], self.said("looks"), "the job cannot do without it")
        code, err = self.in_job("n2,n3,n4", "", 2, "--set", "run.bad_node_hours=0")
        self.assertEqual(["n2,n3,n4"], self.said("looks"), "the time is over")

    def test_a_job_that_cannot_do_without_goes_back_to_the_queue_once(self):
        code, err = self.in_job("n1,n2,n3", "n3=file", needed=3)
        self.assertEqual(REQUEUE, code, err)
        self.assertIn("n3", err)
        self.assertEqual([], self.said("launches"), err)
        self.assertEqual(["requeue", "update JobId=7 ExcNodeList=n3"], self.said("told"))
        code, err = self.in_job("n1,n2,n4", "n4=file", needed=3)
        self.assertEqual(SCHEDULER, code, err)
        self.assertIn("n4: reads other bytes than it wrote", err)
        self.assertEqual([], self.said("told"))
        self.assertEqual([], self.said("launches"))

    def test_of_two_that_differ_both_are_named(self):
        code, err = self.in_job("n1,n2", "n1=digest", 1, "--set", "run.requeue=false")
        self.assertEqual(SCHEDULER, code, err)
        self.assertIn("n1 and n2 compute different gradients", err)
        self.assertEqual([], self.said("launches"))

    def test_a_slow_node_is_left_out_only_if_the_job_has_others(self):
        slow = ("--set", "run.slow_node_share=0.2")
        _, err = self.in_job("n1,n2,n3", "n1=slow", 2, *slow)
        self.assertEqual(["n1,n2,n3"] * 2, self.said("looks"), "slow nodes are looked at twice")
        self.assertRegex(err, "n1 .*slow: matrix product")
        self.assertIn("--nodelist=n2,n3", self.said("launches")[0])
        (self.folder / "run" / "bad-nodes.jsonl").unlink()
        _, err = self.in_job("n1,n2,n3", "n1=slow", 3, *slow)
        self.assertIn("n1 is used all the same", err)
        self.assertNotIn("--nodelist", self.said("launches")[0])

    def test_a_spare_takes_the_place(self):
        _, err = self.in_job("n1,n2,n3", "n1=digest", 3, "--set", "run.spares=1")
        launch, = self.said("launches")
        self.assertIn("--nodelist=n2,n3", launch, err)
        self.assertRegex(launch, "--set run.spares=0 .*--ranks 2 ")
        self.assertEqual(1, launch.count("run.spares=0"), "one place tells it")
        _, err = self.in_job("n2,n3,n4", "", 3, "--set", "run.spares=1", "--set", "parallel.microbatches=2")
        self.assertRegex(self.said("launches")[0], "--ranks 2 ", "the spare is no third rank: " + err)

    def test_a_list_of_bad_nodes_that_cannot_be_read_is_a_warning(self):
        (self.folder / "run/bad-nodes.jsonl").mkdir(parents=True)
        code, err = self.in_job("n1,n2,n3")
        self.assertEqual(REQUEUE, code, err)
        told = [line for line in err.splitlines() if "are not avoided" in line]
        self.assertEqual(1, len(told), err)
        self.assertIn('run/bad-nodes.jsonl" is a folder', told[0])

    def test_nodes_that_slurm_has_taken_out_of_the_job_are_not_asked_for(self):
        code, err = self.in_job("n1,n2,n3", left="n[1,3]")
        self.assertEqual(REQUEUE, code, err)
        self.assertIn("Slurm has left 2 of 3 nodes to job 7, which needs 2: n1, n3", err)
        self.assertEqual(["n1,n3"], self.said("looks"), err)
        self.assertIn("--nodelist=n1,n3", self.said("launches")[0])
        code, err = self.in_job("n1,n2,n3", left="n3")
        self.assertEqual((REQUEUE, [], [], ["requeue"]), (code, self.said("looks"), self.said("launches"), self.said("told")), err)

    def test_can_be_switched_off(self):
        self.in_job("n1,n2,n3", "n1=digest", 2, "--set", "run.preflight=off")
        self.assertEqual([], self.said("looks"))

    def test_later_links_of_a_chain_avoid_it(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "journal.jsonl").write_text("".join(
            json.dumps({"event": "submitted", "time": 1, "job": job, "chain": "c"}) + "\n" for job in ("7", "8")))
        _, err = self.in_job("n1,n2,n3", "n2=digest", 2, "--set", "run.requeue=false", chain="c")
        self.assertEqual(["update JobId=8 ExcNodeList=n2"], self.said("told"), err)

    def test_a_submission_avoids_bad_nodes(self):
        self.in_job("n1,n2,n3", "n2=digest")
        path = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "SLURM_JOB_ID": ""}
        for nodes, expected in (("--nodes=2-3", True), ("--nodes=5", False)):
            _, script, err = self.distdl("submit", "job.toml", "--force", "--dry-run", nodes, variables=path)
            self.assertEqual(expected, "#SBATCH --exclude=n2" in script, script + err)
        self.assertIn("n2 not excluded although bad", err)

    def test_one_machine_checks_itself_on_request(self):
        always = ["--set", "run.preflight=always"]
        self.succeed(*self.run_local(1), *always)
        self.assertIn("preflight", [row["event"] for row in self.rows("journal.jsonl")])
        host = os.uname().nodename
        self.fails(SCHEDULER, ["reads other bytes than it wrote"], *self.run_local(1), *always,
                   variables={"DISTDL_PREFLIGHT_FAULTS": f"{host}=file"})


if __name__ == "__main__":
    unittest.main()
