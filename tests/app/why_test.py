# SPDX-License-Identifier: Apache-2.0
"""distdl why: what each rank is at, who waits for whom, and where the rank is that all wait for."""
import json
import os
import re
import signal
import socket
import unittest

from program import ENDLESS, PATIENCE, ProgramTest, wait_until

# And no more of the data set in memory than must be.
PATIENT = ["--set", "comm.timeout_seconds=600", "--set", "data.cache_mib=1"]


class Why(ProgramTest):
    def setUp(self):
        super().setUp()
        self.succeed("data", "make", "shapes", "set.h5", "--samples", "20000", "--size", "12")

    def running(self, ranks, *more, variables=None):
        run = self.start(*self.run_local(ranks, *ENDLESS, *PATIENT, *more), variables=variables)
        self.wait_for_checkpoint()
        return run

    def why(self):
        found = json.loads(self.succeed("why", "run", "--json"))
        self.assertFalse((self.folder / "run/why").exists(), "the question is left behind")
        return found

    def chain(self, text):
        """Waits until both other ranks wait for one, in these words."""
        def stuck():
            chain = self.why()["chains"][0]
            return chain if chain["waiting"] == 2 and re.search(text, chain["text"]) else None
        return wait_until(stuck, f"a chain that matches {text}")

    def test_a_run_that_trains(self):
        self.running(3)
        found = self.why()
        self.assertEqual(found["state"], "training")
        self.assertEqual([rank["rank"] for rank in found["nodes"][0]["ranks"]], [0, 1, 2])
        threads = [rank["threads"] for rank in found["nodes"][0]["ranks"]]
        self.assertEqual({one[0]["name"] for one in threads}, {"train"})
        self.assertTrue(all(one[0]["step"] >= 10 for one in threads), threads)
        self.assertTrue(all({"reader", "writer"} <= {thread["name"] for thread in one} for one in threads), threads)
        text = self.succeed("why")
        self.assertIn("rank  node", text)
        self.assertRegex(text, r"\nrank \d .*(is in|waits in) ")

    def test_a_rank_that_is_stopped(self):
        run = self.start(*self.run_local(3, *ENDLESS, *PATIENT, "--set", "run.rank_frozen_seconds=600",
                                          "--set", "checkpoint.every=0"))  # else it may wait in a save
        wait_until(lambda: len(self.rows("metrics.jsonl")) > 3, "some steps")
        os.kill(self.ranks_of(run)[1], signal.SIGSTOP)
        chain = self.chain(r"rank \d waits in .* for rank 1, which is frozen \(stopped by a signal, state T\), in ")
        self.assertEqual((chain["ranks"][-1], chain["end"]), (1, "stopped"))
        text = self.succeed("why", "run")
        self.assertRegex(text, r"(?m)^    1 .* frozen \(stopped by a signal, state T\)$")
        self.assertRegex(text, r"(?m)^    [02] .* for rank \d in all-reduce \d+ of \d+ bytes, [\d.]+ s$")
        os.kill(self.ranks_of(run)[1], signal.SIGCONT)
        before = self.rows("metrics.jsonl")[-1]["step"]
        wait_until(lambda: self.rows("metrics.jsonl")[-1]["step"] > before + 10, "that the run goes on")

    def test_a_rank_asleep_in_its_data_reader(self):
        run = self.running(3, variables={"LD_PRELOAD": os.environ["HANG_IN_READ_LIBRARY"]})
        hang = self.folder / f"hang-{socket.gethostname()}-{self.ranks_of(run)[2]}"
        hang.write_text("")
        chain = self.chain(r"for rank 2, which is in data at step \d+ for .*; its reader is in read for ")
        self.assertEqual((chain["ranks"][-1], chain["end"]), (2, "busy"))
        text = self.succeed("why", "run")
        self.assertIn('rank 2, thread "reader" in read:', text)
        self.assertRegex(text, r"#\d+ +pread \(libhang_in_read.so\)")
        self.assertIn("distdl::data::Prefetcher::", text.partition('thread "reader" in read:')[2])  # run(), unless it is inlined
        hang.unlink()
        before = self.rows("metrics.jsonl")[-1]["step"]
        wait_until(lambda: self.rows("metrics.jsonl")[-1]["step"] > before + 10, "that the run goes on")
        run.terminate()
        self.assertEqual(self.finish(run)[0], 75)

    def test_a_rank_that_makes_no_progress_is_ended(self):
        run = self.running(3, "--set", "run.stalled_seconds=3", "--set", "run.relaunches=1",
                           variables={"LD_PRELOAD": os.environ["HANG_IN_READ_LIBRARY"]})
        (self.folder / f"hang-{socket.gethostname()}-{self.ranks_of(run)[2]}").write_text("")

        def events(name):
            return [row for row in self.rows("journal.jsonl") if row["event"] == name]

        wait_until(lambda: len(events("started")) == 2, "a second start")
        ended, = events("launch_ended")
        self.assertEqual(ended["code"], 137)
        self.assertRegex(ended["cause"], r'^rank 2 made no progress for [\d.]+ s in (read|data)( at step \d+)?, reading "set.h5"')
        self.assertRegex((self.folder / f"run/logs/{socket.gethostname()}.log").read_text(), r"rank 2, thread .*: #\d+ pread ")
        run.terminate()
        self.assertEqual(self.finish(run)[0], 75)

    def test_a_stop_ends_a_rank_that_waits_for_samples(self):
        """Its reader hangs, and all others wait for it: nothing can be saved, and the next start resumes from what is."""
        run = self.running(3, "--set", "run.stalled_stop_seconds=1", variables={"LD_PRELOAD": os.environ["HANG_IN_READ_LIBRARY"]})
        hang = self.folder / f"hang-{socket.gethostname()}-{self.ranks_of(run)[2]}"
        hang.write_text("")
        self.chain(r"for rank 2, which is in data at step \d+ for .*; its reader is in read for ")
        run.terminate()
        code, _, err = self.finish(run)
        self.assertEqual(code, 75, err)
        self.assertRegex(err, r'rank 2 made no progress for [\d.]+ s in (read|data)( at step \d+)?, reading "set.h5".*: it is ended')
        self.assertRegex(err, r"stopped; the newest checkpoint is that of step \d+0")
        self.verify()
        run = self.start(*self.run_local(3, *ENDLESS))
        wait_until(lambda: self.rows("metrics.jsonl")[-1]["time"] > self.rows("journal.jsonl")[-1]["time"], "a step of the next start")
        self.assertGreater([row for row in self.rows("journal.jsonl") if row["event"] == "started"][-1]["resumed_from"], 0)

    def test_nobody_answers(self):
        run = self.running(2)
        run.send_signal(signal.SIGSTOP)
        code, out, _ = self.distdl("why", "run", "--timeout", "2")
        self.assertEqual(code, 69, out)
        self.assertRegex(out, rf'nobody has answered for 2\.\d s: "distdl run" is process {run.pid} on \S+, '
                              r"which is frozen \(stopped by a signal, state T\)")
        run.send_signal(signal.SIGCONT)
        self.assertEqual(len(self.why()["nodes"]), 1)

    def test_ranks_of_a_job_without_agents(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin/srun").write_text("#!/bin/sh\nexec sleep 600\n")
        (self.folder / "bin/srun").chmod(0o755)
        self.start("run", "job.toml", "--set", "run.recovery=relaunch", variables={
            "PATH": f"{self.folder}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "1900000000"})
        wait_until(lambda: any(row["event"] == "launch" for row in self.rows("journal.jsonl")), "a launch")
        text = self.succeed("why", "run", "--timeout", str(PATIENCE))
        self.assertIn('what the ranks are at cannot be seen, because no agents watch them (run.recovery = "relaunch")', text)
        self.assertIn('"distdl status" and "distdl log" tell how far they are', text)
        self.assertNotIn("rank  node", text)

    def test_no_run_and_a_run_that_has_ended(self):
        self.fails(3, ["nowhere"], "why", "nowhere")
        self.succeed(*self.run_local(1, "--set", "train.epochs=1"))
        self.fails(64, ["is finished", "it has no ranks"], "why", "run")


if __name__ == "__main__":
    unittest.main(verbosity=2)
