# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/glossary.md name what is retired, and the terms that took its place. No code has the retired identifiers, and it
has the terms; no literal, document or Python program has the retired phrases."""

import re

import project

GLOSSARY = "docs/glossary.md"
HEADING = "## Retired words"
PHRASES = "## Retired phrases"
CODE = (".cpp", ".hpp", ".cu", ".cuh", ".in.hpp")
WORD = re.compile(r"[A-Za-z_]\w*")

# What keeps its bytes: names on disk, and records of what programs printed.
ON_DISK = re.compile(r"distdl\\?\.slot\b|\bslot-\d")
RECORDS = ("CHANGELOG.md", "bench/results/", GLOSSARY, "tests/structure/glossary_test.py")
# Old names that are still accepted, or printed beside the new ones.
COMPATIBLE = {
    "src/comm/selection/cost_cache.cpp": "combine",
    "tests/comm/selection/cost_table_test.cpp": "combine",
    "src/app/commands/evaluate.cpp": "guesses",
    "tests/app/trained_model_test.py": "guesses",
    "docs/models.md": "guesses",
}


def rows_of(root, heading, cell):
    """The cells of the table below the heading, each as the list of what `cell` finds in it."""
    _, found, text = project.read(root, GLOSSARY).partition(heading + "\n")
    assert found, f'{GLOSSARY} has no heading "{heading}"'
    for line in text.partition("\n## ")[0].splitlines():
        if line.startswith(("| `", '| "')):
            yield line, [re.findall(cell, part) for part in line.strip("|").split("|")]


def retired_words(root):
    """{retired word: term}; a folder's ends with a slash."""
    words = {}
    for line, cells in rows_of(root, HEADING, r"`(\w+/?)`"):
        if len(cells) != 2 or len(cells[1]) != 1:
            raise AssertionError(f"{GLOSSARY}: not two columns with one term in the second: {line}")
        words.update(dict.fromkeys(cells[0], cells[1][0]))
    return words


def retired_phrases(root):
    """{retired phrase: term}"""
    phrases = {}
    for line, cells in rows_of(root, PHRASES, r'"([\w ]+)"|([^"]+)'):
        if len(cells) != 2:
            raise AssertionError(f"{GLOSSARY}: not two columns: {line}")
        term = "".join(plain for _, plain in cells[1]).strip()
        phrases.update((phrase, term) for phrase, _ in cells[0] if phrase)
    return phrases


def code_files(root):
    return [name for name in project.files(root) if name.endswith(CODE)]


def words_of(root, name):
    """(line, word) of a file's code; comments and texts do not count, the names of included files do."""
    for number, line in enumerate(project.code_of(project.read(root, name)).splitlines(), 1):
        for word in WORD.findall(line):
            yield number, word


def check_words(root):
    retired, problems, used = retired_words(root), [], set()
    for name in code_files(root):
        parts = re.findall(r"\w+/?", name)
        used.update(part.rstrip("/") for part in parts)
        for part in [*parts, *(part.rstrip("/") for part in parts if part.endswith("/"))]:
            if part in retired:
                problems.append(f'{name}: "{part}" is retired; say {retired[part]}')
        for number, word in words_of(root, name):
            used.add(word)
            if word in retired:
                problems.append(f'{name}:{number}: "{word}" is retired; say {retired[word]}')
    problems += [f'{GLOSSARY}: the term "{term}" is not in the code' for term in sorted({*retired.values()} - used)]
    return problems


def texts_of(root, name):
    """(line, text) of what a user or a contributor reads."""
    text = project.read(root, name)
    if name.endswith(CODE):
        return list(project.literals_of(text))
    return list(enumerate(text.splitlines(), 1)) if name.endswith((".md", ".py")) else []


def check_phrases(root):
    phrases, problems, kept = retired_phrases(root), [], set()
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, sorted(phrases, key=len, reverse=True))) + r")\b", re.I)
    for name in project.files(root):
        if name.startswith(RECORDS):
            continue
        for number, text in texts_of(root, name):
            for phrase in pattern.findall(ON_DISK.sub("", text)):
                if COMPATIBLE.get(name) == phrase:
                    kept.add(name)
                else:
                    problems.append(f'{name}:{number}: "{phrase}" is retired; say {phrases[phrase.lower()]}')
    problems += [f'{name} no longer says "{COMPATIBLE[name]}": change COMPATIBLE' for name in COMPATIBLE
                 if name not in kept and name in project.files(root)]
    return problems


class Glossary(project.CheckCase):
    TABLE = f"""## Words
| `kept` | x |
{HEADING}
| retired | term |
|---|---|
| `Door`, `kDoors` | `ControlBlock` |
| `without/` | `stub` |

{PHRASES}
| retired | term |
|---|---|
| "last words", "goodbye" | close, drain |
| "slot" | snapshot buffer |
"""

    def tree(self, code, name="src/comm/a.cpp"):
        return {GLOSSARY: self.TABLE, name: code, "src/comm/stub/control_block.hpp": "struct ControlBlock {};\n"}

    def test_project_has_no_retired_word(self):
        self.assertGreater(len(retired_words(project.ROOT)), 30)
        self.clean(check_words)

    def test_project_has_no_retired_phrase(self):
        self.assertGreater(len(retired_phrases(project.ROOT)), 20)
        self.clean(check_phrases)

    def test_finds_retired_words_in_types_constants_and_includes(self):
        for code in ("class Door;", "int kDoors = 4;", "#include <distdl/comm/Door.hpp>"):
            self.finds(check_words, self.tree(f"int a;\n{code}\n"), "src/comm/a.cpp:2", "ControlBlock")
        for name in ("kernels/a.cu", "kernels/a.cuh", "tests/comm/a.hpp"):
            self.finds(check_words, self.tree("Door door;\n", name), f"{name}:1")

    def test_finds_retired_names_of_files_and_folders(self):
        self.finds(check_words, self.tree("", "src/comm/Door.hpp"), "src/comm/Door.hpp", "retired")
        self.finds(check_words, self.tree("", "kernels/without/cuda.cpp"), "kernels/without/cuda.cpp", "stub")

    def test_finds_a_term_that_the_code_lacks(self):
        tree = self.tree("")
        del tree["src/comm/stub/control_block.hpp"]
        self.finds(check_words, {**tree, "src/stub/a.cpp": ""}, "ControlBlock", "not in the code")

    def test_accepts_likenesses_comments_texts_folders_words_and_the_first_tables(self):
        self.accepts(check_words, self.tree('// a Door\nint Doors, my_Door, kept, without; auto a = "Door";\n'))

    def test_finds_retired_phrases_in_literals_documents_and_programs(self):
        for name, text in {"src/a.cpp": 'int a;\nauto b = "no Goodbye";\n', "src/b.cpp": 'int a;\nf(R"(said goodbye)");\n',
                           "docs/a.md": "a\nits last words\n", "tests/a.py": "# a\ngoodbye = 1\n"}.items():
            self.finds(check_phrases, self.tree(text, name), f"{name}:2", "close, drain")

    def test_accepts_phrases_in_comments_and_names_on_disk(self):
        self.accepts(check_phrases, self.tree('// a goodbye\nint slot; auto a = "distdl.slot-1", b = "slots";\n'))
        self.accepts(check_phrases, self.tree("`distdl.slot-...`", "docs/a.md"))
        self.accepts(check_phrases, self.tree("says goodbye", "bench/results/a.md"))


if __name__ == "__main__":
    project.main()
