# SPDX-License-Identifier: Apache-2.0
"""Ranks on nodes of their own whose cable is cut: nobody dies, nothing tells, and still both sides name whom they lost, in time.

Its argument is the program rank_program of tests/comm.
"""
import os
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

    def __init__(self, name, floats):
        self.folder = f"{FOLDER}/{name}"
        os.makedirs(self.folder)
        self.processes = [self.start(name, rank, floats) for rank in range(4)]

    def start(self, name, rank, floats):
        variables = {"DISTDL_RANK": rank, "DISTDL_WORLD_SIZE": 4, "DISTDL_RENDEZVOUS": self.folder,
                     "DISTDL_LAUNCH_ID": name}
        words = [f"{key}={value}" for key, value in variables.items()]
        with open(f"{self.folder}/out{rank}", "w") as out, open(f"{self.folder}/err{rank}", "w") as err:
            return subprocess.Popen([pocket.TOOL, "exec", f"n{rank // 2 + 1}", "env", *words, PROGRAM, "endless",
                                     str(TIMEOUT), str(floats)], stdout=out, stderr=err)

    def text(self, kind, rank):
        with open(f"{self.folder}/{kind}{rank}") as file:
            return file.read()

    def running(self):
        return all("\nrunning" in self.text("out", rank) for rank in range(4))

    def story(self):
        return "\n".join(f"rank {rank}: {self.text('out', rank)}{self.text('err', rank)}" for rank in range(4))


class Cut(unittest.TestCase):
    def lose_the_other_node(self, name, floats, *fault):
        ranks = Ranks(name, floats)
        pocket.wait_for("all ranks to run", ranks.running, 60, ranks.story)
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

    def test_short_sums(self):
        self.lose_the_other_node("short", 10, "cut", "n2")

    def test_long_sums(self):
        self.lose_the_other_node("long", 3_000_000, "cut", "n2")

    def test_one_way_in(self):
        self.lose_the_other_node("in", 100_000, "cut", "n2", "in")

    def test_one_way_out(self):
        self.lose_the_other_node("out", 100_000, "cut", "n2", "out")


pocket.main()
