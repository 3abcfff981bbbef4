#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a program, unpacks it elsewhere, and runs it with an empty environment: all its libraries but glibc's must come
from the bundle.

usage: bundle_test.py BUNDLE_SCRIPT BUILD_FOLDER PROGRAM
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import ending  # noqa: E402

SCRIPT, BUILD, PROGRAM = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
GLIBC = re.compile(r"/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|mvec))\.so[^/]*$")
CUDA = re.compile(r"lib(cu|nv|nccl)[^/]*\.so")


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        subprocess.run([SCRIPT, "--build", BUILD, "--output", root / "bundle.tar.gz", PROGRAM, "distdl"], check=True)
        with tarfile.open(root / "bundle.tar.gz") as archive:
            archive.extractall(root / "else where")
        cls.root, cls.bundle = root, root / "else where" / "distdl-bundle"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_bare(self, *command, **environment):
        return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=120)

    def test_program_runs_with_an_empty_environment(self):
        done = self.run_bare(self.bundle / "bin" / PROGRAM, "--gtest_filter=LayerSpec*")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"PASSED  \] [1-9]")

    def test_libraries_come_from_the_bundle(self):
        done = self.run_bare(self.bundle / "bin" / PROGRAM, "--gtest_list_tests", LD_DEBUG="files")
        self.check_loaded(done.stderr)

    def check_loaded(self, ld_debug):
        loaded = re.findall(r"calling init: (/\S.*)", ld_debug)
        self.assertGreater(len(loaded), 3, ld_debug)
        strangers = [file for file in loaded if not file.startswith(f"{self.bundle}/") and not GLIBC.search(file)]
        self.assertEqual(strangers, [])
        return loaded

    def test_two_ranks_train_with_libraries_from_the_bundle(self):
        program, data = self.bundle / "bin" / "distdl", self.root / "shapes.h5"
        done = self.run_bare(program, "data", "make", "shapes", data, "--samples", "1200")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_bare(
            program, "run", "--local", "-n", "2", self.bundle / "examples" / "mlp.toml", "--set", "train.epochs=1",
            "--set", "data.holdout=100", "--set", f"data.train={data}", "--set", f"run.dir={self.root}/run",
            LD_DEBUG="files", LD_DEBUG_OUTPUT=f"{self.root}/loaded")
        self.assertEqual(done.returncode, 0, done.stderr)
        processes = [self.check_loaded(file.read_text()) for file in self.root.glob("loaded.*")]
        with_transports = [files for files in processes if any("/lib/ucx/libuct_" in file for file in files)]
        self.assertEqual((len(processes), len(with_transports)), (3, 2))

    def test_notices_of_the_libraries_are_there(self):
        licences = {file.name for file in (self.bundle / "licences").iterdir()}
        self.assertLessEqual({"LICENSE", "third-party-licences.txt", "distdl.spdx.json"}, licences)
        if not shutil.which("dpkg-query"):
            self.skipTest("the notices of libraries are those of Debian packages")
        for library in self.bundle.glob("lib/libucp.so*"):
            self.assertIn("libucx0", licences, library)
        self.assertGreater(len(licences), 10)

    def test_no_search_in_the_working_folder(self):
        for file in [self.bundle / "bin" / PROGRAM, *self.bundle.glob("lib/distdl/*.so")]:
            dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
            path, = re.findall(r"path: \[(.*)\]", dynamic)
            self.assertTrue(all(path.split(":")), path)

    def test_plugins_find_their_libraries_in_the_bundle(self):
        for plugin in self.bundle.glob("lib/distdl/*.so"):
            for name, where in re.findall(r"^\s*(\S+) => (.+?) \(", self.run_bare("/usr/bin/ldd", plugin).stdout, re.M):
                if not CUDA.match(name) and not GLIBC.search(where):
                    self.assertIn(str(self.bundle.parent), str(pathlib.Path(where).resolve()), f"{plugin} {name}")

    def test_a_program_that_was_not_built_is_an_error(self):
        done = subprocess.run([SCRIPT, "--build", BUILD, "no_such_program"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no_such_program", done.stderr)


if __name__ == "__main__":
    ending.watch()
    unittest.main(argv=sys.argv[:1])
