# SPDX-License-Identifier: Apache-2.0
"""Ranks on nodes of their own: what they can do, and what happens when a cable is cut: nobody dies, nothing tells, and still both
sides name whom they lost, in time, and go on as the next generation.

Its argument is the program rank_program of tests/comm.
"""
import os
import re
import subprocess
import time
import unittest

import pocket

PROGRAM = pocket.DISTDL
TIMEOUT = 4
FOLDER = None
CLUSTER = None
PEER_LOST = 69  # docs/exit-codes.md


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    CLUSTER = pocket.Cluster(2, FOLDER, name="cut")


class Ranks:
    """Two ranks a node; ranks 0 and 1 on n1, 2 and 3 on n2."""

    def __init__(self, name, floats, scenario="endless", fate="", timeout=TIMEOUT):
        """`fate` is that of rank 3 behind the gate."""
        self.folder = f"{FOLDER}/{name}"
        self.gate = f"{self.folder}/gate"
        os.makedirs(self.folder)
        self.processes = [self.start(name, rank, [scenario, str(timeout), str(floats)], fate if rank == 3 else "")
                          for rank in range(4)]

    def start(self, name, rank, arguments, fate):
        variables = {"DISTDL_RANK": rank, "DISTDL_WORLD_SIZE": 4, "DISTDL_RENDEZVOUS": self.folder,
                     "DISTDL_LAUNCH_ID": name, "RANK_PROGRAM_GATE": self.gate, "RANK_PROGRAM_FATE": fate}
        words = [f"{key}={value}" for key, value in variables.items()]
        with open(f"{self.folder}/out{rank}", "w") as out, open(f"{self.folder}/err{rank}", "w") as err:
            return subprocess.Popen([pocket.TOOL, "exec", f"n{rank // 2 + 1}", "env", *words, PROGRAM, *arguments],
                                    stdout=out, stderr=err)

    def text(self, kind, rank):
        with open(f"{self.folder}/{kind}{rank}") as file:
            return file.read()

    def all_said(self, word):
        return all(f"\n{word}" in "\n" + self.text("out", rank) for rank in range(4))

    def story(self):
        return "\n".join(f"rank {rank}: {self.text('out', rank)}{self.text('err', rank)}" for rank in range(4))


class Cut(unittest.TestCase):
    def lose_the_other_node(self, name, floats, *fault):
        ranks = Ranks(name, floats)
        pocket.wait_for("all ranks to run", lambda: ranks.all_said("running"), 60, ranks.story)
        CLUSTER.tool(*fault)
        self.addCleanup(CLUSTER.tool, "mend", "n2")
        began = time.monotonic()
        pocket.wait_for("all ranks to end", lambda: all(p.poll() is not None for p in ranks.processes), TIMEOUT + 10,
                        ranks.story)
        print(f"{name}: all ended after {time.monotonic() - began:.2f} s")
        self.assertLess(time.monotonic() - began, TIMEOUT + 1.5, ranks.story())  # with the end of the processes
        for rank, process in enumerate(ranks.processes):
            self.assertEqual(PEER_LOST, process.returncode, ranks.story())
            others = (2, 3) if rank < 2 else (0, 1)
            self.assertTrue(any(f"rank {other} (n{other // 2 + 1})" in ranks.text("err", rank) for other in others),
                            ranks.story())
            self.assertEqual(1, ranks.text("err", rank).count("\n"), ranks.story())  # nothing from UCX

    def test_short_sums(self):
        self.lose_the_other_node("short", 10, "cut", "n2")

    def test_long_sums(self):
        self.lose_the_other_node("long", 3_000_000, "cut", "n2")

    def test_one_way_in(self):
        self.lose_the_other_node("in", 100_000, "cut", "n2", "in")

    def test_one_way_out(self):
        self.lose_the_other_node("out", 100_000, "cut", "n2", "out")


class OneSided(unittest.TestCase):
    def test_put_get_and_messages_between_nodes(self):
        """Nothing is lost here, so no deadline is short. The cable of NextGeneration, the test before, has just come back: the kernel
        refuses the first connection, and the ranks must try again."""
        for floats in (1, 1000, 300_000):
            ranks = Ranks(f"one-sided-{floats}", floats, "one_sided", timeout=60)
            self.assertEqual([0] * 4, [process.wait(120) for process in ranks.processes], ranks.story())
            self.assertTrue(ranks.all_said("one-sided done"), ranks.story())


class Handshake(unittest.TestCase):
    """What goes wrong when all have everyone's address, before any two have said hello."""

    def lose(self, name, expected, fault=(), fate=""):
        """`expected`: whom each rank may name; of those it must name one."""
        ranks = Ranks(name, 10, "gate", fate)
        pocket.wait_for("the addresses", lambda: ranks.all_said("exchanged"), 60, ranks.story)
        if fault:
            CLUSTER.tool(*fault)
            self.addCleanup(CLUSTER.tool, "mend", "n2")
        began = time.monotonic()
        with open(ranks.gate, "w"):
            pass
        for rank, others in expected.items():
            code = ranks.processes[rank].wait(TIMEOUT + 10)
            self.assertLess(time.monotonic() - began, TIMEOUT + 1.5, ranks.story())
            self.assertEqual(PEER_LOST, code, ranks.story())
            self.assertTrue(any(f"rank {other} (n{other // 2 + 1})" in ranks.text("err", rank) for other in others),
                            ranks.story())
        print(f"{name}: known after {time.monotonic() - began:.2f} s")
        for process in ranks.processes:  # the frozen one
            process.kill()
            process.wait(10)

    def test_a_rank_dies(self):
        self.lose("handshake-dead", {0: [3], 1: [3], 2: [3]}, fate="kill")

    def test_a_rank_freezes(self):
        self.lose("handshake-frozen", {0: [3], 1: [3], 2: [3]}, fate="freeze")

    def test_the_cable_is_cut(self):
        self.lose("handshake-cut", {0: [2, 3], 1: [2, 3], 2: [0, 1], 3: [0, 1]}, fault=("cut", "n2"))


class NextGeneration(unittest.TestCase):
    """In a job of a real Slurm step, whose ranks met through PMIx."""

    def test_both_sides_of_a_cut_cable_go_on(self):
        folder = f"{FOLDER}/next"
        os.makedirs(folder)
        script = (f'export RANK_PROGRAM_NEXT={folder}/meet-$SLURM_NODEID; exec {PROGRAM} survive {TIMEOUT} 100000 '
                  f'>{folder}/out$SLURM_PROCID 2>{folder}/err$SLURM_PROCID')
        step = subprocess.Popen(["srun", "--mpi=pmix", "--nodes=2", "--ntasks-per-node=2", "--no-kill", "--kill-on-bad-exit=0",
                                 "--wait=0", "sh", "-c", script], stderr=subprocess.PIPE, text=True)
        self.addCleanup(step.communicate, timeout=60)
        self.addCleanup(step.kill)

        def text(kind, rank):
            path = f"{folder}/{kind}{rank}"
            if not os.path.exists(path):
                return ""
            with open(path) as file:
                return file.read()

        def story():
            return "\n".join(f"rank {rank}: {text('out', rank)}{text('err', rank)}" for rank in range(4))

        def all_said(word):
            return all(f"\n{word}" in "\n" + text("out", rank) for rank in range(4))

        pocket.wait_for("all ranks to run", lambda: all_said("running"), 60, story)
        CLUSTER.tool("cut", "n2")
        began = time.monotonic()
        self.addCleanup(CLUSTER.tool, "mend", "n2")
        pocket.wait_for("all ranks to know", lambda: all_said("lost"), TIMEOUT + 1.5, story)
        print(f"known after {time.monotonic() - began:.2f} s")
        pocket.wait_for("the next generation", lambda: all_said("next generation of 2: sum 3\n"), 10, story)
        for rank in range(4):
            lost = set(map(int, re.search(r"^lost \[([\d, ]+)\]", text("out", rank), re.MULTILINE)[1].split(", ")))
            self.assertTrue(lost and lost <= ({2, 3} if rank < 2 else {0, 1}), story())
            self.assertEqual("", text("err", rank), story())  # nor is anything left behind in the process
        for node in ("n1", "n2"):
            segments = pocket.call(pocket.TOOL, "exec", node, "ls", "/dev/shm")
            self.assertNotRegex(segments, r"distdl-\d+-\d")  # of a job; those of ranks that were killed are swept later


pocket.main()
