# SPDX-License-Identifier: Apache-2.0
"""What cmake/ci-selection leaves out of a run of CI is run within five landings, and a change runs all that can notice it."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import project

sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("ci_selection", str(project.ROOT / "cmake/ci-selection"))
SELECTION = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(SELECTION)
PLAIN_ONLY = {"structure", "cluster", "storm", "packaging", "bundle", "examples"}
FILES = {"src/floors.txt": project.read(project.ROOT, "src/floors.txt"), "cmake/sanitizers/landing": "# A comment.\n7\n", "docs/jobs.md": "", "docs/other.md": "",
         "src/comm/a.hpp": "", "src/comm/a.cpp": "", "src/train/b.hpp": "#include <distdl/comm/a.hpp>\n", "src/app/c.hpp": "#include <distdl/train/b.hpp>\n",
         "src/data/d.hpp": "", "tests/submit/lint_test.cpp": 'DISTDL_SOURCE_DIR "/docs/jobs.md"', "CMakeLists.txt": "", ".gitignore": "build/\n"}
HEADERS = ["comm/a", "train/b", "app/c", "data/d"]
ROOMS = [room for line in FILES["src/floors.txt"].splitlines() for room in line.split("#")[0].split()]
FOLDERS = [*ROOMS, "fuzz"]


def above(room):
    lines = [line.split("#")[0].split() for line in FILES["src/floors.txt"].splitlines()]
    lines = [line for line in lines if line]
    floor = next(i for i, line in enumerate(lines) if room in line)
    found = {room, "app", "fuzz", *(each for line in lines[floor + 1:] for each in line)}
    return found | {"hdf5"} if found & {"data", "checkpoint"} else found  # hdf5_test links both


class Clone:
    """A project of few files, with commits and landings."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.git("init", "-q", "-b", "main")
        self.write({**FILES, "build/tests/chosen": "".join(f"{name} {name}_test {name}_program\n" for name in FOLDERS),
                    "build/tests/structure/headers_alone/objects": "".join(f"distdl/{name}.hpp {name}.o\n" for name in HEADERS)})
        self.commit()
        self.land()

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def commit(self, files=None):
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")

    def land(self):
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")

    def advance(self):
        self.select("advance")
        self.commit()

    def select(self, *words):
        SELECTION.ROOT = self.root
        printed, here = io.StringIO(), os.getcwd()
        os.chdir(self.root)
        with contextlib.redirect_stdout(printed):
            SELECTION.main(list(words))
        os.chdir(here)
        return printed.getvalue()

    def debian(self):
        """The names of the tests, and the targets."""
        pattern, _, targets = self.select("debian", "build").partition("\n")
        return pattern.strip("^()$").split("|"), targets.split()

    def tests(self, *words):
        pattern, _, targets = self.select("tests", "build", *words).partition("\n")
        tests = {name.removesuffix("_test") for name in pattern.strip("^()$").split("|") if name}
        assert {name.removesuffix("_program") for name in targets.split()} == tests
        return tests

    def headers(self, *words):
        return {name.removesuffix(".o") for name in self.select("headers", "build", *words).split()}


class CiSelection(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.clone = Clone(folder.name)

    def test_each_folder_of_tests_has_one_share(self):
        of_shares = sum(SELECTION.SHARES, [])
        folders = {name.split("/")[1] for name in project.files() if name.startswith("tests/") and name.endswith("CMakeLists.txt") and name.count("/") > 1}
        self.assertEqual(sorted(of_shares), sorted(folders - PLAIN_ONLY))
        self.assertEqual(sorted(of_shares), sorted(FOLDERS))

    def test_five_landings_in_a_row_run_all_whatever_their_numbers_of_commits(self):
        tests, headers = set(), set()
        for commits in (1, 4, 5, 2, 10):
            for _ in range(commits - 1):
                self.clone.commit()
            self.clone.advance()
            share = self.clone.tests()
            self.assertLess(len(share), len(FOLDERS) / 2)
            self.assertEqual(self.clone.tests("--shed"), set())
            tests |= share
            headers |= self.clone.headers()
            self.clone.land()
        self.assertEqual(tests, set(FOLDERS))
        self.assertEqual(headers, set(HEADERS))

    def test_five_landings_in_a_row_run_all_on_debian_13_whatever_changed(self):
        found, cluster = [], set()
        for path in ("src/data/d.hpp", "docs/other.md", "CMakeLists.txt", "src/comm/a.cpp", "tests/new.hpp"):
            self.clone.commit({path: "changed"})
            self.clone.advance()
            tests, targets = self.clone.debian()
            found += [name for name in tests if not name.startswith("cluster_")]
            cluster |= {name for name in tests if name.startswith("cluster_")}
            self.assertLessEqual({f"{name.removesuffix('_test')}_program" for name in tests if name.endswith("_test")}, set(targets))
            self.clone.land()
        self.assertEqual(sorted(found), sorted(f"{name}_test" for name in FOLDERS))
        self.assertEqual(len(cluster), 2)
        listing = project.read(project.ROOT, "tests/cluster/CMakeLists.txt")
        for name in cluster:
            self.assertRegex(listing, rf"\b{name.removeprefix('cluster_')}\b")

    def test_debian_13_has_no_proofs_and_no_peers(self):
        self.clone.write({"build/tests/chosen": "".join(f"{name} {name}_test {name}_program\n{name} {name}_mutants_test {name}_mutants\n{name} {name}_torch\n" for name in FOLDERS)})
        self.assertFalse([name for name in self.clone.debian()[0] if "mutants" in name or "torch" in name])

    def test_change_in_a_room_runs_the_room_and_those_above_it(self):
        for path, room in (("src/comm/a.cpp", "comm"), ("tests/data/x.cpp", "data"), ("kernels/cuda/x.cu", "kernels"), ("tests/fuzz/x.cpp", "app")):
            self.clone.commit({path: "changed"})
            self.clone.advance()
            self.assertEqual(self.clone.tests("--shed"), above(room), path)
            self.clone.land()

    def test_file_that_is_removed_counts_as_changed(self):
        (self.clone.root / "src/data/d.hpp").unlink()
        self.clone.advance()
        self.assertEqual(self.clone.tests("--shed"), above("data"))

    def test_change_that_is_not_committed_counts(self):
        self.clone.advance()
        self.clone.write({"src/data/d.hpp": "int a;"})
        self.assertEqual(self.clone.tests("--shed"), above("data"))
        self.clone.write({"src/train/new.cpp": ""})
        self.assertEqual(self.clone.tests("--shed"), above("data") | {"train"})

    def test_headers_are_those_that_changed_and_those_that_include_them(self):
        self.clone.commit({"src/train/b.hpp": "#include <distdl/comm/a.hpp>\nint a;\n"})
        self.clone.advance()
        self.assertEqual(self.clone.headers("--shed"), {"train/b", "app/c"})

    def test_file_whose_readers_are_not_known_runs_all(self):
        for path in ("CMakeLists.txt", "cmake/New.cmake", "tests/new.hpp", "src/floors.txt", "new/file"):
            self.clone.commit({path: FILES["src/floors.txt"] + "# changed\n"})
            self.clone.advance()
            self.assertEqual(self.clone.tests("--shed"), set(FOLDERS), path)
            self.assertEqual(self.clone.headers("--shed"), set(HEADERS), path)
            self.assertIn(path, self.clone.select("plan"))
            self.clone.land()

    def test_document_runs_the_tests_that_name_it(self):
        self.clone.commit({"docs/jobs.md": "changed", "docs/other.md": "changed"})
        self.clone.advance()
        self.assertEqual(self.clone.tests("--shed"), {"submit"})

    def test_landing_whose_number_is_not_advanced_by_one_runs_all(self):
        self.clone.commit()
        self.assertEqual(self.clone.tests(), set(FOLDERS))
        self.clone.advance()
        self.clone.advance()
        self.assertEqual(self.clone.tests(), set(FOLDERS))
        self.assertIn("not advanced by one", self.clone.select("plan"))

    def test_without_origin_the_base_is_where_the_number_was_advanced_before(self):
        self.clone.advance()
        self.clone.commit({"src/data/d.hpp": "int a;"})
        self.clone.commit()
        self.clone.advance()
        self.clone.git("update-ref", "-d", "refs/remotes/origin/main")
        self.assertEqual(self.clone.tests("--shed"), above("data"))
        self.clone.commit()  # HEAD does not advance it: the landing's first commit is not known
        self.assertEqual(self.clone.tests(), set(FOLDERS))
        self.assertEqual(self.clone.select("base"), "\n")

    def test_clone_that_is_not_deep_runs_all(self):
        self.clone.commit({"src/data/d.hpp": "int a;"})
        self.clone.commit()
        self.clone.advance()
        for depth in ("1", "2"):
            with tempfile.TemporaryDirectory() as folder:
                self.clone.git("clone", "-q", "--depth", depth, f"file://{self.clone.root}", folder)
                shallow = Clone.__new__(Clone)
                shallow.root = pathlib.Path(folder)
                shallow.write({"build/tests/chosen": "data data_test data_program\n"})
                self.assertEqual(shallow.tests("--shed"), {"data"})
                self.assertIn("not known", shallow.select("plan"))


if __name__ == "__main__":
    project.main()
