# SPDX-License-Identifier: Apache-2.0
"""Each file: its licence line, no paths or hosts of somebody's machine, a sensible length, a name that says what is inside. Comments of the
code are sentences: how many of a room still leave the noun to the reader only shrinks."""

import re
import sys

import project

SPDX = "SPDX-License-Identifier: Apache-2.0"
# Formats without comments, prose and data.
WITHOUT_LICENCE = re.compile(r"^tests/fuzz/corpus/|\.(md|json|txt|gz|xz|h5|png|svg|csv|patch|ipynb|model)$|^LICENSE$|(^|/)\.(git\w+|clang-\w+)$|^\.ci/")
MACHINE = [
    (re.compile(r"(?<![\w.~])/(?:work|home|root|Users|scratch)/\w"), "a path of one machine"),
    (re.compile(r"\b[\w-]+\.(?:internal|corp|lan|intranet)\b(?!\()"), "a host of one site"),
]
WARN_LINES, MOST_LINES = 400, 800
EMPTY_NAMES = {"util", "utils", "common", "misc", "helper", "helpers"}
# Comments that begin as if their noun had been said: "Of the last step." for "Seconds of the last step."
NOUNLESS = re.compile(r"(Of|What|Whom|That|The same|Else)\b")
NOUNLESS_MEMBER = re.compile(r"///<\s*[Oo]f\b")
COMMENT_LINE = re.compile(r"\s*///?(?![/<])\s*(.*)")


def check_licence(root):
    problems = []
    for name in project.files(root):
        if WITHOUT_LICENCE.search(name) and not name.endswith("CMakeLists.txt"):
            continue
        text = project.read(root, name)
        only_comments = all(not line.strip() or line.startswith("#") for line in text.splitlines())
        if SPDX not in "\n".join(text.splitlines()[:3]) and not (name.endswith("CMakeLists.txt") and only_comments):
            problems.append(f'{name}: the first lines lack "{SPDX}"')
    return problems


def check_machine(root):
    problems = []
    for name in project.files(root):
        if "\0" in (text := project.read(root, name)):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            problems += [f"{name}:{number}: {what}: {match.group(0)}" for pattern, what in MACHINE
                         if (match := pattern.search(line))]
    return problems


def lengths(root):
    return {name: project.read(root, name).count("\n") for name in project.files(root)
            if name.endswith(project.CXX + (".py", ".cmake", "CMakeLists.txt"))}


def check_length(root):
    problems = []
    for name, lines in lengths(root).items():
        if lines > MOST_LINES:
            problems.append(f"{name}: {lines} lines: more than one idea; at most {MOST_LINES}, better {WARN_LINES}")
        elif lines > WARN_LINES:
            print(f"warning: {name}: {lines} lines: is it still one idea? (aim: {WARN_LINES})", file=sys.stderr)
    return problems


def check_names(root):
    problems = []
    for name in project.files(root):
        parts = name.split("/")
        stem = parts[-1].split(".")[0]
        words = set(parts[:-1]) | set(stem.split("_"))
        if words & EMPTY_NAMES or stem == "types" or "types" in parts[:-1]:
            problems.append(f"{name}: name it after what is inside")
        if name.endswith(project.CXX) and not re.fullmatch(r"[a-z0-9_.]+", parts[-1]):
            problems.append(f"{name}: file names are snake_case")
    return problems


def check_comments(root):
    problems = []
    for name in project.files(root):
        if not (name.startswith(project.CODE) and name.endswith((".hpp", ".cpp", ".cu", ".cuh"))):
            continue
        inside = False  # only the first line of a block begins it
        for number, line in enumerate(project.read(root, name).splitlines(), 1):
            comment = COMMENT_LINE.match(line)
            if (comment and not inside and NOUNLESS.match(comment.group(1))) or NOUNLESS_MEMBER.search(line):
                problems.append(f"{name}:{number}: a comment that begins with Of, What, Whom, That, The same or Else leaves its noun to the "
                                f"reader: {line.strip()}")
            inside = bool(comment)
    return problems


class Text(project.CheckCase):
    def test_project_has_licence_lines(self):
        self.clean(check_licence)

    def test_finds_missing_licence_line(self):
        for name in ("src/a.cpp", "cmake/A.cmake", "tool", "a.py", "a.yaml"):
            self.finds(check_licence, {name: "int a;\n"}, name)

    def test_accepts_licence_line_after_shebang_and_prose_without(self):
        self.accepts(check_licence, {"tool": f"#!/bin/sh\n# {SPDX}\n", "docs/a.md": "prose\n", ".gitignore": "x\n"})

    def test_project_names_no_machine(self):
        self.clean(check_machine)

    def test_finds_machine_paths_and_hosts(self):
        self.finds(check_machine, {"a.toml": "dir = '/" + "home/jane/run'\n"}, "a.toml:1")
        self.finds(check_machine, {"a.md": "x\nsee /" + "work/main\n"}, "a.md:2")
        self.finds(check_machine, {"a.sh": "ssh login1." + "corp\n"}, "a.sh:1")

    def test_accepts_general_paths(self):
        self.accepts(check_machine, {"a.sh": "ls /tmp /usr/share ~/home/x $HOME/data/x https://a.example.org\n"})

    def test_project_files_have_a_sensible_length(self):
        self.clean(check_length)

    def test_finds_giant_file(self):
        self.finds(check_length, {"src/a.cpp": "\n" * (MOST_LINES + 1), "src/b.cpp": "\n" * 10}, "src/a.cpp")

    def test_project_names_say_what_is_inside(self):
        self.clean(check_names)

    def test_finds_empty_names(self):
        for name in ("src/comm/utils.hpp", "src/common/a.hpp", "src/comm/string_helpers.cpp", "src/comm/types.hpp",
                     "src/comm/Buffer.hpp"):
            self.finds(check_names, {name: ""}, name)

    def test_project_comments_have_nouns(self):
        self.clean(check_comments)

    def test_finds_comments_without_a_noun(self):
        for text in ("/// Of a step.\nint a;\n", "  // The same for two.\n", "// Else none.\n// Of more.\n", "int a;  ///< of a step\n"):
            self.finds(check_comments, {"src/comm/a.hpp": text}, "src/comm/a.hpp:1: ")
        self.finds(check_comments, {"kernels/cuda/a.cu": "int a;\n// What b.\n"}, "kernels/cuda/a.cu:2: ", "What b.")

    def test_accepts_comments_with_a_noun(self):
        self.accepts(check_comments,
                     {"src/comm/a.cpp": "/// Seconds\n/// Of a step.\nint a;  ///< number of steps\n// Often.\n// Whatever.\n",
                      "src/a/b/c.py": "// Of\n", "tests/a.cpp": "// Of\n"})


if __name__ == "__main__":
    project.main()
