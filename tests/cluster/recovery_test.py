# SPDX-License-Identifier: Apache-2.0
"""Faults of ranks and nodes from which the agents recover within the job: the same launch goes on, within seconds, and ends with
the bytes of a run that nothing happened to.

A few faults run in `make test`. All of them, COUNT times each, with the times until the run trains again:
  DISTDL_LONG=COUNT [DISTDL_SLURMD_TIMEOUT=10] python3 tests/cluster/recovery_test.py build/bin/distdl Long
"""
import itertools
import json
import os
import random
import signal
import subprocess
import time
import unittest
import unittest.mock

import pocket
import recovery_case as case
from recovery_case import LONG, NODES, TIMEOUT, Case


def setUpModule():
    case.set_up("recovery")


def hang_in_read(run, node):
    """The data reader of a rank no longer comes back: tests/app/hang_in_read.cpp, which lies in LD_PRELOAD."""
    pid = run.processes("worker", node)[0]
    with open(f"/proc/{pid}/status") as file:
        own = next(line for line in file if line.startswith("NSpid:")).split()[-1]  # as the node counts
    with open(f"{os.readlink(f'/proc/{pid}/cwd')}/hang-{node}-{own}", "w") as file:
        return file.name


class Recovery(Case):
    def test_ranks_killed_frozen_and_hung_then_a_node_lost(self):
        with unittest.mock.patch.dict(os.environ, LD_PRELOAD=os.environ["HANG_IN_READ_LIBRARY"]):
            run, job = self.start("all", more=["run.stalled_seconds=4", "data.cache_mib=1", "comm.timeout_seconds=60"])
        found = json.loads(pocket.call(pocket.DISTDL, "why", run.folder, "--json"))
        self.assertEqual(["n1", "n2", "n3"], [node["host"] for node in found["nodes"]])
        self.assertEqual([0, 1, 2], [rank["rank"] for node in found["nodes"] for rank in node["ranks"]])
        self.assertEqual([], found["silent"])
        self.fault(run, job, "a killed rank", lambda: os.kill(run.processes("worker", "n2")[0], signal.SIGKILL))
        self.fault(run, job, "a frozen rank", lambda: os.kill(run.processes("worker", "n1")[0], signal.SIGSTOP))
        # How long a phase may take is known when a process has been in it three times.
        job.wait("step 70", lambda: run.step() >= 70, 30)
        hung = []
        self.addCleanup(lambda: [os.remove(file) for file in hung if os.path.exists(file)])
        self.fault(run, job, "a hung reader", lambda: hung.append(hang_in_read(run, "n2")))
        os.remove(hung[0])
        self.assertIn("rank 1 made no progress for 4.", pocket.call(pocket.DISTDL, "log", run.folder))
        self.fault(run, job, "a lost node", lambda: case.CLUSTER.tool("kill", "n3"))
        self.assertEqual([3, 3, 3, 3, 2], [start["ranks"] for start in run.starts()])
        self.assertEqual([("killed", "n2"), ("frozen", "n1"), ("no progress", "n2"), ("node lost", "n3")], self.losses(run))
        self.finish(run, job, lost=["n3"])
        self.check_times(run)

    def test_a_loss_that_is_no_number_is_not_tried_again(self):
        run = pocket.Run(f"{case.FOLDER}/diverged")
        job = case.CLUSTER.train(["--nodes=3"], case.JOB, *case.words("diverged", "optim.learning_rate=1e9"))
        self.addCleanup(pocket.finished, "scancel", job.number)
        job.wait_state("FAILED", 60)
        self.assertEqual((1, 1, 0), tuple(len(run.events(event)) for event in ("launch", "started", "generation")))
        self.assertEqual(["diverged"], [kind for kind, _ in self.losses(run)])
        self.assertEqual([78], [row["code"] for row in run.events("launch_ended")])

    def test_a_node_that_is_back_takes_part_again(self):
        # With a bucket for the gradients of each layer, so that several are on their way when the cable is cut.
        run, job = self.start("back", more=["run.regrow_seconds=2", "parallel.bucket_mib=1e-6"])
        self.fault(run, job, "a cut cable", lambda: case.CLUSTER.tool("cut", "n3"))
        case.CLUSTER.tool("mend", "n3")
        job.wait("a third start", lambda: len(run.starts()) == 3, 60)
        self.assertEqual([3, 2, 3], [start["ranks"] for start in run.starts()])
        self.assertEqual([("node lost", "n3")], self.losses(run))
        self.assertEqual("more nodes can take part", run.events("generation")[-1]["cause"])
        self.finish(run, job)

    def test_nodes_of_other_jobs_join_and_leave(self):
        run, job = self.start("join", "--nodes=2", more=["run.most_nodes=3", "run.regrow_seconds=2"])
        first = self.join(run)
        self.fault(run, job, "a second job", lambda: None, 60)
        self.refuse_to_join(run, "already has all its nodes (3)")
        self.fault(run, job, "the warning of its end", lambda: pocket.call("scancel", "--batch", "--signal=USR1", first.number))
        first.wait_state("COMPLETED", 20)
        last = self.join(run)
        self.fault(run, job, "a third job", lambda: None, 60)
        self.assertEqual([2, 3, 2, 3], [start["ranks"] for start in run.starts()])
        self.assertEqual([], self.losses(run))
        self.assertEqual(["more nodes can take part", "a node leaves the run", "more nodes can take part"],
                         [row["cause"] for row in run.events("generation")])
        self.finish(run, job)
        last.wait_state("COMPLETED", 20)
        self.assertEqual("0:0", last.field("ExitCode"))
        self.refuse_to_join(run, "is finished")


class BadNodes(Case):
    """Nodes that compute wrong, or may fail soon, give way to others."""

    def test_a_node_with_wrong_bits_gives_way_to_a_spare(self):
        run, job = self.start_with_wrong_bits("wrong", "--nodes=3", more=["run.spares=1", "run.regrow_seconds=1"])
        self.assertEqual(["n1,n3"], [row["nodes"] for row in run.events("generation")])
        self.assertEqual([4, 4], [start["ranks"] for start in run.starts()])
        self.finish(run, job)
        self.assertEqual((1, 1), (len(run.events("launch")), len(run.events("generation"))))

    def test_a_node_that_joins_and_does_not_fit_leaves(self):
        """Ranks on it end with 78 before their first step."""
        run, job = self.start("misfit", "--nodes=2", more=["run.most_nodes=3", "run.regrow_seconds=1"])
        with unittest.mock.patch.dict(os.environ, DISTDL_FLIP_BIT="no such bit"):
            misfit = self.join(run)
        misfit.wait_state("COMPLETED", 60)
        self.assertEqual("0:0", misfit.field("ExitCode"))
        job.wait("a start without it", lambda: len(run.starts()) == 2, 60)
        fit = self.join(run)
        self.fault(run, job, "a node that fits", lambda: None, 60)
        self.assertEqual([2, 2, 3], [start["ranks"] for start in run.starts()])
        self.assertEqual(["n1,n2,n3", "n1,n2", "n1,n2,n3"], [row["nodes"] for row in run.events("generation")])
        self.assertIn("no ranks can begin on nodes that joined", run.events("generation")[1]["cause"])
        self.finish(run, job)
        fit.wait_state("COMPLETED", 20)

    def test_a_node_that_may_fail_gives_way_to_a_spare(self):
        predictor = f"{case.FOLDER}/predictor.json"
        signs = ("slowdown", "load", "memory_pressure", "io_pressure", "used_memory", "throttles", "corrected_errors",
                 "uncorrected_errors", "gpus_throttled", "gpu_corrected_errors", "gpu_uncorrected_errors")
        with open(predictor, "w") as file:
            json.dump({"weights": {sign: 10 * (sign == "corrected_errors") for sign in signs}, "bias": -5, "threshold": 0.5}, file)
        with unittest.mock.patch.dict(os.environ, DISTDL_FAILURE_WATCH_MS="200"):
            run, job = self.start("drained", "--nodes=3", more=["run.spares=1", f"run.failure_predictor={predictor}"])
        errors = itertools.count(1, 1000)

        def has_moved():
            with open(f"{run.folder}/health/n2.jsonl", "a") as file:
                file.write(json.dumps({"time": time.time(), "host": "n2", "corrected_errors": next(errors)}) + "\n")
            return len(run.starts()) == 2

        job.wait("a second start", has_moved, 60)
        began, = run.events("generation")
        self.assertEqual(("n1,n3", "a spare takes the place of a node that may fail"), (began["nodes"], began["cause"]))
        self.assertIn("n2", [row["host"] for row in run.events("node_at_risk")])
        self.assertEqual([], self.losses(run))
        self.assertGreaterEqual(run.starts()[1]["resumed_from"], 60, "after a save")
        self.finish(run, job)


@unittest.skipUnless(LONG, "DISTDL_LONG is not set")
class LongBadNodes(Case):
    def test_without_enough_other_nodes_the_job_goes_elsewhere(self):
        run, job = self.start_with_wrong_bits("elsewhere", "--nodes=2")
        self.assertEqual(("n2", "n[1,3]"), (job.field("ExcNodeList"), job.field("NodeList")))
        self.assertEqual((1, 0), (len(run.events("requeued")), len(run.events("generation"))))
        self.finish(run, job, restarts="1")

    def test_without_a_spare_fewer_nodes_go_on(self):
        run, job = self.start_with_wrong_bits("fewer", more=["run.regrow_seconds=1"])
        self.assertEqual([6, 4], [start["ranks"] for start in run.starts()])
        self.finish(run, job)


@unittest.skipUnless(LONG, "DISTDL_LONG is not set")
class Long(Case):
    def test_jobs_that_joined_are_cancelled_or_killed(self):
        for i in range(LONG):
            run, job = self.start(f"joined{i}", "--nodes=2", more=["run.most_nodes=3", "run.regrow_seconds=2", "train.epochs=80"])
            for what, act, state in (("its scancel", lambda second: pocket.call("scancel", second.number), "CANCELLED"),
                                     ("its killed agent", lambda _, run=run: self.kill_agent(run, "n3"), "FAILED")):
                second = self.join(run)
                self.fault(run, job, "a second job", lambda: None, 60)
                self.fault(run, job, what, lambda act=act, second=second: act(second))
                second.wait_state(state, 60)
            self.assertEqual([2, 3, 2, 3, 2], [start["ranks"] for start in run.starts()])
            self.assertEqual(["n3"], [node for _, node in self.losses(run)])  # its ranks' connections may break first
            for node in NODES:
                case.CLUSTER.tool("rate", node, "none")
            job.wait_state("COMPLETED", 120)

    def kill_agent(self, run, node):
        os.kill(run.processes("agent", node)[0], signal.SIGKILL)

    def kill_rank(self, run, node, number=signal.SIGKILL):
        os.kill(run.processes("worker", node)[0], number)

    def test_a_spare_takes_the_place_of_a_lost_node(self):
        for i in range(LONG):
            with self.subTest(i):
                run, job = self.start(f"spare{i}", "--nodes=3", more=["run.spares=1"])
                self.fault(run, job, "a lost node with a spare", lambda: case.CLUSTER.tool("kill", "n2"))
                self.assertEqual([2, 2], [start["ranks"] for start in run.starts()])
                self.finish(run, job, lost=["n2"])

    def test_a_lost_batch_host(self):
        for i in range(LONG):
            with self.subTest(i):
                run, job = self.start(f"batch{i}")
                self.fault(run, job, "a lost batch host", lambda: case.CLUSTER.tool("kill", "n1"))
                self.outlive_the_batch_host(run, job)
                self.assertEqual(pocket.Run(f"{case.FOLDER}/undisturbed").digest(), run.digest())

    def test_a_cut_cable(self):
        for i in range(LONG):
            for node in ("n3", "n1"):
                with self.subTest(f"{i} {node}"):
                    run, job = self.start(f"cut{i}{node}")
                    self.fault(run, job, f"a cut cable of {node}", lambda: case.CLUSTER.tool("cut", node))
                    time.sleep(10)
                    case.CLUSTER.tool("mend", node)
                    # Slurm may take the end of the batch script on the node that is back for that of the job.
                    fails = node == "n1" and int(TIMEOUT) < 60
                    if fails:
                        self.release_if_held(run, job, node)
                    self.finish(run, job, restarts="012" if fails else "0", seconds=200 if fails else 120)

    @unittest.skipUnless(int(TIMEOUT) <= 30, "Slurm gives a node up after DISTDL_SLURMD_TIMEOUT, which is too long")
    def test_a_batch_host_that_is_back_just_as_slurm_gave_it_up(self):
        """Slurm kills the batch script there, and most times fails the job for that: the agents requeue it."""
        for i in range(LONG):
            with self.subTest(i):
                run, job = self.start(f"back{i}")
                self.fault(run, job, "a cut cable of n1", lambda: case.CLUSTER.tool("cut", "n1"))
                job.wait("Slurm to give n1 up", lambda: "DOWN" in pocket.call("scontrol", "show", "node", "n1"), 60)
                case.CLUSTER.tool("mend", "n1")
                time.sleep(5)
                print(f"restarts {job.field('Restarts')}, {job.state()}, {job.field('Reason')}, at step {run.step()}", flush=True)
                self.release_if_held(run, job, "n1")
                self.finish(run, job, restarts="012", seconds=200)

    @staticmethod
    def release_if_held(run, job, node):
        """A batch host that is back takes the next start of the job for a duplicate: docs/recovery.md."""
        job.wait("the end, or to be held", lambda: run.finished() or job.field("Reason") == "launch_failed_requeued_held", 150)
        if not run.finished():
            pocket.call("scontrol", "update", f"nodename={node}", "state=resume")
            pocket.call("scontrol", "release", job.number)

    def test_three_faults_within_ten_seconds(self):
        for i in range(LONG):
            with self.subTest(i):
                run, job = self.start(f"three{i}")

                def faults():
                    self.kill_rank(run, "n2")
                    time.sleep(1.5)
                    self.kill_rank(run, "n1", signal.SIGSEGV)
                    case.CLUSTER.tool("kill", "n3")

                self.fault(run, job, "three faults", faults)
                self.finish(run, job, lost=["n3"])

    def test_a_poison_step(self):
        """Two crashes after the same step, and no spare: the next launch begins with an earlier checkpoint."""
        run, job = self.start("poison", more=["checkpoint.every=20"])
        for node in NODES:
            case.CLUSTER.tool("rate", node, "20mbit")  # a step takes long enough to act in it
        before = run.step()
        job.wait("a slow step", lambda: run.step() > before + 1, 60)
        poison = run.step()
        self.kill_rank(run, "n2", signal.SIGSEGV)
        job.wait("the second start", lambda: len(run.starts()) == 2, 60)
        seen = len(run.steps())

        def is_there():
            return run.steps()[seen:][-1:] == [poison] or run.starts()[-1]["resumed_from"] == poison

        job.wait(f"step {poison} again", is_there, 60)
        self.kill_rank(run, "n2", signal.SIGSEGV)
        for node in NODES:
            case.CLUSTER.tool("rate", node, "200mbit")
        job.wait("the third start", lambda: len(run.starts()) == 3, 60)
        print(run.events("failure"), [start.get("resumed_from") for start in run.starts()], flush=True)
        self.assertEqual([("crashed", "n2"), ("poison step", "n2")], self.losses(run))
        self.assertEqual(2, len(run.events("launch")))
        self.assertLess(run.starts()[2].get("resumed_from", 0), run.starts()[1]["resumed_from"])
        self.finish(run, job)

    def test_no_false_alarm_under_load(self):
        """For COUNT minutes: four busy processes for each processor, and one that writes to the disk all the time."""
        run, job = self.start("load", f"--time={LONG + 30}", more=["train.epochs=1000000"])
        busy = ["sh", "-c", "while :; do :; done"]
        writer = ["sh", "-c", f"while :; do dd if=/dev/zero of={case.FOLDER}/load.bin bs=1M count=256 conv=fsync 2> /dev/null; done"]
        load = [subprocess.Popen(command, start_new_session=True) for command in [busy] * 4 * os.cpu_count() + [writer]]
        try:
            end = time.monotonic() + 60 * LONG
            while time.monotonic() < end:
                time.sleep(10)
                self.assertEqual([[], []], [run.events("failure"), run.events("generation")])
        finally:
            for one in load:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
        steps = run.step()
        job.wait("steps without load", lambda: run.step() > steps, 60)
        self.assertEqual(1, len(run.starts()))
        print(f"{steps} steps in {LONG} minutes of load, no alarm", flush=True)

    def test_a_node_that_reboots(self):
        """srun ends the whole step when a node that it lost is back: the next launch has all nodes."""
        for i in range(LONG):
            with self.subTest(i):
                run, job = self.start(f"reboot{i}")
                self.fault(run, job, "a lost node", lambda: case.CLUSTER.tool("kill", "n3"))
                self.fault(run, job, "its return", lambda: case.CLUSTER.tool("restart", "n3"), 60)
                self.assertEqual([3, 2, 3], [start["ranks"] for start in run.starts()])
                self.finish(run, job)

    def test_killed_and_frozen_ranks(self):
        """At random moments: COUNT times three faults, ten times three in each run."""
        for i in range(0, LONG, 10):
            run, job = self.start(f"ranks{i}")
            for _ in range(min(10, LONG - i)):
                for node, number, what in (("n1", signal.SIGKILL, "a killed rank"), ("n2", signal.SIGSEGV, "a crashed rank"),
                                           ("n3", signal.SIGSTOP, "a frozen rank")):
                    step = run.step()
                    time.sleep(random.uniform(0, 0.5))
                    self.fault(run, job, what, lambda node=node, number=number: self.kill_rank(run, node, number))
                    job.wait("more steps", lambda step=step: run.step() > step, 60)
            self.finish(run, job)

    def test_a_lost_node(self):
        for i in range(LONG):
            node = NODES[1 + i % 2]
            with self.subTest(f"{i} {node}"):
                run, job = self.start(f"lost{i}")
                self.fault(run, job, f"the loss of {node}", lambda node=node: case.CLUSTER.tool("kill", node))
                self.assertEqual([3, 2], [start["ranks"] for start in run.starts()])
                self.finish(run, job, lost=[node])

    def test_a_killed_agent(self):
        for i in range(LONG):
            with self.subTest(i):
                run, job = self.start(f"agent{i}")
                self.fault(run, job, "a killed agent", lambda: self.kill_agent(run, "n2"))
                self.finish(run, job)


pocket.main(7200 if LONG else 280)
