# SPDX-License-Identifier: Apache-2.0
"""Links, FIFOs, devices, sockets, folders and files of other users in the place of what a run folder has: no command hangs, changes
what a link leads to, or ends as after a fault of its own.

A share that changes with the commit by default; DISTDL_MATRIX=all tries each kind in each place with each command."""
import itertools
import os
import pathlib
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from program import DISTDL, ENDLESS, ProgramTest, error_lines, wait_until

LONGEST = 60  # seconds of a command that takes a tenth of one; machines can be busy
SHARE = 60  # commands without DISTDL_MATRIX=all
JOB = """[run]
dir = "run"
relaunches = 0
[data]
train = "set.h5"
holdout = 60
[model]
name = "mlp"
hidden = [16]
[parallel]
microbatches = 2
microbatch_size = 4
[train]
epochs = 2
[checkpoint]
every = 5
[log]
tensorboard = true
trace = "2:4"
"""
COMMANDS = [
    "status run", "status run --json", "log run", "why run", "watch run", "ls run", "compare run run", "report run -o page.html",
    "trace run --force", "metrics export run --to tensorboard -o out --force", "metrics export run --to wandb -o out --force",
    "metrics export run --to mlflow -o out --force", "health run --train predictor.json", "plan run",
    "checkpoint ls run", "checkpoint show run", "checkpoint digest run", "checkpoint verify run", "checkpoint why 5 run",
    "checkpoint diff run@5 run", "checkpoint gc run --keep 2", "checkpoint tag 5 best run", "checkpoint export run out.safetensors --force",
    "evaluate run set.h5", "predict run set.h5", "generate run", "cancel run", "cancel run --after-save", "requeue run",
    "submit job.toml --dry-run", "run --local -n 1 job.toml"]
# What a run makes only at times.
MORE = ["STOP", "SAVE", "LOCK", "why", "launches", "end-of-job", "job.sbatch", "join.sbatch", "bad-nodes.jsonl", "trace.json",
        "checkpoints/TAGS", "checkpoints/tags", "checkpoints/tags/best", "checkpoints/quarantine"]


def listing(folder):
    """Everything about a tree that a command might change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_uid, content)
    return found


def link_to_file(place, victim):
    place.symlink_to(victim / "file")


def link_to_nothing(place, victim):
    place.symlink_to(victim / "nothing")


def link_to_folder(place, victim):
    place.symlink_to(victim / "folder")


def fifo(place, _):
    os.mkfifo(place)


def device(place, _):
    os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # endless zeros


def unix_socket(place, _):
    here = os.open(place.parent, os.O_RDONLY)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{place.name}")
    finally:
        os.close(here)


def folder(place, _):
    place.mkdir()
    (place / "mine").write_text("mine")


def of_another_user(place, victim):
    shutil.copytree(victim / "folder", place) if (victim / "is-folder").exists() else shutil.copy(victim / "file", place)
    for path in [place, *place.rglob("*")]:
        os.chown(path, 65534, 65534)


KINDS = [link_to_file, link_to_nothing, link_to_folder, fifo, unix_socket, folder]
if os.geteuid() == 0:
    KINDS += [device, of_another_user]


class RunFolder(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.template = pathlib.Path(tempfile.mkdtemp(prefix="distdl-matrix-"))
        cls.addClassCleanup(shutil.rmtree, cls.template, ignore_errors=True)
        (cls.template / "job.toml").write_text(JOB)
        for words in ["data make shapes set.h5 --samples 200 --size 12", "run --local -n 2 job.toml --set train.end_at_step=12"]:
            subprocess.run([DISTDL, *words.split()], cwd=cls.template, check=True, capture_output=True, stdin=subprocess.DEVNULL,
                           env=cls.variables(cls.template))
        run = cls.template / "run"
        made = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
        cls.places = [name for name in made if "step-000000000010" not in name and "rank-00001" not in name] + MORE

    @staticmethod
    def variables(folder):
        return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache"), "PAGER": "cat"}

    def fresh(self):
        """A copy of the run in an empty folder."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.copytree(self.template, self.folder, dirs_exist_ok=True, symlinks=True)

    def plant(self, name, kind):
        """Returns the folder that must stay as it is, or nothing where the kind cannot be there."""
        place, victim = self.folder / "run" / name, self.folder / "victim"
        other = victim / "folder"
        other.mkdir(parents=True)
        (victim / "file").write_text("precious\n")
        if place.is_dir():
            shutil.copytree(place, other, dirs_exist_ok=True)
            shutil.rmtree(place)
            (victim / "is-folder").write_text("")
        elif place.exists():
            shutil.copy(place, victim / "file")
            place.unlink()
        for old in ["old", "0123456789ab"]:
            (other / old).mkdir()
            for file in ["launch.json", "n1-7.json", ".hidden", "project.txt"]:
                (other / old / file).write_text("{}")
            os.utime(other / old, (1e9, 1e9))
        place.parent.mkdir(parents=True, exist_ok=True)
        kind(place, victim)
        return victim

    def problem(self, name, kind, command):
        """What a command does wrong, or nothing."""
        self.fresh()
        victim = self.plant(name, kind)
        before = listing(victim)
        with open(self.folder / "stderr", "wb") as errors, open(self.folder / "stdout", "wb") as output:
            process = subprocess.Popen([DISTDL, *command.split()], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                       env=self.variables(self.folder), start_new_session=True)
            try:
                code = process.wait(LONGEST)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return "hangs"
        text = (self.folder / "stderr").read_text(errors="replace")
        if code < 0 or code == 70 or code > 78:
            return f"ends with {code}: {text}"
        if code not in (0, 2, 3, 4) and len(error_lines(text)) != 1 and not command.startswith("run "):
            return f"ends with {code} and says why {len(error_lines(text))} times: {text}"
        # A user may put the checkpoints elsewhere by a link; what is done there is about checkpoints alone.
        after = listing(victim)
        if after != before and not (name == "checkpoints" and kind is link_to_folder):
            return f"changed {sorted(key for key in {*before, *after} if before.get(key) != after.get(key))}"
        return None

    def test_no_kind_of_file_does_harm(self):
        cases = list(itertools.product(self.places, KINDS, COMMANDS))
        if os.environ.get("DISTDL_MATRIX") != "all":
            commit = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
            draw = random.Random(commit)
            cases = draw.sample(cases, SHARE)
        begin, problems = time.monotonic(), []
        for name, kind, command in cases:
            found = self.problem(name, kind, command)
            if found:
                problems.append(f"{name} is {kind.__name__}: distdl {command}: {found}")
                print(problems[-1], file=sys.stderr, flush=True)
        print(f"{len(cases)} commands in {time.monotonic() - begin:.0f} s, {len(problems)} of them wrong", file=sys.stderr)
        self.assertEqual(problems, [])

    def test_a_question_to_a_live_run_follows_no_link(self):
        """The folder of questions is a link: what is old in its target stays."""
        self.fresh()
        run = self.start("run", "--local", "-n", "2", "job.toml", *ENDLESS, "--set", "run.dir=live")
        self.wait_for_checkpoint("live")
        precious = self.folder / "precious"
        (precious / "old" / "deep").mkdir(parents=True)
        (precious / "old" / "deep" / "file").write_text("precious")
        os.utime(precious / "old", (1e9, 1e9))
        before = listing(precious)
        (self.folder / "live" / "why").symlink_to(precious)
        self.fails(74, ["live/why", "is a link"], "why", "live")
        self.assertEqual(listing(precious), before)
        (self.folder / "live" / "why").unlink()
        self.succeed("why", "live")
        run.terminate()
        self.assertEqual(self.finish(run)[0], 75)

    def test_a_start_deletes_no_launch_of_others(self):
        """The folder of launches is a link to a project, whose folders have files launch.json; or a real one with such a folder."""
        self.fresh()
        project, launches = self.folder / "project", self.folder / "run" / "launches"
        (project / ".vscode").mkdir(parents=True)
        for name in ["launch.json", "tasks.json"]:
            (project / ".vscode" / name).write_text("{}")
        before = listing(project)
        launches.symlink_to(project)
        self.distdl(*self.run_local(1))
        self.assertEqual(listing(project), before)
        launches.unlink()
        shutil.copytree(project, launches)
        self.succeed(*self.run_local(1))
        self.assertEqual(listing(launches), before)

    def test_a_run_folder_that_is_named_by_a_link(self):
        """A user's own link to the run folder, or on the way to it, is followed."""
        self.fresh()
        (self.folder / "elsewhere").mkdir()
        (self.folder / "scratch").symlink_to("elsewhere")
        set_dir = ["--set", "run.dir=scratch/run"]
        self.succeed(*self.run_local(2), *set_dir, "--set", "train.end_at_step=12")
        self.succeed(*self.run_local(2), *set_dir)
        for command in ["status", "log", "trace", "report", "compare", "checkpoint verify", "checkpoint tag 35 last"]:
            self.succeed(*command.split(), "scratch/run", *(["run"] if command == "compare" else []))
        self.assertEqual(sorted(path.name for path in (self.folder / "elsewhere/run/logs").iterdir()),
                         sorted(path.name for path in (self.folder / "run/logs").iterdir()))
        live = self.start(*self.run_local(2), *ENDLESS, "--set", "run.dir=scratch/live")
        self.wait_for_checkpoint("scratch/live")
        self.succeed("why", "scratch/live")
        self.succeed("cancel", "--after-save", "scratch/live")
        self.assertIn(self.finish(live)[0], (0, 76))


if __name__ == "__main__":
    unittest.main(verbosity=2)
