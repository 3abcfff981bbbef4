# SPDX-License-Identifier: Apache-2.0
"""Consoles that take nothing, results that nobody gets, limits of the process: training goes on, results fail."""
import fcntl
import os
import pathlib
import pty
import re
import resource
import select
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from program import DISTDL, ENDLESS, PATIENCE, ProgramTest, error_lines, signal, wait_until


class Console(ProgramTest):
    def shell(self, redirection, *words):
        """Exit code and stderr of distdl with this redirection."""
        done = subprocess.run(["bash", "-c", f'set -o pipefail; "$0" "$@" {redirection}', DISTDL, *words], cwd=self.folder,
                              capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    def test_training_does_not_need_its_console(self):
        self.make_set()
        job = self.run_local(2, "--set", "train.epochs=1")
        for number, redirection in enumerate((">/dev/full 2>/dev/full", "<&- >&- 2>&-", "2>&1 | true")):
            with self.subTest(redirection=redirection):
                code, err = self.shell(redirection, *job, "--set", f"run.dir=run{number}")
                self.assertEqual(code, 0, err)
                self.verify(f"run{number}")
                self.assertEqual((self.folder / f"run{number}" / "result.json").exists(), True)

    def test_nor_one_that_stands_still(self):
        """A terminal that was stopped, a pager that waits."""
        self.make_set()
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while os.write(write, b"x" * 4096):
                pass
        except BlockingIOError:
            os.set_blocking(write, True)
        run = subprocess.Popen([DISTDL, *self.run_local(2)], cwd=self.folder, stdout=write, stderr=write)
        self.addCleanup(self.end, run)
        os.close(write)
        self.assertEqual(run.wait(PATIENCE), 0)
        os.close(read)

    def test_a_result_that_nobody_gets_is_a_failure(self):
        self.make_set()
        self.succeed(*self.run_local(2, "--set", "train.epochs=1"))
        for words in (["checkpoint", "ls", "run"], ["checkpoint", "show", "run", "--json"], ["data", "info", "set.h5"],
                      ["config", "--defaults"], ["--help"], ["help", "run"], ["version"], self.run_local(2, "--json")):
            with self.subTest(words=words):
                code, err = self.shell(">/dev/full", *words)
                self.assertEqual(code, 74, err)
                self.assertIn("No space left", self.says_once(["stdout"], err))
        code, err = self.shell(">&-", "checkpoint", "ls", "run")
        self.assertEqual(code, 74, err)
        read, write = os.pipe()
        os.close(read)
        run = subprocess.run([DISTDL, "config", "--defaults"], cwd=self.folder, stdout=write, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        os.close(write)
        self.assertEqual((run.returncode, run.stderr), (0, b""))  # the reader has what it wanted


class Terminal(ProgramTest):
    """What a person sees in a terminal of 80 columns."""
    CLEAR = "\r\033[K"

    def setUp(self):
        super().setUp()
        self.make_set()

    def in_terminal(self, *words, act=lambda shown, leader: True, **variables):
        """Exit code and all that was shown. `act` is called with what was shown so far until it returns true."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **variables}
        run = subprocess.Popen(["setsid", "--ctty", "--wait", DISTDL, *words], cwd=self.folder, stdin=follower, stdout=follower, stderr=follower,
                               start_new_session=True, env=environment)
        self.addCleanup(self.end, run)
        os.close(follower)
        shown, done = b"", False
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if select.select([leader], [], [], 0.1)[0]:
                try:
                    shown += os.read(leader, 65536)
                except OSError:  # the last process has closed it
                    break
            done = done or act(shown.decode(errors="ignore"), leader)
        os.close(leader)
        return run.wait(PATIENCE), shown.decode()

    def test_help_and_errors_fit_on_the_screen(self):
        for words, code in ((["--help"], 0), (["help", "run"], 0), (["run", "--local", "job.toml", "--set", "train.lr=1"], 78),
                            (["status", "no-such-run"], 3)):
            with self.subTest(words=words):
                ended, shown = self.in_terminal(*words, DISTDL_PAGER="cat")
                self.assertEqual(ended, code, shown)
                lines = shown.replace(self.CLEAR, "").replace("\r", "").splitlines()
                self.assertGreater(len(lines), 1)
                longest = max((line for line in lines if "://" not in line), key=len)
                self.assertLessEqual(len(longest), 80, longest)

    def lines(self, shown):
        """The lines that stay."""
        return [line.split(self.CLEAR)[-1] for line in shown.replace("\r\n", "\n").split("\n")]

    def test_ctrl_c_does_not_mix_its_message_with_the_bar(self):
        def press(shown, leader):
            return shown.count("%  step ") > 3 and os.write(leader, b"\x03") == 1
        code, shown = self.in_terminal(*self.run_local(2, *ENDLESS), act=press)
        self.assertEqual(code, 75, shown)
        self.assertIn("\033[36m··", shown)
        lines = self.lines(shown)
        self.assertTrue(any("stopped at step" in line for line in lines), lines)
        for line in lines:
            self.assertNotIn("%  step ", line)
            self.assertNotIn("^C", line)
        self.assertRegex(shown, r" 0%  step \d+/\d+  \d+ s, [\d:]+ (s|min|h) left")
        for status in re.findall(r"\r\033\[K([^\r\n]*%  step [^\r\n]*)", shown):
            self.assertLess(len(re.sub(r"\033\[\d*m|\^C", "", status)), 80)

    def test_colours_and_bar_are_as_the_environment_says(self):
        job = self.run_local(1, "--set", "train.epochs=1")
        code, shown = self.in_terminal(*job, NO_COLOR="1", LC_ALL="C")
        self.assertEqual(code, 0, shown)
        self.assertNotIn("\033[3", shown)
        self.assertIn(self.CLEAR, shown)
        self.assertRegex(shown, r"#*\.+ +\d+%  step")
        code, shown = self.in_terminal(*job, "--set", "run.dir=dumb", TERM="dumb")
        self.assertEqual(code, 0, shown)
        self.assertNotIn("\033", shown)
        self.assertNotIn("\033", self.in_terminal("doctor", "--json", NO_COLOR="1")[1] + self.in_terminal("doctor", TERM="dumb")[1])

    def test_a_result_takes_the_place_of_the_progress(self):
        code, shown = self.in_terminal("data", "make", "shapes", "more.h5", "--samples", "30000")  # longer than a second where it is not fast
        self.assertEqual(code, 0, shown)
        self.assertTrue(any(line.startswith("more.h5: 30000 images") for line in self.lines(shown)), shown)

    def test_an_interrupt_takes_the_place_of_the_progress_and_leaves_no_file(self):
        def press(shown, leader):
            return "making more.h5" in shown and os.write(leader, b"\x03") == 1
        code, shown = self.in_terminal("data", "make", "shapes", "more.h5", "--samples", "10000000", act=press)
        self.assertNotEqual(code, 0, shown)
        lines = [line for line in self.lines(shown) if line and not line.startswith("setsid: ")]  # which tells how it ended
        self.assertEqual(lines, ["distdl: interrupted; unfinished files are removed"], shown)
        self.assertEqual([each.name for each in self.folder.iterdir() if "more" in each.name], [])

    def test_an_import_tells_how_far_it_is_and_how_long_it_will_take(self):
        with open(self.folder / "text", "wb") as file:
            file.truncate(1 << 36)  # takes no space, and is all zeros

        def press(shown, leader):
            return " left  importing text" in shown and os.write(leader, b"\x03") == 1
        _, shown = self.in_terminal("data", "import", "text", "text", "text.h5", act=press)
        self.assertRegex(shown, r" \d+%  \d+ s, [\d:]+ \w+ left  importing text")

    def test_a_forecast_of_many_ranks_tells_how_far_it_is(self):
        """On a terminal, unless its output is for programs."""
        (self.folder / "text").write_bytes(bytes(97 + i * i % 23 for i in range(4000)))
        self.succeed("data", "import", "text", "text", "text.h5")
        long = ["plan", "job.toml", "--nodes", "4096"]  # minutes on any processor; an interrupt ends it
        for setting in ("data.train=text.h5", "model.name=gpt", "model.layers=1000", "model.heads=16", "model.width=64", "model.context=16",
                        "parallel.tensor_shards=8", "parallel.microbatches=4096", "parallel.microbatch_size=1"):
            long += ["--set", setting]
        for words, is_shown in (([], True), (["--json"], False), (["--quiet"], False)):
            begun = time.monotonic()

            def press(shown, leader, begun=begun, is_shown=is_shown):
                enough = "forecasting " in shown if is_shown else time.monotonic() > begun + 3
                return enough and os.write(leader, b"\x03") == 1
            _, shown = self.in_terminal(*long, *words, act=press, XDG_CACHE_HOME=str(self.folder / "cache"))
            self.assertEqual("forecasting " in shown, is_shown, shown)
            if is_shown:
                self.assertRegex(shown, r"\d+%  \d+ s.*  forecasting \d+x\d+x\d+ ")

    def test_long_text_goes_through_a_pager(self):
        pager = {"DISTDL_PAGER": "cat > paged", "PAGER": "false"}
        code, shown = self.in_terminal("help", **pager)
        self.assertEqual((code, shown), (0, ""))
        self.assertEqual((self.folder / "paged").read_text().split(), self.succeed("help").split())  # broken to the width
        (self.folder / "paged").unlink()
        self.assertEqual(self.in_terminal("version", **pager)[1].replace("\r", ""), self.succeed("version"))  # fits on the screen
        everything = self.succeed("config", "--reference", variables=pager)
        self.assertFalse((self.folder / "paged").exists())  # no terminal
        self.assertEqual(self.in_terminal("config", "--reference", PAGER="head -n 1 > paged"), (0, ""))  # it may stop reading
        self.assertEqual((self.folder / "paged").read_text(), everything.split("\n")[0] + "\n")
        (self.folder / "paged").unlink()
        for none in ({"DISTDL_PAGER": "cat", "PAGER": "cat > paged"}, {"PAGER": "cat"}, {"PAGER": "no-such-program 2> errors"}, {"PAGER": "/dev/null 2> errors"},
                     {"TERM": "dumb", **pager}):
            with self.subTest(none):
                self.assertEqual(self.in_terminal("config", "--reference", **none)[1].replace("\r", ""), everything)
                self.assertFalse((self.folder / "paged").exists())

    def test_quiet_and_verbose(self):
        job = self.run_local(2, "--set", "train.epochs=1", "--set", "checkpoint.every=1000")
        code, out, err = self.distdl(*job, "--quiet")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("accuracy", out)
        _, _, err = self.distdl(*job, "--set", "run.dir=normal")
        self.assertIn("starting: ", err)
        self.assertRegex(err, r"(?m)^info distdl .*: start 1 of the run in .*normal\", 2 ranks on ")
        self.assertNotIn("debug ", err)
        code, _, err = self.distdl(*job, "--set", "run.dir=verbose", "--verbose")
        self.assertGreater(err.count("debug "), 3)
        self.fails(64, ["--quiet", "--verbose"], *job, "--quiet", "--verbose")


class Hangup(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def test_a_closed_terminal_saves_and_stops(self):
        leader, follower = pty.openpty()
        run = subprocess.Popen(["setsid", "--ctty", "--wait", DISTDL, *self.run_local(2, *ENDLESS)], cwd=self.folder,
                               stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
        self.addCleanup(self.end, run)
        os.close(follower)
        self.wait_for_checkpoint()
        os.close(leader)
        self.assertEqual(run.wait(PATIENCE), 75)
        self.assertIn("signal SIG", next(row["reason"] for row in reversed(self.rows("journal.jsonl")) if "reason" in row))
        self.verify()

    def test_unless_it_is_told_to_go_on(self):
        nohup = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
        for name, how, key in (("key", {}, ["--set", "run.hangup=ignore"]), ("nohup", nohup, [])):
            with self.subTest(name):
                run = self.start(*self.run_local(2, *ENDLESS, "--set", f"run.dir={name}", *key), **how)
                self.wait_for_checkpoint(name)
                ranks = self.ranks_of(run)
                for pid in [run.pid, *ranks]:
                    os.kill(pid, signal.SIGHUP)
                seen = len(self.rows("metrics.jsonl", name))
                wait_until(lambda: len(self.rows("metrics.jsonl", name)) > seen + 20, "more steps")
                self.assertEqual(self.ranks_of(run), ranks)
                run.terminate()
                self.assertEqual(self.finish(run)[0], 75)

    def test_key(self):
        self.fails(78, ["run.hangup", "perhaps"], "config", "--check", "job.toml", "--set", "run.hangup=perhaps")


class Start(ProgramTest):
    def test_a_rank_that_waits_for_another_answers_a_signal(self):
        self.make_set()
        (self.folder / "run" / "logs").mkdir(parents=True)
        for number in (signal.SIGTERM, signal.SIGUSR1):
            rank = self.start("worker", "job.toml", "--set", f"comm.connect_timeout_seconds={PATIENCE}",
                              variables={"DISTDL_RANK": "0", "DISTDL_WORLD_SIZE": "2", "DISTDL_RENDEZVOUS": str(self.folder),
                                         "DISTDL_LAUNCH_ID": f"launch-{number}"})
            wait_until((self.folder / f"launch-{number}" / "rank-0").exists, "the rank at the rendezvous")
            rank.send_signal(number)
            code, _, err = self.finish(rank, PATIENCE / 3)
            self.assertEqual(code, 75, err)
            self.assertIn("nothing to save", err)

    def test_a_signal_at_any_time_of_the_start(self):
        self.make_set()
        for tenths in (0, 1, 2, 4):
            run = self.start(*self.run_local(2, *ENDLESS))
            wait_until(lambda: self.children(run), "a rank")
            try:
                run.wait(tenths / 10)
            except subprocess.TimeoutExpired:
                pass
            run.terminate()
            code, _, err = self.finish(run)
            self.assertEqual(code, 75, err)
            if error_lines(err) != ["distdl: asked to stop before it began: there was nothing to save"]:  # its first child may be no rank yet
                self.assertEqual(error_lines(err), [])

    @staticmethod
    def children(run):
        return pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()


class Surroundings(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def test_a_file_size_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        code, _, err = self.finish(self.start(*self.run_local(2), preexec_fn=limit))
        self.assertEqual(code, 74, err)
        self.says_once(["File too large"], err)

    def test_a_parent_that_ignores_its_children(self):
        def ignore():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        code, _, err = self.finish(self.start(*self.run_local(2), preexec_fn=ignore))
        self.assertEqual(code, 0, err)

    def test_what_a_requeued_job_cannot_read_its_ranks_try(self):
        self.finish(self.start(*self.run_local(1)))
        owner = self.folder / "run/checkpoints/OWNER"  # five more starts have ended before they trained
        owner.write_text(owner.read_text().replace('"start":1', '"start":6'))
        (self.folder / "bin").mkdir()
        for name, text in (("srun", "echo started >> launches; exit 75"), ("scontrol", "exit 1"), ("squeue", "exit 1")):
            (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / "bin" / name).chmod(0o755)
        job = {"SLURM_JOB_ID": "1", "SLURM_RESTART_COUNT": "1", "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        (self.folder / "bad.h5").write_text("no data")
        for data, folder, expected in (("none", "run", 75), ("none", "never-trained", 3), ("bad", "run", 4)):
            code, _, err = self.distdl("run", "job.toml", "--set", f"data.train={data}.h5", "--set", f"run.dir={folder}", "--set",
                                       "run.requeue=false", variables=job)
            self.assertEqual(code, expected, err)
            self.assertEqual("because the run has trained before" in err, expected == 75, err)
            for line in err.splitlines():
                self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d ")
            if expected == 75:
                self.assertRegex(err, rf'distdl [\d.]+\S*: start 7 of the run in "{self.folder}/run", 1 rank in job 1, restart 1, on 1 node')
                self.assertRegex(err.splitlines()[-1], "info stopped.*; this was planned, and srun's .* exit code 75.*run the same command again")
        self.assertEqual((self.folder / "launches").read_text(), "started\n")

    def test_few_descriptors(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
        code, _, err = self.finish(self.start(*self.run_local(2), preexec_fn=limit))
        self.assertEqual(code, 78, err)
        self.says_once(["30 files", "ulimit"], err)

    def test_a_temporary_folder_that_does_not_exist(self):
        code, _, err = self.distdl(*self.run_local(2), variables={"TMPDIR": str(self.folder / "none")})
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("TMPDIR"), 1, err)

    def test_names_cannot_forge_lines(self):
        name = "none\nerror host=n1 forged\x1b[2J\u202etxt ü"
        code, _, err = self.distdl("run", "--local", name)
        self.assertEqual(code, 78, err)
        self.assertIn("none\\nerror host=n1 forged\\x1b[2J\\u202etxt ü", self.says_once(["no job file"], err))
        self.assertEqual(err.count("\n"), 1)
        code, _, err = self.distdl(*self.run_local(1, "--set", f"data.train={name}.h5"))
        self.assertEqual(code, 3, err)
        self.assertNotIn("\x1b", err + self.log())
        self.assertEqual([line for text in (err, self.log()) for line in text.splitlines() if line.startswith("error host=n1")], [])
        code, _, err = self.distdl("run", "job.toml", f"--{name}")
        self.assertEqual(code, 64)
        self.assertNotIn("\x1b", err)

    def test_what_a_killed_run_leaves_the_next_one_removes(self):
        with tempfile.TemporaryDirectory(prefix="distdl-app-") as folder:
            where = {"variables": {"TMPDIR": folder}}
            run = self.start(*self.run_local(2, *ENDLESS), **where)
            self.wait_for_checkpoint()
            alive = self.start(*self.run_local(1, *ENDLESS, "--set", "run.dir=alive"), **where)
            self.wait_for_checkpoint("alive")
            run.kill()
            run.wait()
            left = {path.name for path in pathlib.Path(folder).iterdir()}
            self.assertEqual(len(left), 2)
            self.succeed(*self.run_local(1, "--set", "run.dir=next"), **where)
            kept = {path.name for path in pathlib.Path(folder).iterdir()}
            self.assertEqual(len(kept & left), 1, "that of the living")
            alive.terminate()
            self.assertEqual(self.finish(alive)[0], 75)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
