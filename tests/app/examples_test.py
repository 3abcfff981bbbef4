# SPDX-License-Identifier: Apache-2.0
"""Runs each example of each help text, and tries the man page and the completions, which come from the same table."""
import concurrent.futures
import gzip
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

from jobs_test import COMMANDS
from program import DISTDL, JOB, PATIENCE

WITHOUT_EXAMPLES = {"distdl agent"}  # "distdl run" starts it
# What needs a Slurm job, text that was learnt, or weights of PyTorch: these words are only parsed. Other tests run them.
ONLY_PARSED = ("distdl join", "distdl submit --join", "distdl why", "distdl generate", "distdl checkpoint import pretrained", "distdl doctor",
               "distdl cancel", "distdl requeue", "distdl status 4711", "distdl health", "srun ", "sbatch ", "distdl bench calibrate",
               "distdl submit job.toml --nodes", "distdl log -f", "distdl bench comm", "distdl plan run")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
LARGE_JOBS = {"resnet50", "vit"}  # their recipes are for ImageNet, their models are trained by images_test.py
EXPLAINED_JOBS = {"alerts", "gpt", "lenet", "mlp", "mnist"}  # a key on each line, for beginners
SMALLER = (("--size 64M --dir /scratch --rounds 2", "--size 8M --dir . --rounds 1"), ("--batch 32", "--batch 2 --steps 1"),
           ("--local -n 2 --threads 1", "--local -n 2 --threads 1 --steps 1"), ("make shapes shapes.h5", "make shapes shapes.h5 --samples 60"))



def npy(shape):
    """An array of NumPy with the numbers 0, 1, 2, 0, 1 ..."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    count = math.prod(shape)
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{count}f", *(i % 3 for i in range(count)))


def commands(text):
    """The names of the commands in a help text."""
    listing = re.search(r"^Subcommands:\n(.*?)^(?=\S|\Z)", text + "\n", re.M | re.S)
    return re.findall(r"^  (\S+)", listing[1], re.M) if listing else []


def examples(text):
    listing = re.search(r"^Examples:\n(.*)\Z", text, re.M | re.S)
    return re.findall(r"^    (\S.*)$", listing[1], re.M) if listing else []


def distdl(*words, **how):
    return subprocess.run([DISTDL, *words], capture_output=True, text=True, timeout=PATIENCE, **how)


def tree():
    """{"distdl checkpoint ls": its help}"""
    found = {}

    def visit(words):
        done = distdl(*words, "--help")
        assert done.returncode == 0, done.stderr
        found[" ".join(["distdl", *words])] = done.stdout
        for name in commands(done.stdout):
            visit([*words, name])
    visit([])
    return found


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.help = tree()
        folder = tempfile.TemporaryDirectory(prefix="distdl-examples-", dir="/var/tmp")  # /tmp: nodes have one of their own
        cls.addClassCleanup(folder.cleanup)
        cls.temp = pathlib.Path(folder.name)
        cls.prepare(cls.temp / "prepared")

    @classmethod
    def prepare(cls, folder):
        """What the examples work on: a job, data sets, two runs."""
        (folder / "bin").mkdir(parents=True)
        for name, text in COMMANDS.items():
            (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / "bin" / name).chmod(0o755)
        (folder / "job.toml").write_text(JOB.replace("set.h5", "shapes.h5").replace("epochs = 4", "epochs = 2"))
        (folder / "sweep.toml").write_text('[sweep]\njob = "job.toml"\nfolder = "runs"\n[vary]\ntrain.seed = [1, 2]\n')
        (folder / "shakespeare.txt").write_text("to be or not to be " * 500)
        (folder / "corpus").mkdir()
        (folder / "corpus" / "a.txt").write_text("to be or not to be")
        (folder / "more.jsonl.gz").write_bytes(gzip.compress(b'{"text": "that is the question"}\n'))
        shutil.copy(pathlib.Path(__file__).resolve().parents[1] / "tokenizer/tiny/llama3.json", folder / "tokenizer.json")
        (folder / "train.bin").write_bytes(struct.pack("<4000H", *(i % 65 for i in range(4000))))
        for name, head, body in (("images-idx3", (0x803, 90, 28, 28), bytes(90 * 28 * 28)), ("labels-idx1", (0x801, 90), bytes(range(9)) * 10)):
            (folder / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(struct.pack(f">{len(head)}I", *head) + body))
        for place in ("photos/cat", "photos/dog", "imagenet/train/n01"):
            (folder / place).mkdir(parents=True)
            (folder / place / "1.ppm").write_bytes(b"P6 40 30 255\n" + bytes(3600))
        (folder / "data_batch_1.bin").write_bytes(bytes(2 * 3073))
        (folder / "iris.csv").write_text("length,species\n1.5,setosa\n4.5,virginica\n1.4,setosa\n")
        (folder / "houses.csv").write_text("id,rooms,price\na,3,100000\nb,4,150000\n")
        for name, arrays in (("flow", {"u": (5, 4, 4), "v": (5, 4, 4), "p": (5, 4, 4)}), ("digits", {"x": (6, 8, 8), "y": (6,)})):
            with zipfile.ZipFile(folder / f"{name}.npz", "w") as archive:
                for array, shape in arrays.items():
                    archive.writestr(f"{array}.npy", npy(shape))
        for command in ("distdl data make shapes shapes.h5 --samples 600 --size 12", "cp shapes.h5 other.h5",
                        "distdl run --local -n 1 job.toml --set checkpoint.keep=9 --set checkpoint.mode=sync --set log.trace=1:9",
                        "distdl data import text shakespeare.txt gpt.h5",
                        "distdl run --local -n 1 job.toml --set data.train=gpt.h5 --set run.dir=gpt --set train.steps=1 --set model.name=gpt "
                        "--set model.layers=1 --set model.width=8 --set model.heads=2 --set model.context=8",
                        "cp -r run small", "distdl checkpoint tag 20 best run",
                        "distdl checkpoint export run weights.safetensors --tensors 'parameter/*'",
                        "distdl submit job.toml --dry-run --force --nodes=2 --time=1:00:00 > my.sbatch"):
            done = cls.run_in(folder, command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    @classmethod
    def run_in(cls, folder, command):
        return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=2 * PATIENCE,
                              env={**os.environ, "PATH": f"{DISTDL.parent}:{folder}/bin:{os.environ['PATH']}", "SLURM_JOB_ID": "",
                                   "XDG_STATE_HOME": str(cls.temp / "state")})

    def test_every_command_has_one(self):
        for words, text in self.help.items():
            if words not in WITHOUT_EXAMPLES:
                self.assertTrue(examples(text), words)
            for example in examples(text):
                self.assertTrue(words in example or example.startswith("sbatch"), example)

    def runnable(self):
        found = []
        for text in self.help.values():
            if not commands(text):
                found += [each for each in examples(text) if not each.startswith(ONLY_PARSED)]
        return found

    def run_example(self, number, command):
        """In a copy of what is prepared, without the file that the example makes."""
        folder = self.temp / str(number)
        shutil.copytree(self.temp / "prepared", folder)
        for made in ("shapes.h5", "other.h5", "weights.safetensors"):
            if re.search(rf"(data make shapes|checkpoint export run) {made}", command):
                (folder / made).unlink()
        shown = command
        for large, small in SMALLER:
            command = command.replace(large, small)
        done = self.run_in(folder, command)
        shutil.rmtree(folder)
        return shown, done

    def test_each_does_what_it_shows(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for command, done in pool.map(lambda each: self.run_example(*each), enumerate(self.runnable())):
                with self.subTest(command=command):
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_job_of_local_sgd_trains_groups(self):
        """On one rank and on three, with the same bytes."""
        job = pathlib.Path(__file__).parents[2] / "examples/local_sgd.toml"
        keys = "--set data.holdout=100 --set train.steps=20 --set train.evaluate_every_steps=0"
        digests = set()
        for ranks in (1, 3):
            run = f"local{ranks}"
            done = self.run_in(self.temp / "prepared", f"distdl run --local -n {ranks} {job} {keys} --set run.dir={run} && distdl checkpoint digest {run}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            digests.add(done.stdout.split()[-1])
            shown = self.run_in(self.temp / "prepared", f"distdl checkpoint show {run}").stdout
            self.assertIn("group/first_moment/", shown)
            self.assertIn("outer_momentum/", shown)
        self.assertEqual(len(digests), 1)

    def test_the_jobs_of_a_parameter_server_train(self):
        """Their status has the roles; synchronously they have the bytes of replicas. Compression has bytes of its own."""
        jobs = pathlib.Path(__file__).parents[2] / "examples"
        keys = "--set data.holdout=100 --set train.steps=20"
        digests = {}
        for run, ranks, job in (("bounded", 2, "parameter_server.toml"), ("synchronous", 3, "parameter_server_synchronous.toml"),
                                ("asynchronous", 2, "parameter_server_asynchronous.toml"), ("compressed", 2, "compression.toml"),
                                ("replicas", 2, "parameter_server.toml --set parallel.strategy=replicas")):
            command = f"distdl run --local -n {ranks} {jobs}/{job} {keys} --set run.dir={run} && distdl checkpoint digest {run}"
            done = self.run_in(self.temp / "prepared", command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            digests[run] = done.stdout.split()[-1]
        self.assertEqual(digests["synchronous"], digests["replicas"])
        for other in ("bounded", "asynchronous", "compressed"):
            self.assertNotEqual(digests[other], digests["replicas"], other)
        tasks = json.loads(self.run_in(self.temp / "prepared", "distdl status synchronous --json").stdout)["tasks"]
        self.assertEqual([(each["job"], each["task"], each["rank"]) for each in tasks], [("ps", 0, 2), ("worker", 0, 0), ("worker", 1, 1)])
        shown = self.run_in(self.temp / "prepared", "distdl status bounded --verbose").stdout
        self.assertIn("2 workers on ranks 0 1, 2 servers on ranks 0 1", shown)
        self.assertRegex(shown, r"/job:ps/task:1 +rank 1 ")
        rows = (self.temp / "prepared/bounded/metrics.jsonl").read_text().splitlines()
        updates = sum(sum(json.loads(row).get("staleness", [])) for row in rows)
        self.assertEqual(updates, 2 * 20 * 12, "each microbatch once in each of two ranges")

    def run_job(self, job):
        """The job in a folder of its own, by the command in its comment, with small data and few steps."""
        folder = self.temp / job.stem
        folder.mkdir()
        text = job.read_text()
        is_text = 'train = "text.h5"' in text
        os.link(self.temp / "prepared" / ("gpt.h5" if is_text else "shapes.h5"), folder / re.search(r'train = "(\S+)"', text)[1])
        ranks = re.search(r"distdl run --local -n (\d)", text)
        keys = [f"data.holdout={1000 if is_text else 100}", "train.steps=4", "train.evaluate_every_steps=0"]
        command = f"distdl run --local -n {ranks[1] if ranks else 2} {job} " + " ".join(f"--set {key}" for key in keys)
        return job, self.run_in(folder, command)

    def test_each_job_says_when_to_use_it_and_trains(self):
        jobs = sorted(job for job in EXAMPLES.glob("*.toml") if job.stem not in LARGE_JOBS)
        self.assertGreater(len(jobs), 20)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for job, done in pool.map(self.run_job, jobs):
                with self.subTest(job=job.name):
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    lines = job.read_text().splitlines()
                    self.assertRegex(lines[1], r"^# .*\.$|^# .*:.*$")
                    self.assertTrue(len(lines) <= 15 or job.stem in EXPLAINED_JOBS, len(lines))

    def test_the_index_has_each_example(self):
        index = (EXAMPLES / "README.md").read_text()
        for each in EXAMPLES.iterdir():
            if each.name != "README.md":
                self.assertIn(f"`{each.name}{'/' if each.is_dir() else ''}`", index)

    def test_each_other_one_is_understood(self):
        """An unknown option in its place is the only mistake."""
        for text in self.help.values():
            for command in examples(text):
                if not command.startswith(ONLY_PARSED) or command.startswith("sbatch") or commands(text):
                    continue
                command = command[command.index("distdl "):]
                if command.startswith("distdl submit"):
                    continue  # takes options of sbatch
                done = self.run_in(self.temp, f"{command} --no-such-option")
                self.assertEqual(done.returncode, 64, command)
                self.assertIn('has no option "--no-such-option"', done.stderr)


class FromTheSameTable(unittest.TestCase):
    def test_man_page(self):
        page = distdl("help", "--man").stdout
        self.assertIn(".TH DISTDL 1", page)
        self.assertIn("distdl checkpoint export", page)
        self.assertIn(r"\fB\-n\fR, \fB\-\-ranks\fR \fIINT\fR", page)
        self.assertIn("distdl run \\-\\-local \\-n 4 job.toml", page)
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def complete(self, line):
        """What bash offers after `line`."""
        script = ('source <("$0" completion bash); COMP_LINE=$1; read -ra COMP_WORDS <<< "$1"; [[ $1 != *" " ]] || COMP_WORDS+=("");'
                  'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; _distdl; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, DISTDL, line], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_bash(self):
        with tempfile.TemporaryDirectory() as self.folder:
            pathlib.Path(self.folder, "job.toml").touch()
            pathlib.Path(self.folder, "two words").touch()
            self.assertEqual(self.complete("distdl sta"), ["status"])
            self.assertLessEqual({"run", "checkpoint", "--version"}, set(self.complete("distdl ")))
            self.assertEqual(self.complete("distdl checkpoint imp"), ["import"])
            self.assertEqual(self.complete("distdl checkpoint import s"), ["safetensors"])
            self.assertEqual(self.complete("distdl run --loc"), ["--local"])
            self.assertEqual(self.complete("distdl run j"), ["job.toml"])
            self.assertEqual(self.complete("distdl run job.toml --set train.ep"), ["train.epochs="])
            self.assertEqual(self.complete("distdl checkpoint export run file --format "), ["safetensors", "npz", "view", "onnx", "gguf"])
            self.assertEqual(self.complete("distdl help che"), [""])
            self.assertEqual(self.complete("distdl run tw"), ["two words"])
            self.assertEqual(self.complete("distdl completion "), ["bash", "zsh", "fish"])

    def test_other_shells_understand_their_script(self):
        for shell in ("bash", "zsh", "fish"):
            script = distdl("completion", shell).stdout
            self.assertIn("checkpoint", script)
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)
        self.assertEqual(distdl("completion", "tcsh").returncode, 64)


class InAShell(unittest.TestCase):
    """What zsh and fish themselves offer after a line, in a folder with a job and a run."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "run-lenet").mkdir()
        (self.folder / "job.toml").touch()
        self.environment = {**os.environ, "PATH": f"{DISTDL.parent}:{os.environ['PATH']}", "HOME": folder.name, "TERM": "xterm", "LC_ALL": "C.UTF-8"}

    def fish(self, line):
        done = subprocess.run(["fish", "-c", "distdl completion fish | source; complete -C $argv[1]", line], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [each.split("\t")[0] for each in done.stdout.splitlines()]

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        self.assertLessEqual({"run", "checkpoint", "status"}, set(self.fish("distdl ")))
        self.assertEqual(self.fish("distdl st"), ["status"])
        self.assertEqual(self.fish("distdl checkpoint dig"), ["digest"])
        self.assertEqual(self.fish("distdl run --loc"), ["--local"])
        self.assertEqual(self.fish("distdl run job.toml --set train.ep"), ["train.epochs="])
        self.assertEqual(self.fish("distdl status run"), ["run-lenet/"])
        self.assertEqual(self.fish("distdl metrics export run-lenet --to w"), ["wandb"])
        self.assertEqual(self.fish("distdl completion "), ["bash", "fish", "zsh"])

    def shown(self, leader, until):
        """What the terminal shows, without its escape sequences, once it is of this pattern."""
        text, end = "", time.monotonic() + PATIENCE
        while not re.search(until, text):
            self.assertLess(time.monotonic(), end, f"{until}: {text!r}")
            if select.select([leader], [], [], 0.1)[0]:
                text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text + os.read(leader, 65536).decode(errors="ignore"))
        return text

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        (self.folder / "_distdl").write_text(distdl("completion", "zsh").stdout)
        for way in ("source <(distdl completion zsh)", "true"):  # of the second one the installed file is loaded when it is needed
            fpath = "" if "source" in way else "fpath=($PWD $fpath); "
            leader, follower = pty.openpty()
            shell = subprocess.Popen(["setsid", "--ctty", "--wait", "zsh", "-f", "-i"], cwd=self.folder, stdin=follower, stdout=follower, stderr=follower,
                                     env=self.environment)
            self.addCleanup(shell.wait, PATIENCE)
            self.addCleanup(os.close, leader)
            os.close(follower)
            os.write(leader, f"unsetopt zle_bracketed_paste; PROMPT=; {fpath}autoload -Uz compinit && compinit -D -u; {way}; echo ready-$((1 + 1))\n".encode())
            self.shown(leader, "ready-2")
            for line, offered in (("distdl st", "distdl status "), ("distdl checkpoint dig", "distdl checkpoint digest "), ("distdl run --loc", "--local "),
                                  ("distdl status run", "distdl status run-lenet/"), ("distdl run job.toml --set train.ep", "train.epochs="),
                                  ("distdl completion ", r"bash +fish +zsh"), ("distdl ", r"(?s)cancel .*checkpoint .*watch")):
                with self.subTest(way=way, line=line):
                    os.write(leader, line.encode() + b"\t")
                    self.shown(leader, offered)
                    os.write(leader, b"\x15")  # removes the line


if __name__ == "__main__":
    unittest.main(verbosity=2)
