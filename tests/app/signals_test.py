# SPDX-License-Identifier: Apache-2.0
"""Asked to stop: saved, code 75, and the same command goes on to the same bytes."""
import os
import pty
import random
import signal
import subprocess
import time
import unittest

from program import DISTDL, ENDLESS, SLOW, ProgramTest, wait_until

JOB = [*SLOW, "--set", "train.epochs=12"]


class Signals(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def test_each_stop_signal_saves_and_the_run_goes_on(self):
        self.succeed(*self.run_local(3, *JOB, "--set", "run.dir=whole"))
        for ranks, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGUSR1), start=1):
            run = self.start(*self.run_local(ranks, *JOB))
            seen = len(self.rows("metrics.jsonl"))
            wait_until(lambda: len(self.rows("metrics.jsonl")) > seen, "a step")
            run.send_signal(number)
            code, out, err = self.finish(run, 20)
            self.assertEqual(code, 75, err)
            self.assertEqual(out, "")
            self.assertIn("run the same command again", err)
            self.verify()
        self.succeed(*self.run_local(2, *JOB))
        self.assertEqual(self.digest(), self.digest("whole"))
        events = [row["event"] for row in self.rows("journal.jsonl")]
        self.assertEqual((events.count("started"), events.count("stopped"), events.count("finished")), (4, 3, 1))
        steps = [row["step"] for row in self.rows("metrics.jsonl") if "loss" in row]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))  # none skipped, none twice

    def test_any_signal_to_any_process_leads_to_one_save(self):
        everyone = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2]
        for number, *to in ((signal.SIGTERM, 1), (signal.SIGUSR2, 2), (signal.SIGINT, 3), (signal.SIGUSR1, 1, 2, 3),
                            (signal.SIGHUP, 0), (everyone, 0, 1, 2, 3)):
            run = self.start(*self.run_local(3, *ENDLESS))
            seen = len(self.rows("metrics.jsonl"))
            wait_until(lambda: len(self.rows("metrics.jsonl")) > seen, "a step")
            processes = [run.pid, *self.ranks_of(run)]
            for each, signals in zip(to, number if isinstance(number, list) else [number] * 4):
                os.kill(processes[each], signals)
            code, _, err = self.finish(run, 20)
            self.assertEqual(code, 75, f"{number} to {to}: {err}")
            self.assertNotIn("error", err)
            self.verify()
        rows = self.rows("journal.jsonl")
        stops = [row for row in rows if row["event"] == "stopped"]
        self.assertEqual(6, len(stops), "one save for each stop")
        self.assertEqual([row["step"] for row in stops[:-1]],
                         [row["resumed_from"] for row in rows if row["event"] == "started" and "resumed_from" in row])
        steps = [row["step"] for row in self.rows("metrics.jsonl") if "loss" in row]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_signals_at_any_moment_from_the_start_on(self):
        draw = random.Random(5)
        for _ in range(6):
            run = self.start(*self.run_local(2, *ENDLESS))
            wait_until(lambda: self.listens(run.pid), "the supervisor to take signals")
            time.sleep(draw.uniform(0, 0.8))
            for _ in range(draw.randint(1, 4)):
                target = draw.choice([run.pid, run.pid, *self.children_of(run)])
                try:
                    os.kill(target, draw.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT]))
                except ProcessLookupError:
                    pass  # it has saved and ended
            code, _, err = self.finish(run, 30)
            self.assertIn(code, (75, 128 + signal.SIGKILL) if "second SIGINT" in err else (75,), err)
        if self.rows("journal.jsonl"):
            self.succeed(*self.run_local(2, *SLOW))

    @staticmethod
    def listens(pid):
        """Whether the main thread has SIGTERM blocked, for it reads signals from a descriptor."""
        with open(f"/proc/{pid}/status") as file:
            blocked = next(line.split()[1] for line in file if line.startswith("SigBlk:"))
        return int(blocked, 16) >> (signal.SIGTERM - 1) & 1

    @staticmethod
    def children_of(run):
        try:
            with open(f"/proc/{run.pid}/task/{run.pid}/children") as file:
                return list(map(int, file.read().split()))
        except FileNotFoundError:
            return []

    def test_ctrl_c_on_a_terminal(self):
        """The terminal sends SIGINT to the supervisor and to all its ranks."""
        run = self.start(*self.run_local(2, *ENDLESS), start_new_session=True)
        self.wait_for_checkpoint()
        os.killpg(run.pid, signal.SIGINT)
        code, _, err = self.finish(run, 20)
        self.assertEqual(code, 75, err)
        self.assertNotIn("error", err)
        self.assertIn("stopped with everything saved; run the same command again to continue", err)
        done = self.rows("metrics.jsonl")[-1]["step"]
        saved = [row["step"] for row in self.rows("journal.jsonl") if row["event"] == "stopped"]
        self.assertEqual(saved, [done], "the last step done is saved")
        self.verify()

    def test_a_second_ctrl_c_ends_at_once(self):
        run = self.start(*self.run_local(2, *ENDLESS))
        self.wait_for_checkpoint()
        for rank in self.ranks_of(run):
            os.kill(rank, signal.SIGSTOP)  # they cannot save now
        run.send_signal(signal.SIGINT)
        wait_until(lambda: "asking the ranks to save" in run.stderr_file.read_text(), "the first one's effect")
        started = time.monotonic()
        run.send_signal(signal.SIGINT)
        code, _, err = self.finish(run, 5)
        self.assertLess(time.monotonic() - started, 2)
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.verify()


class Start(ProgramTest):
    def test_a_signal_while_slurm_is_asked_who_has_the_folder(self):
        self.make_set()
        (self.folder / "run").mkdir()
        (self.folder / "run" / "LOCK").write_text(
            "host=elsewhere\nboot=b\npid_space=p\npid=1\nstarted=1\ncluster=c\njob=5\nrestart=0\nsince=1\nnonce=n\n")
        for name, text in (("scontrol", "[ $3 != 6 ] || exec echo JobId=6 JobState=RUNNING NumNodes=1\n"
                            "touch asked; while [ ! -e go ]; do sleep 0.05; done; echo JobId=5 JobState=CANCELLED"),
                           ("srun", "touch launched")):
            (self.folder / name).write_text(f"#!/bin/sh\ncd {self.folder}\n{text}\n")
            (self.folder / name).chmod(0o755)
        run = self.start("run", "job.toml", "--set", "run.requeue=false",
                         variables={"PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "6",
                                    "SLURM_CLUSTER_NAME": "c", "SLURM_JOB_END_TIME": "1900000000"})
        wait_until((self.folder / "asked").exists, "the question")
        run.send_signal(signal.SIGTERM)
        (self.folder / "go").touch()
        code, _, err = self.finish(run, 20)
        self.assertEqual(code, 75, err)
        self.assertIn("stopped; there is no checkpoint yet", err)
        self.assertFalse((self.folder / "launched").exists())


class Terminal(ProgramTest):
    def test_a_bar_on_a_terminal_and_plain_lines_in_a_pipe(self):
        self.make_set()
        leader, follower = pty.openpty()
        run = subprocess.Popen([DISTDL, *self.run_local(2)], cwd=self.folder, stdin=follower, stdout=follower,
                               stderr=follower)
        os.close(follower)
        screen = b""
        try:
            while chunk := os.read(leader, 65536):
                screen += chunk
        except OSError:  # all ends of the terminal are closed
            pass
        os.close(leader)
        self.assertEqual(run.wait(), 0)
        self.assertIn("·".encode(), screen)
        self.assertIn(b"\r\x1b[K\x1b[36m", screen)
        self.assertIn(b"\x1b[0m", screen)
        self.assertIn(b"accuracy", screen)
        code, out, err = self.distdl(*self.run_local(2, "--set", "run.dir=piped"))
        self.assertEqual(code, 0, err)
        self.assertNotIn("\x1b", out + err)
        self.assertNotIn("\r", out + err)
        self.assertIn("step 1/", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
