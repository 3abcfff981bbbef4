# SPDX-License-Identifier: Apache-2.0
"""The project's files as the checks see them, and how a script of unittest cases becomes one ctest."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import ending  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = ("src/", "kernels/", "checkpoint/")
CXX = (".hpp", ".cpp", ".cu", ".cuh", ".h", ".c", ".in.hpp")
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def files(root=ROOT):
    """Paths of all files that belong to the project, relative to `root`: what git tracks or would track; in an
    unpacked tarball everything but build folders."""
    root = pathlib.Path(root)
    if (root / ".git").exists():
        listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"],
                                 check=True, capture_output=True, text=True).stdout
        names = [name for name in listing.split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or path.is_symlink()]
        names = [name for name in names if not re.match(r"build|run|\.cache/|.*__pycache__/", name)]
    return sorted(name for name in names if (root / name).is_file())


def cxx_files(root=ROOT, under=("",)):
    return [name for name in files(root) if name.endswith(CXX) and name.startswith(tuple(under))]


def read(root, name):
    return (pathlib.Path(root) / name).read_text(encoding="utf-8", errors="replace")


_TOKENS = re.compile(r"""
      (?P<keep>\b[0-9][0-9a-zA-Z.']*)                        # numbers, with their digit separators
    | R"(?P<fence>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=fence)"  # raw strings
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    | //[^\n]* | /\*(?:.|\n)*?\*/""", re.VERBOSE)


def code_of(text):
    """C++ text with comments and literals blanked out; line numbers stay."""
    return _TOKENS.sub(lambda m: m.group(0) if m.group("keep") else re.sub(r"[^\n]", " ", m.group(0)), text)


def literals_of(text):
    """(line, text) of each string literal of a C++ file."""
    for match in _TOKENS.finditer(text):
        if match.group(0).startswith(('"', "R")):
            yield text.count("\n", 0, match.start()) + 1, match.group(0)


class CheckCase(unittest.TestCase):
    """Base of the checks: `clean` checks the project, `finds` checks a bad example in a temporary tree."""

    def clean(self, check):
        problems = check(ROOT)
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def problems_in(self, check, tree):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tree.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check(pathlib.Path(folder))

    def finds(self, check, tree, *expected):
        """Exactly one problem, which names all of `expected`."""
        problems = self.problems_in(check, tree)
        self.assertEqual(len(problems), 1, problems)
        for part in expected:
            self.assertIn(part, problems[0])

    def accepts(self, check, tree):
        self.assertEqual(self.problems_in(check, tree), [])


def require_tool(*names):
    """The first of the programs that is installed, or a visible skip."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise unittest.SkipTest(f"{' or '.join(names)} is not installed")


def main():
    """Runs the calling script's cases; exit code 1 on failure, 77 if nothing was left to check."""
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    ending.watch()
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    for case, reason in result.skipped:
        print(f"skipped: {case}: {reason}", file=sys.stderr)
    # A class that skips as a whole is in `skipped`, but not counted as run.
    checked = result.testsRun - sum(isinstance(case, unittest.TestCase) for case, _ in result.skipped)
    if not result.wasSuccessful() or checked + len(result.skipped) == 0:
        sys.exit(1)
    sys.exit(0 if checked else SKIPPED)
