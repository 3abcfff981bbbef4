# SPDX-License-Identifier: Apache-2.0
"""Python programs on ranks of this machine, by "distdl run --local". A test skips, visibly, what the machine lacks."""
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/python"
BUILD = pathlib.Path(os.environ["DISTDL_BUILD_DIR"]).resolve()
DISTDL = BUILD / "bin/distdl"
LIBRARY = BUILD / "lib/libdistdl.so"
PATIENCE = 300  # seconds, for what should take a few: torch begins slowly on a machine with much to do
VARIABLES = {"DISTDL_LIBRARY": str(LIBRARY), "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}

sys.path[:0] = [str(ROOT / "tests"), str(PACKAGE)]
os.environ.update(VARIABLES)
import ending  # noqa: E402


def has_torch(version):
    """Or a later one."""
    return importlib.util.find_spec("torch") is not None and numbers(importlib.metadata.version("torch")) >= numbers(version)


def need(*modules, torch="1.13"):
    """Ends the script with 77 where one of them, or the library, is missing. torch: the least version, if it is one of them."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if "torch" in modules and not missing and not has_torch(torch):
        missing.append(f"torch of version {torch} or later")
    if not LIBRARY.exists():
        missing.append(str(LIBRARY))
    if missing:
        print(f"skipped: no {', '.join(missing)} for {sys.executable}")
        sys.exit(77)


def numbers(version):
    """Of the major and the minor version."""
    return [int(part) for part in version.split(".")[:2]]


def main():
    ending.watch()
    unittest.main(verbosity=2)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="distdl-python-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, name, source):
        path = self.folder / name
        path.write_text(textwrap.dedent(source))
        return path

    def launch(self, count, program, *arguments, run="run", options=(), variables=None, code=0):
        """What the ranks of a program printed, in the run folder `run` of the test's folder."""
        command = [DISTDL, "run", "--local", "-n", count, "--set", f"run.dir={self.folder / run}", "--set", "run.relaunches=0",
                   *options, "--", sys.executable, program, *arguments]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder,
                              env={**os.environ, **(variables or {})})
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def ranks(self, count, source, *arguments, **more):
        """The same for a program that is given as text."""
        return self.launch(count, self.write("program.py", source), *arguments, **more)

    def told(self, output, word):
        """What ranks printed after this word at the beginning of a line, sorted."""
        return sorted(re.findall(rf"(?m)^(?:\[\d+\] )?{word} (.*)$", output))

    def rows(self, name, run="run"):
        return [json.loads(line) for line in (self.folder / run / name).read_text().splitlines()]
