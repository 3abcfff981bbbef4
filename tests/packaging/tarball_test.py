# SPDX-License-Identifier: Apache-2.0
"""A release has the same bytes however often it is made, and configures without a network and without a .git folder."""

import hashlib
import os
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
            archive = self.release(temp / "dist")
            with tarfile.open(archive) as tar:
                tar.extractall(temp)
            root = temp / archive.name.removesuffix(".tar.gz")
            output = run(*offline(), cache("CMAKE_COMMAND"), "-S", root, "-B", temp / "build",
                         "-G", cache("CMAKE_GENERATOR"), f"-DCMAKE_CXX_COMPILER={cache('CMAKE_CXX_COMPILER')}",
                         "-DDISTDL_CUDA=OFF")  # whose compiler takes long to try
            self.assertIn("Build files have been written", output)
            for name in ("LICENSE", "CMakePresets.json", "src/floors.txt"):
                self.assertTrue((root / name).exists(), name)
            run(root / "cmake" / "dist", temp / "none", expect=1)  # an unpacked release makes no other

    def test_same_commit_gives_same_bytes(self):
        if not (project.ROOT / ".git").exists():
            self.skipTest("this is not a git checkout")
        with tempfile.TemporaryDirectory() as folder:
            first, second = (self.release(pathlib.Path(folder, name), umask=umask).read_bytes() for name, umask in (("a", 0o022), ("b", 0o077)))
            self.assertEqual(first, second)

    def test_link_or_fifo_in_the_place_of_a_file_is_replaced(self):
        if not (project.ROOT / ".git").exists():
            self.skipTest("this is not a git checkout")
        with tempfile.TemporaryDirectory() as folder:
            dist, target = pathlib.Path(folder, "dist"), pathlib.Path(folder, "target")
            names = [file.name for file in self.release(dist).parent.iterdir()]
            target.write_text("mine")
            for name in names:
                (dist / name).unlink()
                os.mkfifo(dist / name) if name.endswith(".eb") else (dist / name).symlink_to(target)
            (dist / "mine.eb").write_text("mine")
            self.release(dist)
            self.assertEqual([target.read_text(), (dist / "mine.eb").read_text()], ["mine", "mine"])
            self.assertTrue(all((dist / name).is_file() and not (dist / name).is_symlink() for name in names))

    def release(self, folder, **options):
        """The archive that cmake/dist writes, whose checksum, printed line and easyconfigs are right."""
        path, line = run(project.ROOT / "cmake" / "dist", folder, **options).splitlines()
        archive = pathlib.Path(path)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        self.assertEqual(archive.with_name(archive.name + ".sha256").read_text(), f"{digest}  {archive.name}\n")
        version = archive.name.removeprefix("distdl-").removesuffix(".tar.gz")
        self.assertEqual(line, f'version("{version}", url="file://{archive}", sha256="{digest}")')
        for kind in ("", "-GCC-14.3.0"):
            recipe = {}
            exec(archive.with_name(f"distdl-{version}{kind}.eb").read_text(), {"SHLIB_EXT": "so", "SYSTEM": "system"}, recipe)  # as EasyBuild does
            self.assertEqual((recipe["version"], recipe["checksums"]), (version, [digest]))
        return archive

    def test_project_downloads_nothing(self):
        self.clean(downloads)

    def test_finds_download(self):
        self.finds(downloads, {"CMakeLists.txt": "include(FetchContent)\n", "cmake/a.cmake": "find_package(fmt)\n"},
                   "FetchContent")


if __name__ == "__main__":
    project.main()
