# SPDX-License-Identifier: Apache-2.0
"""CI runs each GoogleTest test in one of its builds at least. A build with a sanitizer leaves some tests to the plain one
(cmake/sanitizers/left-to-plain*), which must have their program, then."""

import fnmatch
import posixpath
import re

import project

LISTS = "cmake/sanitizers/left-to-plain"
LEFT_TO_MAKE_TEST = "*CostsTime*"  # see LISTS
PROGRAM = re.compile(r"distdl_add_test\(\s*(?P<name>\w+)\s(?P<rest>[^)]*)\)")
BUILDS = re.compile(r"\bBUILDS((?:\s+(?:plain|address|thread))+)")
TEST = re.compile(r"^(?:TYPED_)?TEST(?P<kind>|_F|_P)\(\s*(?P<suite>\w+),\s*(?P<name>\w+)\)", re.M)
INSTANCE = re.compile(r"^INSTANTIATE_TEST_SUITE_P\(\s*(?P<prefix>\w+),\s*(?P<suite>\w+)", re.M)


def patterns_of(root, build):
    lines = [line for name in (LISTS, f"{LISTS}-{build}") for line in project.read(root, name).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def tests_of(text):
    """Names as GoogleTest's filter sees them, those with parameters with one that stands for all."""
    prefixes = {match["suite"]: match["prefix"] for match in INSTANCE.finditer(text)}
    for match in TEST.finditer(text):
        name = f"{match['suite']}.{match['name']}"
        yield f"{prefixes.get(match['suite'], 'Each')}/{name}/0" if match["kind"] == "_P" else name


def programs(root):
    """Name, builds and tests of each."""
    files = set(project.files(root))
    for listing in sorted(name for name in files if name.startswith("tests/") and name.endswith("CMakeLists.txt")):
        for match in PROGRAM.finditer(re.sub(r"#.*", "", project.read(root, listing))):
            builds = BUILDS.search(match["rest"])
            sources = [posixpath.normpath(posixpath.join(posixpath.dirname(listing), word)) for word in re.findall(r"[\w./]+\.cpp", match["rest"])]
            tests = [test for source in sources if source in files for test in tests_of(project.read(root, source))]
            yield match["name"], builds[1].split() if builds else ["address"], tests


def check_left_out(root):
    left = {build: patterns_of(root, build) for build in ("address", "thread")}
    problems = []
    for program, builds, tests in programs(root):
        for test in tests:
            runs = [build for build in builds if build == "plain" or not any(fnmatch.fnmatchcase(test, each) for each in left[build])]
            if not runs and not fnmatch.fnmatchcase(test, LEFT_TO_MAKE_TEST):
                problems.append(f"{program}: no build of CI runs {test}: it is left to the plain build, which BUILDS does not name")
    return problems


TREE = {LISTS: "# a comment\nSlow.*\n*CostsTime*\n", f"{LISTS}-address": "", f"{LISTS}-thread": "Each/Sized.*\n",
        "tests/a/a_test.cpp": "TEST(Slow, Adds) {}\nTEST(Quick, Adds) {}\nTEST(Quick, CostsTime) {}\n",
        "tests/a/b_test.cpp": "TEST_P(Sized, Adds) {}\nINSTANTIATE_TEST_SUITE_P(Each, Sized, Values(1));\n"}


class LeftOut(project.CheckCase):
    def test_project_leaves_nothing_out(self):
        self.assertGreater(sum(len(tests) for _, _, tests in programs(project.ROOT)), 500)
        self.clean(check_left_out)

    def test_finds_a_test_that_no_build_runs(self):
        self.finds(check_left_out, {**TREE, "tests/a/CMakeLists.txt": "distdl_add_test(a_test SOURCES a_test.cpp)\n"}, "a_test", "Slow.Adds")
        self.finds(check_left_out, {**TREE, "tests/a/CMakeLists.txt": "distdl_add_test(b_test\n  SOURCES b_test.cpp BUILDS thread)\n"}, "Each/Sized.Adds")

    def test_accepts_what_another_build_runs(self):
        self.accepts(check_left_out, {**TREE, "tests/a/CMakeLists.txt": "distdl_add_test(a_test SOURCES a_test.cpp BUILDS plain address)\n"
                                                                        "distdl_add_test(b_test SOURCES b_test.cpp BUILDS address thread)\n"})


if __name__ == "__main__":
    project.main()
