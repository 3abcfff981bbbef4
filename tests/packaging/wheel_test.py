# SPDX-License-Identifier: Apache-2.0
"""The wheels of cmake/wheel. The one with the library is installed by pip into a new environment, where neither a compiler nor another distdl is
found, and two ranks save and load a checkpoint there."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

import install_tree
from install_tree import BUILD, cache, project, run

# Which files of ours, and of what ours need, a process has loaded from elsewhere.
PROGRAM = """
import pathlib, sys
import distdl
world = distdl.world()
with distdl.Checkpoint(sys.argv[1]) as checkpoint:
    checkpoint.save(3, {"step": 3, "names": ["a", "b"], "bytes": b"\\0\\1"}, how="now")
    assert checkpoint.load() == {"step": 3, "names": ["a", "b"], "bytes": b"\\0\\1"}
package = pathlib.Path(distdl.__file__).parent
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
ours = ("libdistdl", "libuc", "libpmix", "libhdf5", "libfmt", "libboost")
strangers = [file for file in loaded if pathlib.Path(file).name.startswith(ours) and not file.startswith(f"{package}/")]
print(f"rank {world.rank} of {world.size}, strangers {strangers}", flush=True)
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install_tree.needs_plain_build()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        run(sys.executable, project.ROOT / "cmake" / "wheel", "--build", BUILD, "--output", cls.folder / "wheels")
        cls.version = cache("CMAKE_PROJECT_VERSION")
        cls.pure = cls.folder / "wheels" / f"distdl-{cls.version}-py3-none-any.whl"
        cls.native, = (cls.folder / "wheels").glob("*-manylinux_2_*.whl")

    def environment(self, name, wheel):
        """A new environment's folder of programs, with the wheel installed."""
        for module in ("pip", "ensurepip", "venv"):
            if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode != 0:
                self.skipTest(f"no {module} for {sys.executable}")
        run(sys.executable, "-m", "venv", self.folder / name)
        programs = self.folder / name / "bin"
        self.bare(programs, "python", "-m", "pip", "install", "--no-index", wheel)
        return programs

    def bare(self, programs, command, *arguments, expect=0):
        """What a command of the environment prints. Nothing else is on PATH, and no variable tells where a distdl is."""
        variables = {"PATH": str(programs), "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        return run(programs / command, *arguments, expect=expect, env=variables, cwd=self.folder)

    def test_ranks_in_an_environment_with_the_library(self):
        programs = self.environment("native", self.native)
        self.assertIn(f"distdl {self.version}", self.bare(programs, "distdl", "version"))
        told = self.bare(programs, "python", "-c", "import distdl; print(distdl.Communicator().size, distdl.__version__)")
        self.assertEqual(told, f"1 {self.version}\n")
        (self.folder / "program.py").write_text(PROGRAM)
        told = self.bare(programs, "distdl", "run", "--local", "-n", "2", "--set", f"run.dir={self.folder}/run", "--",
                         "python", "program.py", self.folder / "checkpoints")
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2, strangers []", told)
        self.assertIn(": ok", self.bare(programs, "distdl", "checkpoint", "verify", self.folder / "checkpoints"))

    def test_pure_wheel_says_what_is_missing(self):
        programs = self.environment("pure", self.pure)
        self.assertEqual(self.bare(programs, "python", "-c", "import distdl; print(distdl.run.rank())"), "0\n")
        told = self.bare(programs, "python", "-c", "import distdl; distdl.Communicator()", expect=None)
        self.assertRegex(told, r"LibraryNotFound: cannot load libdistdl\.so.*: install distdl, or set DISTDL_LIBRARY")

    def test_licences_are_inside(self):
        with zipfile.ZipFile(self.native) as archive:
            names = set(archive.namelist())
        licences = f"distdl-{self.version}.dist-info/licenses"
        self.assertLessEqual({f"{licences}/{name}" for name in ("LICENSE", "third-party-licences.txt", "distdl.spdx.json")}, names)
        self.assertFalse([name for name in names if "libstdc++" in name or name.endswith("/libc.so.6") or "slurm" in name])

    def test_same_build_gives_same_bytes(self):
        run(sys.executable, project.ROOT / "cmake" / "wheel", "--build", BUILD, "--output", self.folder / "again")
        for wheel in (self.pure, self.native):
            self.assertEqual(wheel.read_bytes(), (self.folder / "again" / wheel.name).read_bytes(), wheel.name)


if __name__ == "__main__":
    project.main()
