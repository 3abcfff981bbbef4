# SPDX-License-Identifier: Apache-2.0
"""C++ files are formatted as .clang-format says. `cmake/format` does it."""

import re
import subprocess
import unittest

import project

VERSION = 14  # other versions break lines differently


def clang_format():
    program = project.require_tool(f"clang-format-{VERSION}", "clang-format")
    answer = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    if not re.search(rf"version {VERSION}\.", answer):
        raise unittest.SkipTest(f"clang-format {VERSION} is not installed, but {answer.strip()}")
    return program


def check(root):
    names = project.cxx_files(root)
    if not names:
        return ["no C++ files found"]
    result = subprocess.run([clang_format(), f"--style=file:{project.ROOT / '.clang-format'}", "--dry-run", "--Werror",
                             "--ferror-limit=1", *names], cwd=root, capture_output=True, text=True)
    places = re.findall(r"^(\S+?:\d+):\d+: error: .*clang-format-violations", result.stderr, re.MULTILINE)
    problems = [f"{place}: not formatted; run cmake/format" for place in places]
    return problems or ([result.stderr] if result.returncode else [])


class Format(project.CheckCase):
    def test_project_is_formatted(self):
        self.clean(check)

    def test_finds_unformatted_file(self):
        self.finds(check, {"src/a.cpp": "int  a ;\n", "src/b.cpp": "int b;\n"}, "src/a.cpp:1")

    def test_accepts_formatted_file(self):
        self.accepts(check, {"src/a.cpp": "int a;\n"})


if __name__ == "__main__":
    project.main()
