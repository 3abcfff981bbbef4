# SPDX-License-Identifier: Apache-2.0
"""Programs of others as ranks, `distdl run --local -n N -- PROGRAM ...`: from begin to end, and what may happen to them."""
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from program import ProgramTest, wait_until

STEPS = str(pathlib.Path(__file__).resolve().parent / "steps_program.py")
HOSTILE = str(pathlib.Path(__file__).resolve().parent / "hostile_program.py")
SETTINGS = ["--set", "run.dir=run", "--set", r"run.progress_pattern=^step (\d+)/(\d+)", "--set", 'run.metrics=["loss=loss ([0-9.]+)"]']
UNDISTURBED = {}  # value at the end by number of steps


def processes_with(text):
    """Pids of processes whose command line has the text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                found.append(int(pid))
        except OSError:
            pass  # ended
    return found


def undisturbed(steps):
    """The value that a program computes alone: the same arithmetic, without a process."""
    if steps not in UNDISTURBED:
        value, prime = 1, (1 << 61) - 1
        for step in range(steps):
            value = (value * 31 + sum(pow(value + step, m + 2, prime) for m in range(12))) % prime
        UNDISTURBED[steps] = str(value)
    return UNDISTURBED[steps]


class Program(ProgramTest):
    def words(self, ranks, steps, seconds=0.0, *options, more=()):
        return ["run", "--local", "-n", str(ranks), *SETTINGS, *more, "--", sys.executable, STEPS, self.folder / "state", str(steps),
                str(seconds), *options]

    def journal(self, event):
        rows = (self.folder / "run/journal.jsonl").read_text().splitlines() if (self.folder / "run/journal.jsonl").exists() else []
        return [row for row in map(json.loads, rows) if row["event"] == event]

    def step(self):
        """Done, as the newest row of metrics.jsonl tells."""
        file = self.folder / "run/metrics.jsonl"
        rows = file.read_text().splitlines() if file.exists() else []
        return json.loads(rows[-1])["step"] if rows else 0

    def wait_for_step(self, step):
        wait_until(lambda: self.step() >= step, f"step {step}")

    def programs(self):
        """Pids of the program's processes, in the order of their ranks."""
        def rank_of(pid):
            text = pathlib.Path(f"/proc/{pid}/environ").read_text()
            return int(next(word for word in text.split("\0") if word.startswith("RANK=")).removeprefix("RANK="))
        return sorted((pid for pid in processes_with(str(self.folder / "state")) if self.is_program(pid)), key=rank_of)

    @staticmethod
    def is_program(pid):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1:2] == [STEPS]

    def ends_as_undisturbed(self, steps):
        self.assertEqual(undisturbed(steps), (self.folder / "state/end").read_text().strip())
        self.assertEqual([], processes_with(str(self.folder / "state")))

    def test_a_program_runs_to_its_end_and_all_commands_know_it(self):
        code, out, err = self.distdl(*self.words(3, 30))
        self.assertEqual(0, code, err)
        self.ends_as_undisturbed(30)
        for rank in range(3):
            self.assertIn(f"[{rank}] rank {rank} of 3 begins at step 0", out)
        result = json.loads((self.folder / "run/result.json").read_text())
        self.assertEqual(("finished", 30, 3), (result["status"], result["steps"], result["ranks"]))
        rows = [json.loads(row) for row in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(list(range(1, 31)), [row["step"] for row in rows])
        self.assertTrue(all(0 <= row["loss"] < 1 for row in rows))
        self.assertIn("finished: all steps are done", self.succeed("status", "run"))
        self.assertRegex(self.succeed("log", "run"), r"rank=2 \| rank 2 of 3 begins")
        self.succeed("report", "run", "-o", "report.html")
        code, _, err = self.distdl(*self.words(3, 30))
        self.assertEqual(0, code)
        self.assertIn("has finished before", err)

    def test_it_saves_at_a_signal_and_goes_on_with_other_ranks(self):
        for options in ([], ["zero"], ["ask"], ["ask", "zero"]):
            with self.subTest(options=options):
                subprocess.run(["rm", "-rf", self.folder / "run", self.folder / "state"], check=True)
                run = self.start(*self.words(3, 120, 0.02, *options))
                self.wait_for_step(10)
                run.send_signal(signal.SIGTERM)
                code, out, err = self.finish(run)
                self.assertEqual(75, code, err)
                ends = {line.split(" ", 1)[1].split(" ", 2)[2] for line in out.splitlines() if " stops after step " in line}
                self.assertEqual(1, len(ends), f"not all ranks stop at one step:\n{out}")
                self.assertEqual(["signal SIGTERM"], [row["reason"] for row in self.journal("stopped")])
                code, _, err = self.distdl(*self.words(2, 120, 0, *options))
                self.assertEqual(0, code, err)
                self.ends_as_undisturbed(120)

    def test_a_script_that_starts_the_program(self):
        """The signal is for the program, also where Slurm sends it to all processes and the shell dies of it."""
        (self.folder / "train.sh").write_text(f'#!/bin/sh\nexport X=1\n"{sys.executable}" "{STEPS}" "$@" | cat\necho after\n')
        (self.folder / "train.sh").chmod(0o755)
        for to_all in (False, True):
            with self.subTest(to_all=to_all):
                subprocess.run(["rm", "-rf", self.folder / "run", self.folder / "state"], check=True)
                words = [*self.words(2, 120, 0.02)]
                words[words.index("--") + 1:words.index(STEPS) + 1] = ["./train.sh"]
                run = self.start(*words)
                self.wait_for_step(10)
                shells = processes_with("./train.sh") if to_all else []
                self.assertEqual(2 if to_all else 0, len([pid for pid in shells if pathlib.Path(f"/proc/{pid}/exe").resolve().name != "distdl"]))
                for pid in [*self.programs(), *shells] if to_all else []:
                    with contextlib.suppress(ProcessLookupError):  # a shell ends when its program has
                        os.kill(pid, signal.SIGTERM)
                run.send_signal(signal.SIGTERM)
                code, out, err = self.finish(run)
                self.assertEqual(75, code, err)
                self.assertIn(" stops after step ", out)
                code, _, err = self.distdl(*self.words(2, 120))
                self.assertEqual(0, code, err)
                self.ends_as_undisturbed(120)

    def test_zero_after_a_signal_is_the_end_if_it_or_its_progress_says_that_all_is_done(self):
        # Deaf: it does all its steps, whatever it is told.
        for options, wanted in ((["deaf", "done", "silent"], 0), (["deaf"], 0), (["deaf", "silent"], 75)):
            with self.subTest(options=options):
                subprocess.run(["rm", "-rf", self.folder / "run", self.folder / "state"], check=True)
                run = self.start(*self.words(2, 60, 0.02, *options))
                wait_until(lambda: (self.folder / "state/state.json").exists(), "a save")
                run.send_signal(signal.SIGTERM)
                code, _, err = self.finish(run)
                self.assertEqual(wanted, code, err)

    def test_a_program_that_knows_nothing_ends_and_what_is_lost_is_told(self):
        for lines, told in (("", ""), ("print('step', step)", r", up to step \d+")):
            with self.subTest(lines=lines):
                (self.folder / "plain.py").write_text(f"import time\nfor step in range(1, 10000):\n    time.sleep(0.05)\n    {lines or 'pass'}\n")
                run = self.start("run", "--local", "-n", "2", "--set", "run.dir=run", "--set", r"run.progress_pattern=^step (\d+)", "--",
                                 sys.executable, "plain.py")
                wait_until(lambda: self.step() >= 3 if lines else self.journal("started"), "its start")
                run.send_signal(signal.SIGTERM)
                code, _, err = self.finish(run)
                self.assertEqual(75, code, err)
                self.assertRegex(err, rf"the next start repeats what this one has done in [0-9.]+ s{told}\n")
                subprocess.run(["rm", "-rf", self.folder / "run"], check=True)

    def test_only_a_signal_may_be_a_preemption_with_its_short_grace(self):
        (self.folder / "slow.py").write_text("""
import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("step 1", flush=True)
while not asked:
    time.sleep(0.01)
time.sleep(3)
print("saved", flush=True)
sys.exit(75)
""")
        for by_signal, saves in ((False, True), (True, False)):
            with self.subTest(by_signal=by_signal):
                run = self.start("run", "--local", "--set", "run.dir=run", "--set", r"run.progress_pattern=^step (\d+)", "--", sys.executable,
                                 "slow.py", variables={"DISTDL_PREEMPTION": "REQUEUE", "DISTDL_GRACE_SECONDS": "5"})
                self.wait_for_step(1)
                run.send_signal(signal.SIGTERM) if by_signal else (self.folder / "run/STOP").touch()
                _, out, err = self.finish(run)
                self.assertEqual(saves, "saved" in out, err)
                self.assertEqual(saves, "has not ended in time" not in err, err)
                subprocess.run(["rm", "-rf", self.folder / "run"], check=True)

    def test_a_rank_that_is_killed_and_one_that_is_frozen(self):
        for victim, number in ((1, signal.SIGKILL), (0, signal.SIGSEGV), (1, signal.SIGSTOP), (2, signal.SIGTERM)):
            with self.subTest(victim=victim, number=number):
                subprocess.run(["rm", "-rf", self.folder / "run", self.folder / "state"], check=True)
                run = self.start(*self.words(3, 150, 0.02))
                self.wait_for_step(30)
                os.kill(self.programs()[victim], number)
                code, _, err = self.finish(run)
                if number == signal.SIGTERM:  # as Slurm sends to all processes of a job: the ranks save
                    self.assertIn(code, (0, 75), err)
                    code, _, err = self.distdl(*self.words(3, 150))
                self.assertEqual(0, code, err)
                self.ends_as_undisturbed(150)

    def test_the_process_of_a_rank_is_killed_and_nothing_of_its_program_is_left(self):
        run = self.start(*self.words(2, 150, 0.02, f"leave={os.getpid()}"))
        self.wait_for_step(30)
        wait_until(lambda: len(processes_with(f"left-behind-{os.getpid()}")) == 2, "two daemons")
        os.kill(self.ranks_of(run)[1], signal.SIGKILL)
        code, _, err = self.finish(run)
        self.assertEqual(0, code, err)
        self.ends_as_undisturbed(150)
        wait_until(lambda: not processes_with(f"left-behind-{os.getpid()}"), "the end of the daemons")

    def test_an_exception_is_told_and_the_run_goes_on(self):
        code, _, err = self.distdl(*self.words(2, 60, 0, "fail=30"))
        self.assertEqual(0, code, err)
        self.ends_as_undisturbed(60)
        self.assertIn("the program of rank 1 ended with code 1: ValueError: wrong at step 30", err)
        self.assertTrue(any("ValueError: wrong at step 30" in row["cause"] for row in self.journal("error")), self.journal("error"))

    def test_the_exception_in_its_error_file_is_told_rather_than_a_line_of_stderr(self):
        (self.folder / "fail.py").write_text("""
import json, os, sys, traceback
file = os.environ["TORCHELASTIC_ERROR_FILE"]
try:
    raise KeyError("no such layer")
except KeyError as e:  # as torch.distributed.elastic.multiprocessing.errors.record does
    data = {"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": "1"}}}
exec(sys.argv[1])
print("some warning at the end", file=sys.stderr)
sys.exit(1)
""")
        told = "KeyError: 'no such layer'"
        for code, wanted in (("json.dump(data, open(file, 'w'))", told), ("pass", "some warning at the end"),
                             ("json.dump({'message': 'Failed: all'}, open(file, 'w'))", "Failed: all"),
                             ("open(file, 'w').write(json.dumps(data)[:-1])", "some warning at the end"),
                             ("open(file, 'wb').write(b'{\"message\": \"\\xff\\xfe\"}')", "some warning at the end"),
                             ("open(file, 'w').write('[' * 900000)", "some warning at the end"),
                             ("open(file, 'w').truncate(1 << 40)", "some warning at the end"),
                             ("os.mkfifo(file)", "some warning at the end"), ("os.mkdir(file)", "some warning at the end"),
                             ("json.dump(data, open('other', 'w')); os.symlink(os.path.abspath('other'), file)", "some warning at the end")):
            with self.subTest(code=code):
                subprocess.run(["rm", "-rf", self.folder / "run"], check=True)
                got, _, err = self.distdl("run", "--local", "-n", "1", "--set", "run.dir=run", "--set", "run.relaunches=0", "--",
                                          sys.executable, "fail.py", code, variables={"TMPDIR": str(self.folder)})
                self.assertEqual(79, got, err)
                cause = f"the program of rank 0 ended with code 1: {wanted}"
                self.assertEqual([cause], [row["cause"] for row in self.journal("error")])
                self.assertIn(cause, err)
                self.assertIn(cause, self.succeed("status", "run"))
                self.assertIn(cause, self.distdl("why", "run")[2])
                log = next((self.folder / "run/logs").glob("*.rank-0.log")).read_text()
                self.assertEqual(wanted == told, 'raise KeyError("no such layer")' in log, log)
                self.assertEqual([], list(self.folder.glob("distdl-contract-*")))

    def test_programs_that_cannot_run(self):
        for words, code, text in ((["no-such-program"], 78, 'there is no program "no-such-program" on PATH'),
                                  (["./no-such-file"], 78, 'there is no program "./no-such-file"'),
                                  ([str(self.folder / "job.toml")], 78, "cannot be run"),
                                  ([sys.executable, "no-such-file.py"], 2, "No such file or directory"),
                                  ([], 64, 'there is no program behind "--"')):
            with self.subTest(words=words):
                got, _, err = self.distdl("run", "--local", *SETTINGS, "--", *words)
                self.assertEqual(code, got, err)
                self.assertIn(text, err)
        for key, text in ((r"run.progress_pattern=step \d+", "has no group"), ("run.progress_pattern=(", "no regular expression"),
                          ('run.metrics=["loss"]', "must have NAME=EXPRESSION"), ("run.stop_signal=KILL", '"TERM"')):
            got, _, err = self.distdl("run", "--local", "--set", key, "--", "true")
            self.assertEqual(78, got, err)
            self.assertIn(text, err)

    def test_an_mpi_program_whose_ranks_would_be_alone(self):
        """A program that is linked to MPI is refused; one that loads it later is told of."""
        compiler = shutil.which("cc")
        if not compiler:
            self.skipTest("there is no C compiler")
        (self.folder / "mpi.c").write_text("int MPI_Init(void) { return 0; }\n")
        (self.folder / "main.c").write_text("int MPI_Init(void);\nint main(void) { return MPI_Init(); }\n")
        for words in (["-shared", "-fPIC", "mpi.c", "-Wl,-soname,libmpi.so.40", "-o", "libmpi.so.40"],
                      ["main.c", "-o", "heat", "-L.", "-l:libmpi.so.40", "-Wl,-rpath,$ORIGIN"]):
            subprocess.run([compiler, *words], cwd=self.folder, check=True)
        got, _, err = self.distdl("run", "--local", "-n", "2", *SETTINGS, "--", "./heat")
        self.assertEqual(78, got, err)
        self.assertIn('"./heat" is an MPI program (it needs libmpi.so.40), and each of its ranks would be alone', err)
        self.succeed("run", "--local", "-n", "1", *SETTINGS, "--", "./heat")
        self.succeed("run", "--local", "-n", "2", "--set", "run.dir=alone", "--set", "run.mpi=none", "--", "./heat")
        got, _, err = self.distdl("submit", "--dry-run", "--nodes=2", *SETTINGS, "--", "./heat")
        self.assertEqual(78, got, err)
        self.assertIn('set run.recovery = "relaunch", so that srun starts it with PMIx', err)
        self.succeed("run", "--check", "--set", "run.recovery=relaunch", *SETTINGS, "--", "./heat")

        late = "import ctypes, time; ctypes.CDLL('./libmpi.so.40'); time.sleep(3)"
        code, _, err = self.distdl("run", "--local", "-n", "2", "--set", "run.dir=late", "--", sys.executable, "-c", late)
        self.assertEqual(0, code, err)
        self.assertEqual(1, err.count("the program has loaded MPI (libmpi.so.40), in which each of its ranks is alone"), err)

    def test_much_output_is_kept_within_limits(self):
        line = "x" * 99
        code, _, err = self.distdl("run", "--local", "--set", "run.dir=run", "--set", "run.output=none", "--", "sh", "-c",
                                   f"yes {line} | head -c 150000000; printf 'half a line'; exec >&-")
        self.assertEqual(0, code, err)
        files = list((self.folder / "run/logs").glob("*.rank-0*"))
        self.assertEqual(2, len(files))
        self.assertLess(sum(file.stat().st_size for file in files), 160 << 20)
        self.assertIn("half a line", self.succeed("log", "run", "-n", "3"))

    def test_a_hostile_program_leaves_nothing_and_does_no_harm(self):
        """One that ends; one that hangs until a preemption; one whose rank's process is killed. DISTDL_LONG_PROOFS=1 for 1 GB of output of each rank."""
        most = 1 << 30 if "DISTDL_LONG_PROOFS" in os.environ else 2 << 20
        for how, wanted in (("ends", 0), ("asked", 75), ("killed", 128 + signal.SIGKILL)):
            with self.subTest(how=how):
                subprocess.run(["rm", "-rf", self.folder / "run"], check=True)
                mark = f"hostile-{how}-{os.getpid()}"
                run = self.start("run", "--local", "-n", "2", "--set", "run.dir=run", "--set", "run.relaunches=0", "--set", "run.output=none", "--", sys.executable, HOSTILE,
                                 mark, str(most), "ends" if how == "ends" else "hangs", output=subprocess.DEVNULL,
                                 variables={"DISTDL_PREEMPTION": "REQUEUE", "DISTDL_GRACE_SECONDS": "5"})
                if how != "ends":
                    wait_until(lambda: sum(self.has_closed_its_output(pid) for pid in processes_with(mark)) == 2, "the end of all output")
                if how == "asked":
                    run.send_signal(signal.SIGTERM)
                if how == "killed":
                    os.kill(self.ranks_of(run)[1], signal.SIGKILL)
                code, _, err = self.finish(run)
                self.assertEqual(wanted, code, err)
                wait_until(lambda: not processes_with(mark), "the end of all its processes")
                self.assertLess(sum(file.stat().st_size for file in (self.folder / "run/logs").glob("*.rank-*")), 2 * (128 << 20))
                self.assertIn("run", self.succeed("status", "run"))

    @staticmethod
    def has_closed_its_output(pid):
        """Whether it is the program of a rank, and not one of its daemons, and has closed stdout and stderr."""
        try:
            session = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[3])
            return session == pid and not set(os.listdir(f"/proc/{pid}/fd")) & {"1", "2"}
        except OSError:
            return False

    def test_odd_output(self):
        text = r"printf '\377\376 odd \033[31mred\033[0m\n\000zero\nbar 1%%\rbar 2%%\rbar 3%%\nno end'"
        code, _, err = self.distdl("run", "--local", "--set", "run.dir=run", "--", "sh", "-c", text, output=subprocess.DEVNULL)
        self.assertEqual(0, code, err)
        log = next((self.folder / "run/logs").glob("*.rank-0.log")).read_bytes()
        self.assertEqual(4, log.count(b"\n"))
        self.assertIn(b"| bar 3%\n", log)
        self.assertNotIn(b"bar 2%", log)
        self.assertTrue(log.endswith(b"| no end\n"))

    def test_numbers_that_are_no_steps_count_for_nothing(self):
        (self.folder / "tell.py").write_text("""
import json, os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["DISTDL_CONTRACT"])
for step in (-1, -2**63, 2**63 - 1, 2**64, "7", None, 3.5, 5, 0, 6):
    s.sendall(json.dumps({"step": step, "steps": -step if isinstance(step, int) else 1}).encode() + b"\\n")
s.sendall(json.dumps({"saved": -7, "save_seconds": -1}).encode() + b"\\n" + b"x" * 3000000 + b"\\n\\xff\\xfe\\n")
s.sendall(json.dumps({"asks_left": True}).encode() + b"\\n")
s.recv(100)
print("step 99999999999999999999/1")
print("step 9223372036854775807/9")
""")
        self.succeed("run", "--local", *SETTINGS, "--", sys.executable, "tell.py")
        rows = [json.loads(row) for row in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([5, 0, 6], [row["step"] for row in rows])
        self.assertEqual([], self.journal("checkpoint"))
        self.assertIn("finished", self.succeed("status", "run"))

    def test_its_environment(self):
        hostile = {"RANK": "7", "WORLD_SIZE": "99", "PMIX_RANK": "", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "x", "SLURM_PROCID": "5",
                   "OMP_NUM_THREADS": "3"}
        code, out, err = self.distdl("run", "--local", "-n", "2", "--set", "run.dir=run", "--", "sh", "-c",
                                     "env; cat; echo read nothing", variables=hostile)
        self.assertEqual(0, code, err)
        for rank in range(2):
            own = dict(line.removeprefix(f"[{rank}] ").split("=", 1) for line in out.splitlines() if line.startswith(f"[{rank}] ") and "=" in line)
            self.assertEqual((str(rank), "2", str(rank), "2", "0", "1", "127.0.0.1"),
                             tuple(own[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                                                          "GROUP_WORLD_SIZE", "MASTER_ADDR")))
            self.assertEqual(("3", "False", "0"), tuple(own[name] for name in (
                "OMP_NUM_THREADS", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT")))
            self.assertNotIn("SLURM_PROCID", own)
            self.assertIn(f"[{rank}] read nothing", out)

    def test_a_job_file_with_a_program(self):
        (self.folder / "program.toml").write_text(f'[run]\ndir = "run"\ncommand = ["{sys.executable}", "{STEPS}", "state", "20"]\n')
        self.assertIn("ok; program", self.succeed("run", "program.toml", "--check"))
        self.succeed("run", "--local", "-n", "2", "program.toml")
        self.ends_as_undisturbed(20)

    def test_progress_by_a_file(self):
        (self.folder / "quiet.py").write_text("""
import os, pathlib, sys, time
time.sleep(0.6)
file = pathlib.Path(os.environ["DISTDL_RUN_DIR"], "progress")
hangs = sys.argv[1] == "hangs" and not file.exists()
for step in range(1, 6):
    file.write_text(f"{step}\\n")
    time.sleep(1000 if hangs and step == 4 else 0.7)
""")
        for how in ("ends", "hangs"):
            with self.subTest(how=how):
                subprocess.run(["rm", "-rf", self.folder / "run"], check=True)
                code, _, err = self.distdl("run", "--local", "--set", "run.dir=run", "--set", "run.progress_file=progress", "--set",
                                           "run.stalled_seconds=4", "--", sys.executable, "quiet.py", how)
                self.assertEqual(0, code, err)
                rows = [json.loads(row)["step"] for row in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
                self.assertEqual(5, rows[-1])
                self.assertGreater(len(rows), 3)
                self.assertEqual(how == "hangs", "made no progress for" in err, err)

    def test_progress_by_event_files(self):
        if not all(importlib.util.find_spec(name) for name in ("torch", "tensorboard")):
            self.skipTest("no torch with tensorboard for this Python")
        (self.folder / "events.py").write_text("""
import os, time, numpy
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(os.environ["DISTDL_RUN_DIR"] + "/events", flush_secs=1) as writer:
    for step in range(1, 11):
        writer.add_scalar("train/loss", 1 / step, step)
        writer.add_histogram("weights", numpy.arange(1000), step)
        time.sleep(0.1)
    writer.add_scalar("eval/loss", 0.25, step)
time.sleep(0.1)
""")
        self.succeed("run", "--local", "--set", "run.dir=run", "--set", "run.progress_file=events", "--", sys.executable, "events.py")
        rows = [json.loads(row) for row in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([(step, round(1 / step, 6)) for step in range(1, 11)], [(row["step"], round(row["loss"], 6)) for row in rows if "loss" in row])
        self.assertEqual([0.25], [row["validation_loss"] for row in rows if "validation_loss" in row])

    def why(self, how):
        """What "distdl why" says of a program that a shell has started and that sleeps, with this PATH."""
        (self.folder / "sleeps.py").write_text("import time\ndef sleeps_here():\n    time.sleep(1000)\nprint('begins', flush=True)\nsleeps_here()\n")
        run = self.start("run", "--local", "-n", "2", "--set", "run.dir=run", "--", "/bin/sh", "-c", f"{sys.executable} sleeps.py; true",
                         variables={"PATH": how})
        wait_until(lambda: sum("begins" in file.read_text() for file in (self.folder / "run/logs").glob("*.rank-*")) == 2
                   if (self.folder / "run/logs").exists() else False, "two programs")
        text = self.succeed("why", "run")
        run.terminate()  # after a SIGKILL of distdl nobody would end what the shell has started
        self.finish(run)
        return text

    def test_why_without_py_spy(self):
        text = self.why(str(self.folder))
        self.assertRegex(text, r'rank 0, thread "program" in its own code:\n  #0  no stack of Python: py-spy is not on PATH')
        self.assertIn('rank 1, thread "program"', text)

    def test_why_does_not_wait_for_py_spy(self):
        (self.folder / "py-spy").write_text("#!/bin/sh\nexec /bin/sleep 1000\n")
        (self.folder / "py-spy").chmod(0o755)
        self.assertIn("py-spy has not answered in", self.why(str(self.folder)))

    def test_why_shows_the_stacks_of_python(self):
        if not shutil.which("py-spy"):
            self.skipTest("no py-spy on PATH")
        text = self.why(os.environ["PATH"])
        self.assertEqual(2, len(re.findall(r"sleeps_here \(.*sleeps.py:3\)", text)), text)

    def test_a_signal_at_once(self):
        for seconds in (0, 0.05, 0.1, 0.2, 0.4):
            with self.subTest(seconds=seconds):
                run = self.start(*self.words(2, 2000, 0.01))
                wait_until(lambda: "info distdl" in run.stderr_file.read_text(), "the first line of the log")
                time.sleep(seconds)
                run.send_signal(signal.SIGTERM)
                code, _, err = self.finish(run)
                self.assertEqual(75, code, err)
                self.assertEqual([], processes_with(str(self.folder / "state")))


if __name__ == "__main__":
    unittest.main()
