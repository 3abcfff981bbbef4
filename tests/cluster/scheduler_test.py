# SPDX-License-Identifier: Apache-2.0
"""A real Slurm's answers, through libslurm and through its commands; our reader of host lists beside Slurm's own."""
import itertools
import os
import random
import sys
import time
import unittest

import pocket

PROGRAM = os.path.abspath(sys.argv[2])
FOLDER = None
CLUSTER = None


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    CLUSTER = pocket.Cluster(2, FOLDER)


def ask(way, *question):
    return pocket.call(PROGRAM, way, *question)


def fields(text):
    return dict(line.split("=", 1) for line in text.splitlines())


class Answers(unittest.TestCase):
    def setUp(self):
        if ask("best", "description").strip() != "libslurm 22.05" and not self.has_plugin():
            self.skipTest("this build has no libslurm plug-in")

    @staticmethod
    def has_plugin():
        return pocket.finished(PROGRAM, "libslurm", "settings").returncode == 0

    def same(self, *question, but=()):
        """What both ways say, once both say the same: Slurm may be about to change it."""
        def alike():
            texts = [ask(way, *question) for way in ("libslurm", "commands")]
            rows = [{key: value for key, value in fields(text).items() if key not in but} if question[0] != "script" and "=" in text else text
                    for text in texts]
            return texts[0] if rows[0] == rows[1] else None
        return pocket.wait_for(f"the same answer to {question}", alike, 10, lambda: ask("libslurm", *question) + ask("commands", *question))

    def test_a_job_from_submission_to_its_end(self):
        script = f"{FOLDER}/script"
        with open(script, "w") as file:
            file.write("#!/bin/bash\n#SBATCH --signal=B:USR1@60\nsleep 60\n")
        job = CLUSTER.submit("--job-name=my job Reason=none", "--nodes=1-2", "--time=5", "--no-requeue", "--comment=a b=c", "--ntasks-per-node=2", "--hold", script)
        waiting = fields(self.same("job", job.number))
        self.assertEqual(["PENDING", "JobHeldUser", "none", "none"], [waiting[key] for key in ("state", "reason", "started", "ends")])
        pocket.call("scontrol", "release", job.number)
        job.wait_state("RUNNING", 20)
        running = fields(self.same("job", job.number, but=("fewest",)))  # 22.05's scontrol does not tell it
        self.assertEqual(["my job Reason=none", "batch", "n[1-2]", "n1", "2", "false", "300", script],
                         [running[key] for key in ("name", "partition", "node_list", "batch_host", "nodes", "may_requeue", "time_limit", "command")])
        self.assertEqual(300, int(running["ends"]) - int(running["started"]))
        self.assertLess(abs(time.time() - int(running["started"])), 30)
        self.assertEqual("1", running["fewest"])
        with open(script) as file:
            self.assertEqual(file.read(), self.same("script", job.number))
        pocket.call("scancel", job.number)
        job.wait_state("CANCELLED", 20)
        self.same("job", job.number, but=("fewest",))

    def test_a_task_of_an_array(self):
        job = CLUSTER.submit("--array=1-3", "--hold", "--wrap", "sleep 60")
        self.addCleanup(pocket.call, "scancel", job.number)
        self.assertEqual("PENDING", fields(self.same("job", f"{job.number}_2"))["state"])
        pocket.call("scontrol", "release", f"{job.number}_2")
        task = pocket.Job(f"{job.number}_2", FOLDER)
        task.wait_state("RUNNING", 20)
        found = fields(self.same("job", f"{job.number}_2", but=("fewest",)))
        self.assertEqual("RUNNING", found["state"])
        self.same("job", job.number)

    def test_what_there_is_not(self):
        for question in (("job", "4711"), ("job", "99999999999"), ("partition", "none"), ("script", "4711")):
            self.assertEqual("none\n", self.same(*question))

    def test_partitions_and_settings(self):
        self.assertEqual({"name": "batch", "mode": "REQUEUE", "grace": "10", "longest": "none", "tier": "1", "state": "UP"},
                         fields(self.same("partition", "batch")))
        self.assertEqual("OFF", fields(self.same("partition", "urgent"))["mode"])
        settings = fields(self.same("settings"))
        self.assertEqual(["22.05.8", "5", "10", "5", "preempt/partition_prio", "true"][1:],
                         [settings[key] for key in ("kill_wait", "slurmd_timeout", "message_timeout", "type", "requeues")])

    def test_libslurm_is_the_first_choice(self):
        self.assertRegex(ask("best", "description"), r"^libslurm \d+\.\d\d\n")


class HostLists(unittest.TestCase):
    def check(self, text, in_order=True):
        slurms = pocket.finished("scontrol", "show", "hostnames", text)
        ours = pocket.finished(PROGRAM, "hosts", text)
        self.assertEqual(0, ours.returncode, f"{text}: {ours.stderr}")
        expected, found = slurms.stdout.split(), ours.stdout.split()
        self.assertEqual(*(words if in_order else sorted(words) for words in (expected, found)), text)

    def test_as_slurm_expands_them(self):
        for text in ("n1", "n[1-3]", "n[1-3,007-009]", "n[01-05,1]", "n[9-011]", "n3,n[1-2],n3", "rack[0-1]-n[1-2]", "n[1-2][3-4]",
                     "N_1,a-b.c", "n[65530-65540]", "n[0-65535]", "a[1],b[2,2]"):
            self.check(text)
        self.check("n[0-1]n[0-1]n[0-1]", in_order=False)  # which Slurm mixes up

    def test_random_lists(self):
        draw = random.Random(17)

        def bracket():
            parts = []
            for _ in range(draw.randint(1, 4)):
                first = draw.randint(0, 120)
                last = first + draw.randint(0, 12)
                width = draw.choice((0, 0, 2, 4))
                parts.append(f"{first:0{width}d}" + (f"-{last:0{width}d}" if draw.random() < 0.6 else ""))
            return f"[{','.join(parts)}]"

        for _ in range(150):
            items = []
            for _ in range(draw.randint(1, 5)):
                brackets = draw.randint(0, 2)
                items.append("".join(itertools.chain(*((draw.choice(("n", "cn-", "r1.", "node_")), bracket()) for _ in range(brackets))))
                             or draw.choice(("login", "n7", "a-b.c")))
            self.check(",".join(items))


del sys.argv[2]
pocket.main()
