# SPDX-License-Identifier: Apache-2.0
"""The tests on Debian 13 (.ci/debian) are skipped where that cannot be had, and fail where something does not compile or a test fails."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import project

# Stands in for cmake/in-debian: notes its words, and ends with the code in the file named after the command.
IN_DEBIAN = """#!/bin/bash
cd "$(dirname "$0")/.."
echo "$*; GTEST_FILTER=${GTEST_FILTER:-}" >> asked
[[ $2 != cmake || $3 != --preset ]] || mkdir -p build-debian-13/tests
echo "tensor tensor_test tensor_program" > build-debian-13/tests/chosen 2> /dev/null
case "$2 $3" in "cmake --build") step=build ;; "cmake --preset") step=configure ;; tests/*) step=test ;; *) step=make ;; esac
exit "$(cat "code.$step" 2> /dev/null || echo 0)"
"""


class CiDebian(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in (".ci/debian", "cmake/ci-selection", "cmake/sanitizers/left-to-plain", "cmake/sanitizers/left-to-plain-address", "cmake/sanitizers/left-to-plain-thread"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(project.ROOT / name, self.root / name)
        self.script("cmake/in-debian", IN_DEBIAN)
        self.script("bin/mmdebstrap", "#!/bin/sh\n")
        for name in ("bash", "cat", "dirname", "env", "git", "grep", "mkdir", "paste", "python3", "sed", "sh", "timeout"):
            (self.root / "bin" / name).symlink_to(shutil.which(name))

    def script(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run_it(self, *words):
        done = subprocess.run([".ci/debian", *words], cwd=self.root, capture_output=True, text=True, check=False,
                              env={"PATH": f"{self.root}/bin", "GIT_CEILING_DIRECTORIES": str(self.root.parent)})
        return done.returncode, done.stdout

    def asked(self):
        return (self.root / "asked").read_text(encoding="utf-8").splitlines()

    def test_builds_and_runs_the_share(self):
        self.assertEqual(self.run_it("build"), (0, ""))
        self.assertEqual(self.run_it("test"), (0, ""))
        made, configured, built, tested = self.asked()
        self.assertEqual(made, "13 true; GTEST_FILTER=")
        self.assertIn("cmake --preset ci -B build-debian-13", configured)
        self.assertEqual(built, "13 cmake --build build-debian-13 --target tensor_program; GTEST_FILTER=")
        self.assertRegex(tested, r"^13 tests/contained ctest .*-R \^\(tensor_test\)\$; GTEST_FILTER=-\*CostsTime\*:")

    def test_is_skipped_where_the_release_cannot_be_had(self):
        for code in ("1", "77", "100"):
            (self.root / "code.make").write_text(code)
            got, said = self.run_it("build")
            self.assertEqual(got, 77)
            self.assertRegex(said, rf"^SKIPPED: the tests on Debian 13, .* ended with {code}\n$")

    def test_is_skipped_where_mmdebstrap_cannot_be_installed(self):
        (self.root / "bin/mmdebstrap").unlink()
        self.script("cmake/install-dependencies", "#!/bin/sh\nexit 100\n")
        self.assertEqual(self.run_it("build")[0], 77)

    def test_fails_if_it_does_not_compile_or_a_test_fails(self):
        for step, words in (("configure", "build"), ("build", "build"), ("test", "test")):
            self.assertEqual(self.run_it("build")[0], 0)
            (self.root / f"code.{step}").write_text("8")
            self.assertEqual(self.run_it(words)[0], 8)
            (self.root / f"code.{step}").unlink()

    def test_wrong_words_are_an_error(self):
        self.assertEqual(self.run_it()[0], 64)


if __name__ == "__main__":
    project.main()
