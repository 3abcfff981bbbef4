# SPDX-License-Identifier: Apache-2.0
"""The same package with Debian's python3-torch, an old one: it needs no download, and is there beside a newer one."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

import environment

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
if os.path.realpath(sys.executable) == os.path.realpath(PYTHON) and importlib.util.find_spec("torch"):
    print(f"skipped: the other tests use {PYTHON}")
    sys.exit(77)
found = subprocess.run([PYTHON, "-c", "import numpy, torch; print(torch.__version__)"], capture_output=True, text=True)
if found.returncode != 0 or environment.numbers(found.stdout) < [1, 13]:
    print(f"skipped: no torch of version 1.13 or later, or no numpy, for {PYTHON} (python3-torch)")
    sys.exit(77)


class DebianTorch(unittest.TestCase):
    def run_script(self, name):
        done = subprocess.run([PYTHON, HERE / f"{name}_test.py"], capture_output=True, text=True, timeout=environment.PATIENCE)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_checkpoint(self):
        self.run_script("checkpoint")

    def test_positions(self):
        self.run_script("positions")

    def test_backend(self):
        self.run_script("torch")

    def test_fixed_sum(self):
        self.run_script("fixed_sum")

    def test_what_it_lacks_is_named(self):
        told = subprocess.run([PYTHON, "-c", "import distdl.torch; distdl.torch.Writer"], capture_output=True, text=True)
        if environment.numbers(found.stdout) < [2, 1]:
            self.assertIn(f"ImportError: distdl.torch.Writer needs torch 2.1 or later, not {found.stdout.strip()}", told.stderr)
        else:
            self.assertEqual(0, told.returncode, told.stderr)


if __name__ == "__main__":
    environment.main()
