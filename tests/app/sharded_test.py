# SPDX-License-Identifier: Apache-2.0
"""Ranks that hold a part of the state or of the model each, on several hosts: here a host is a host name."""
import os
import resource
import subprocess
import sys
import unittest

from program import DISTDL, PATIENCE, SLOW, ProgramTest, wait_until

HOST = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"']
JOB = [*SLOW, "--set", "train.epochs=30", "--set", "optim.name=adamw", "--set", "optim.ema_decay=0.9", "--set", "checkpoint.every=0"]


class Sharded(ProgramTest):
    launches = 0

    def start_on(self, hosts, *more):
        """A rank on each of the hosts."""
        self.launches += 1
        where = {"DISTDL_WORLD_SIZE": str(len(hosts)), "DISTDL_RENDEZVOUS": str(self.folder / "rendezvous"),
                 "DISTDL_LAUNCH_ID": f"{os.getpid()}-{self.launches}", "XDG_STATE_HOME": str(self.folder / "state")}
        ranks = []
        for rank, host in enumerate(hosts):
            with open(self.folder / f"said{self.launches}-{rank}", "wb") as said:
                ranks.append(subprocess.Popen([*HOST, host, DISTDL, "worker", "job.toml", *JOB, *more], cwd=self.folder, stdout=said,
                                              stderr=said, env={**os.environ, **where, "DISTDL_RANK": str(rank)}))
            self.addCleanup(self.end, ranks[-1])
        return ranks

    def finish_on(self, hosts, *more):
        codes = [rank.wait(PATIENCE) for rank in self.start_on(hosts, *more)]
        said = "".join(file.read_text() for file in self.folder.glob(f"said{self.launches}-*"))
        self.assertEqual(codes, [0] * len(hosts), said)
        return said

    def test_killed_ranks_and_other_hosts_change_no_byte(self):
        self.make_set()
        self.finish_on("a", "--set", "run.dir=whole")
        sharded = ["--set", "parallel.strategy=sharded", "--set", "checkpoint.memory_every=3", "--set", "checkpoint.partner_every=3"]
        ranks = self.start_on("aabb", *sharded)
        wait_until(lambda: any(row["event"] == "snapshot" for row in self.rows("journal.jsonl")), "a snapshot")
        for rank in ranks[2:]:
            rank.kill()
        self.assertEqual([rank.wait(PATIENCE) for rank in ranks], [69, 69, -9, -9])
        self.assertIn("resuming from step", self.finish_on("acc", *sharded))
        self.assertEqual(self.digest(), self.digest("whole"))
        self.finish_on("ab", *sharded, "--set", "run.dir=unbroken", "--set", "optim.name=lamb")
        self.finish_on("a", "--set", "run.dir=lamb", "--set", "optim.name=lamb")
        self.assertEqual(self.digest("unbroken"), self.digest("lamb"))

    def test_auto_chooses_again_for_the_hosts_that_there_are(self):
        self.make_set()
        auto = ["--set", "parallel.strategy=auto", "--set", "checkpoint.memory_every=3", "--set", "checkpoint.partner_every=3",
                "--set", "parallel.microbatches=2", "--set", "parallel.microbatch_size=12"]
        self.finish_on("a", *auto, "--set", "run.dir=whole")
        ranks = self.start_on("aabb", *auto)
        wait_until(lambda: any(row["event"] == "snapshot" for row in self.rows("journal.jsonl")), "a snapshot")
        for rank in ranks[2:]:
            rank.kill()
        self.assertEqual([rank.wait(PATIENCE) for rank in ranks], [69, 69, -9, -9])
        self.assertIn("resuming from step", self.finish_on("acc", *auto))
        products = [(row["ranks"], row["product"]) for row in self.rows("journal.jsonl") if row["event"] == "product"]
        self.assertEqual(products, [(4, "2x2x1 replicas"), (3, "1x3x1 replicas")])  # for there are two microbatches
        self.assertEqual(self.digest(), self.digest("whole"))
        self.assertIn("1x3x1 replicas fits", self.succeed("status", "run", "--verbose"))

    def test_pipelines_go_on_with_the_hosts_that_there_are(self):
        self.make_set()
        self.finish_on("a", "--set", "run.dir=whole")
        stages = ["--set", "parallel.pipeline_ranks=2", "--set", "checkpoint.memory_every=3", "--set", "checkpoint.partner_every=3"]
        ranks = self.start_on("aabb", *stages)
        wait_until(lambda: any(row["event"] == "snapshot" for row in self.rows("journal.jsonl")), "a snapshot")
        for rank in ranks[2:]:
            rank.kill()
        self.assertEqual([rank.wait(PATIENCE) for rank in ranks], [69, 69, -9, -9])
        said = self.finish_on("acc", *stages)
        self.assertIn("resuming from step", said)
        self.assertIn("not of parallel.pipeline_ranks = 2, because 3 ranks do not divide into pipelines of 2", said)
        self.assertEqual(self.digest(), self.digest("whole"))

    def test_a_rank_whose_addresses_do_not_suffice_is_refused_before_it_takes_them(self):
        """`bench/sharded_memory --limit` shows that four ranks train such a model."""
        (self.folder / "text").write_bytes(bytes(97 + i * i % 23 for i in range(4000)))
        self.succeed("data", "import", "text", "text", "text.h5")
        gpt = {"data.train": "text.h5", "data.holdout": 65, "model.name": "gpt", "model.layers": 12, "model.width": 768, "model.heads": 12,
               "model.context": 32, "optim.name": "adamw", "parallel.microbatch_size": 2}  # 1.3 GiB of parameters, gradients and moments
        limit = 1200 << 20
        run = self.start(*self.run_local(1, *(word for key, value in gpt.items() for word in ("--set", f"{key}={value}"))),
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        code, _, err = self.finish(run)
        self.assertEqual(code, 78, err)
        self.assertIn('RLIMIT_AS, "ulimit -v"', err)
        self.assertIn('parallel.strategy = "sharded" on several ranks', err)


if __name__ == "__main__":
    if subprocess.run([*HOST, "a", "true"], capture_output=True).returncode != 0:
        print("a host name of its own needs the right to make namespaces")
        sys.exit(77)
    unittest.main(verbosity=2)
