# SPDX-License-Identifier: Apache-2.0
"""The second table of docs/glossary.md names retired identifiers and the terms that took their places: no code has the former,
and the latter exist."""

import re

import project

GLOSSARY = "docs/glossary.md"
HEADING = "## Retired words"
CODE = (".cpp", ".hpp", ".cu", ".cuh", ".in.hpp")
WORD = re.compile(r"[A-Za-z_]\w*")


def retired_words(root):
    """{retired word: term}, from the table below the heading."""
    _, heading, text = project.read(root, GLOSSARY).partition(HEADING)
    assert heading, f'{GLOSSARY} has no heading "{HEADING}"'
    words = {}
    for line in text.splitlines():
        cells = [re.findall(r"`(\w+)`", cell) for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2 and len(cells[1]) == 1:
            words.update(dict.fromkeys(cells[0], cells[1][0]))
        elif line.startswith("| `"):
            raise AssertionError(f"{GLOSSARY}: not two columns with one term in the second: {line}")
    return words


def code_files(root):
    return [name for name in project.files(root) if name.endswith(CODE)]


def words_of(root, name):
    """(line, word) of a file's code; comments and texts do not count, the names of included files do."""
    for number, line in enumerate(project.code_of(project.read(root, name)).splitlines(), 1):
        for word in WORD.findall(line):
            yield number, word


def check(root):
    retired, problems, used = retired_words(root), [], set()
    for name in code_files(root):
        for part in re.findall(r"\w+", name):
            if part in retired:
                problems.append(f'{name}: "{part}" is retired; say {retired[part]}')
        for number, word in words_of(root, name):
            used.add(word)
            if word in retired:
                problems.append(f'{name}:{number}: "{word}" is retired; say {retired[word]}')
    problems += [f'{GLOSSARY}: the term "{term}" is not in the code' for term in sorted({*retired.values()} - used)]
    return problems


class Glossary(project.CheckCase):
    TABLE = f"## Words\n| `kept` | x |\n{HEADING}\n| retired | term |\n|---|---|\n| `Door`, `kDoors` | `ControlBlock` |\n"

    def tree(self, code, name="src/comm/a.cpp"):
        return {GLOSSARY: self.TABLE, name: code, "src/comm/control_block.hpp": "struct ControlBlock {};\n"}

    def test_project_has_no_retired_word(self):
        self.assertGreater(len(retired_words(project.ROOT)), 30)
        self.clean(check)

    def test_finds_retired_words_in_types_constants_and_includes(self):
        for code in ("class Door;", "int kDoors = 4;", "#include <distdl/comm/Door.hpp>"):
            self.finds(check, self.tree(f"int a;\n{code}\n"), "src/comm/a.cpp:2", "ControlBlock")
        for name in ("kernels/a.cu", "kernels/a.cuh", "tests/comm/a.hpp"):
            self.finds(check, self.tree("Door door;\n", name), f"{name}:1")

    def test_finds_retired_names_of_files(self):
        self.finds(check, self.tree("", "src/comm/Door.hpp"), "src/comm/Door.hpp", "retired")

    def test_finds_a_term_that_the_code_lacks(self):
        self.finds(check, {GLOSSARY: self.TABLE, "src/a.cpp": ""}, "ControlBlock", "not in the code")

    def test_accepts_likenesses_comments_texts_and_the_first_tables(self):
        self.accepts(check, self.tree('// a Door\nint Doors, my_Door, kept; auto a = "Door";\n'))


if __name__ == "__main__":
    project.main()
