# SPDX-License-Identifier: Apache-2.0
"""The wheel: one for every Python, installed into a new environment without a compiler; types that mypy --strict accepts."""
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import environment

environment.need("numpy", "setuptools", "pip")
if int(importlib.metadata.version("setuptools").split(".")[0]) < 71:  # which has it no longer apart
    environment.need("wheel")


class Package(environment.Case):
    def call(self, *command, cwd=None, **variables):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd or self.folder,
                              env={**os.environ, "PYTHONPATH": "", **variables})
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_a_wheel_in_an_environment_without_a_compiler(self):
        source = self.folder / "source"
        shutil.copytree(environment.PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
        self.call(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", self.folder, source)
        wheel = self.folder / f"distdl-{self.version()}-py3-none-any.whl"
        self.assertTrue(wheel.exists(), list(self.folder.glob("*.whl")))
        self.call(sys.executable, "-m", "venv", self.folder / "venv")
        python = self.folder / "venv/bin/python"
        self.call(python, "-m", "pip", "install", "--no-index", wheel, PATH=str(python.parent))
        told = self.call(python, "-c", "import distdl, pathlib; print(distdl.Communicator().size, distdl.__version__, "
                                       "pathlib.Path(distdl.__file__).with_name('py.typed').exists())", PATH=str(python.parent))
        self.assertEqual(f"1 {self.version()} True\n", told)

    def test_cmake_writes_the_same_metadata(self):
        from importlib.metadata import PathDistribution
        source = self.folder / "source"
        shutil.copytree(environment.PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
        self.call(sys.executable, "-c", "import setuptools; setuptools.setup(script_args=['-q', 'egg_info'])", cwd=source)
        theirs, = map(PathDistribution, source.glob("*.egg-info"))
        ours = PathDistribution(environment.BUILD / "python")
        for field in ("Name", "Version", "Summary", "Requires-Python", "Provides-Extra", "License"):
            self.assertEqual(theirs.metadata.get_all(field), ours.metadata.get_all(field), field)
        theirs_need, ours_need = ({text.replace(" ", "") for text in each.requires} for each in (theirs, ours))
        self.assertEqual(theirs_need, ours_need)
        self.assertEqual(set(theirs.entry_points), set(ours.entry_points))

    def version(self):
        project = (environment.ROOT / "CMakeLists.txt").read_text()
        return project.split("project(distdl VERSION ")[1].split()[0]

    def test_every_python_from_3_9_reads_it(self):
        import ast
        for path in sorted(pathlib.Path(environment.PACKAGE, "distdl").rglob("*.py")):
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))

    @unittest.skipUnless(importlib.util.find_spec("mypy") and environment.has_torch("2.15"), f"no mypy, or no torch 2.15, for {sys.executable}")
    def test_types(self):
        self.call(sys.executable, "-m", "mypy", "--config-file", environment.PACKAGE / "pyproject.toml", "--cache-dir", self.folder,
                  MYPYPATH=str(environment.PACKAGE))


if __name__ == "__main__":
    environment.main()
