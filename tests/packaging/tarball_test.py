# SPDX-License-Identifier: Apache-2.0
"""A tarball of the committed files configures without a network and without a .git folder."""

import pathlib
import re
import subprocess
import tarfile
import tempfile
import unittest

import install_tree
from install_tree import cache, project, run


def offline():
    """A command prefix that takes the network away, where the machine allows it."""
    prefix = ["unshare", "--net"]
    try:
        return prefix if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0 else []
    except FileNotFoundError:
        return []


def downloads(root):
    """Places where CMake would fetch something."""
    pattern = re.compile(r"\b(FetchContent|ExternalProject_Add|file\s*\(\s*DOWNLOAD|CPM\w*)\b", re.IGNORECASE)
    return [f"{name}: {match.group(0)}" for name in project.files(root)
            if name.endswith((".cmake", "CMakeLists.txt")) and (match := pattern.search(project.read(root, name)))]


class Tarball(project.CheckCase):
    def test_configures_offline(self):
        if not (project.ROOT / ".git").exists():
            self.skipTest("this is not a git checkout")
        with tempfile.TemporaryDirectory() as folder:
            temp = pathlib.Path(folder)
            archive = run("git", "-C", project.ROOT, "archive", "--prefix=distdl/", "-o", temp / "distdl.tar", "HEAD")
            self.assertEqual(archive, "")
            with tarfile.open(temp / "distdl.tar") as tar:
                tar.extractall(temp)
            output = run(*offline(), cache("CMAKE_COMMAND"), "-S", temp / "distdl", "-B", temp / "build",
                         "-G", cache("CMAKE_GENERATOR"), f"-DCMAKE_CXX_COMPILER={cache('CMAKE_CXX_COMPILER')}",
                         "-DDISTDL_CUDA=OFF")  # whose compiler takes long to try
            self.assertIn("Build files have been written", output)
            for name in ("LICENSE", "CMakePresets.json", "src/floors.txt"):
                self.assertTrue((temp / "distdl" / name).exists(), name)

    def test_project_downloads_nothing(self):
        self.clean(downloads)

    def test_finds_download(self):
        self.finds(downloads, {"CMakeLists.txt": "include(FetchContent)\n", "cmake/a.cmake": "find_package(fmt)\n"},
                   "FetchContent")


if __name__ == "__main__":
    project.main()
