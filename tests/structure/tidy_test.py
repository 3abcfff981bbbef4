# SPDX-License-Identifier: Apache-2.0
"""The clang-tidy configuration is read and finds what it is for. `cmake/tidy` checks the sources themselves: that takes
minutes, so it is no test."""

import pathlib
import re
import subprocess
import tempfile
import unittest

import project


def findings(code):
    """Names of the checks that clang-tidy reports for a source."""
    program = project.require_tool("clang-tidy-14", "clang-tidy")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "a.cpp")
        source.write_text(code)
        result = subprocess.run([program, f"--config-file={project.ROOT / '.clang-tidy'}", source, "--", "-std=c++20"],
                                capture_output=True, text=True)
    if result.returncode != 0 and "error:" in result.stdout + result.stderr:
        raise AssertionError(result.stdout + result.stderr)
    return set(re.findall(r"\[([a-z]+-[\w.-]+)", result.stdout))


class Tidy(unittest.TestCase):
    def test_accepts_the_projects_style(self):
        self.assertEqual(findings("namespace distdl {\nconstexpr int kMany = 3;\nint twice(int x) { return x * kMany; }\n"
                                  "class Counter {\n public:\n  int next() { return ++count_; }\n\n private:\n"
                                  "  int count_ = 0;\n};\n}  // namespace distdl\n"), set())

    def test_finds_foreign_names(self):
        self.assertEqual(findings("class counter {};\n"), {"readability-identifier-naming"})
        self.assertEqual(findings("int DoIt() { return 1; }\n"), {"readability-identifier-naming"})

    def test_finds_defects(self):
        self.assertIn("bugprone-integer-division", findings("double half(int x) { return x / 2; }\n"))
        self.assertIn("clang-analyzer-core.NullDereference", findings("int f() {\n  int* p = nullptr;\n  return *p;\n}\n"))


if __name__ == "__main__":
    project.main()
