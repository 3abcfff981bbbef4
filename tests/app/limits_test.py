# SPDX-License-Identifier: Apache-2.0
"""Short of memory, descriptors, processes, stack or file size, distdl names the limit, or leaves the same bytes. It never
takes the shortage for damage, and never crashes. DISTDL_LIMITS=1 tries all limits in many steps, with 1 to 4 ranks."""
import json
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import unittest

from program import DISTDL, OTHERS_END, ProgramTest, become, error_lines

ALL = bool(os.environ.get("DISTDL_LIMITS"))
STRANGER = 61234  # a user who has no other processes; root has no limit of processes
KIB = 1024
# What the message about a shortage says.
NAMES = {
    "v": r"ulimit -v|shared memory|Cannot allocate memory|memory",
    "n": r"ulimit -H?n",
    "u": r"ulimit -u",
    "f": r"ulimit -f",
    "s": r"ulimit -s",
    "pids.max": r"pids\.max",
}
RESOURCES = {"v": (resource.RLIMIT_AS, KIB), "n": (resource.RLIMIT_NOFILE, 1), "u": (resource.RLIMIT_NPROC, 1),
             "f": (resource.RLIMIT_FSIZE, KIB), "s": (resource.RLIMIT_STACK, KIB)}
STEPS = {
    "v": [*range(60_000, 320_000, 10_000), *range(350_000, 1_000_000, 150_000)],
    "n": [3, 6, 10, 15, 20, 30, 40, 50, 56, 60, 64, 72, 80, 100],
    "u": [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64],
    "f": [0, 1, 4, 16, 64, 256, 1024],
    "s": [16, 64, 128, 256, 512, 1024, 4096],
    "pids.max": [2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48],
}
FEW = {"v": [97_000, 120_000], "n": [6, 40], "u": [12], "f": [1], "s": [64], "pids.max": []}
LOADER = "error while loading shared libraries"


class Limits(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.counts = {}

    @classmethod
    def tearDownClass(cls):
        for (kind, outcome), count in sorted(cls.counts.items()):
            print(f"{kind}: {outcome}: {count}")

    def setUp(self):
        super().setUp()
        self.make_set()
        self.is_stranger_able = os.geteuid() == 0 and self.can_become(STRANGER)
        self.group = None
        if ALL:
            self.make_pids_group()

    def make_pids_group(self):
        folder = pathlib.Path(f"/sys/fs/cgroup/pids/distdl-{os.getpid()}")
        if not folder.parent.is_dir():
            folder = pathlib.Path(f"/sys/fs/cgroup/distdl-{os.getpid()}")
        try:
            folder.mkdir()
            (folder / "pids.max").read_text()
        except OSError:
            return
        self.group = folder
        self.addCleanup(self.remove_group)

    def remove_group(self):
        self.group.rmdir()

    def whole(self):
        """Makes the folder of a run that has trained for a while. Returns the digest of where it ends without limits."""
        self.succeed(*self.run_local(2, "--set", "run.dir=whole"))
        self.succeed(*self.run_local(2, "--set", "run.dir=begun", "--set", "train.end_at_step=40"))
        return self.digest("whole")

    def under(self, kind, value):
        """Prepares the process that becomes distdl."""
        def prepare():
            if kind == "pids.max":
                (self.group / "cgroup.procs").write_text(str(os.getpid()))
                return
            if kind == "u":
                become(STRANGER)
            number, unit = RESOURCES[kind]
            resource.setrlimit(number, (value * unit, value * unit))
        if kind == "pids.max":
            (self.group / "pids.max").write_text(str(value))
        return prepare

    def hand_over(self):
        if os.geteuid() == 0:
            for path in [self.folder, *self.folder.rglob("*")]:
                os.lchown(path, STRANGER, STRANGER)

    def attempt(self, kind, value, *words):
        """Runs a command under a limit. Returns its code, which is 0, 74 or 78 with the limit's name."""
        if kind == "u":
            self.hand_over()
        code, out, err = self.distdl(*words, preexec_fn=self.under(kind, value))
        about = f"{kind} {value}: distdl {' '.join(map(str, words))}: code {code}\n{out[-500:]}{err[-3000:]}"
        # With a stack of 16 KiB the kernel or the loader ends most programs.
        if LOADER in err or (code == 127 and not err) or (kind == "s" and code in (-9, -11) and value < 64 and not err):
            outcome = "the program cannot be loaded"
        elif code == 0:
            outcome = "done"
        else:
            outcome = f"code {code}"
            self.assertIn(code, (74, 78), about)
            if (kind, value) != ("f", 0):  # the message is in a file
                self.assertRegex("\n".join(error_lines(err)), NAMES[kind], about)
        for word in ("internal error", "terminate called", "assertion", "Assertion", "quarantine", "relaunch", "Caught signal"):
            self.assertNotIn(word, err, about)
        self.counts[kind, outcome] = self.counts.get((kind, outcome), 0) + 1
        return code

    def steps(self, kind):
        return STEPS[kind] if ALL else FEW[kind]

    def kinds(self):
        for kind in RESOURCES:
            if kind == "u" and not self.is_stranger_able:
                print("the program cannot be run as a user who has no other processes: ulimit -u is left out")
                continue
            yield kind
        if self.group:
            yield "pids.max"
        elif ALL:
            print("no control group can be made here: pids.max is left out")

    def check_folder(self, run, digest, ranks):
        """Nothing is lost: without the limit the run goes on to the same bytes, and no checkpoint was set aside."""
        self.assertFalse((self.folder / run / "checkpoints" / "quarantine").exists())
        if ALL:
            self.succeed(*self.run_local(ranks, "--set", f"run.dir={run}"))
        self.assertEqual(self.digest(run), digest if ALL else self.digest("begun"))

    def test_runs_name_the_limit_or_leave_the_same_bytes(self):
        digest = self.whole()
        for kind in self.kinds():
            for number, value in enumerate(self.steps(kind)):
                for ranks in (1, 2, 3, 4) if ALL else (1 + number % 2,):
                    for resumes in (False, True) if ALL else (True,):
                        with self.subTest(kind=kind, value=value, ranks=ranks, resumes=resumes):
                            if resumes:
                                shutil.copytree(self.folder / "begun", self.folder / "run")
                            (self.folder / "run").mkdir(exist_ok=True)
                            more = ("--set", "run.relaunches=3")
                            if self.attempt(kind, value, *self.run_local(ranks, *more)) == 0:
                                self.assertEqual(self.digest(), digest)
                            elif resumes or ALL:
                                self.check_folder("run", digest, ranks)
                        shutil.rmtree(self.folder / "run", ignore_errors=True)

    def test_addresses_that_suffice_do_so_each_time(self):
        """Arenas of malloc would take 64 MiB of them for some threads, by chance."""
        for number in range(3):
            job = self.run_local(4, "--set", f"run.dir=run-{number}", "--set", "train.steps=5", "--set", "run.relaunches=0")
            self.assertEqual(self.attempt("v", 300_000, *job), 0)

    def make_large_manifest(self, tensors=25_000):
        """Its manifest has several MB."""
        header, at = {}, 0
        for number in range(tensors):
            header[f"layer/{number:06}/a-name-of-some-length-as-models-of-many-layers-have-them/weight"] = {
                "dtype": "F32", "shape": [1], "data_offsets": [at, at + 4]}
            at += 4
        text = json.dumps(header).encode()
        (self.folder / "w.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
        self.succeed("checkpoint", "import", "safetensors", "w.safetensors", "large/checkpoints")

    def test_commands_on_checkpoints_take_no_shortage_for_damage(self):
        self.make_large_manifest()
        commands = [("checkpoint", "verify", "large"), ("checkpoint", "verify", "--deep", "large"), ("checkpoint", "ls", "large"),
                    ("checkpoint", "diff", "large", "large"), ("checkpoint", "digest", "large")]
        for kind in self.kinds() if ALL else "vn":
            if kind == "f":
                continue  # they write nothing
            for value in range(80_000, 200_000, 2_000 if ALL else 10_000) if kind == "v" else self.steps(kind):
                for words in commands if ALL else commands[:1] if kind == "v" else commands[1:2]:
                    with self.subTest(kind=kind, value=value, words=words):
                        self.attempt(kind, value, *words)
        self.assertFalse(any(self.folder.rglob("quarantine")))


if __name__ == "__main__":
    unittest.main()
