# SPDX-License-Identifier: Apache-2.0
"""What the documents name exists: each file in `backticks`, each file and heading that a link leads to, each name that a room's
documents look for in a file. They have the version that CMakeLists.txt has, and each release has its run folders."""

import fnmatch
import pathlib
import posixpath
import re

import project

SOURCE = re.compile(r"[\w./*-]+\.(?:cpp|hpp|cu|cuh|py|cmake)")
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z][A-Z-]+(?:/|$)")  # tests/fuzz/corpus/TARGET
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
NAME = r"`[A-Za-z_][\w:]*`"
NAMES = rf"(?P<names>{NAME}(?:(?:,|,? and)\s+{NAME})*)"
FILE = r"`(?P<file>[\w./-]+\.(?:cpp|hpp|cu|cuh|py))`"
PAIRS = [re.compile(pair) for pair in (rf"{NAMES}\s+in\s+{FILE}", rf"{FILE}\s+\({NAMES}\)", rf"{NAMES}\s+\({FILE}\)")]
GUIDES = re.compile(r"docs/architecture\.md|(?:src|kernels|checkpoint)/(?:.*/)?README\.md")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def documents(root):
    return [name for name in project.files(root) if name.endswith(".md") and not name.startswith("tests/fuzz/corpus/")]


def without_fences(text):
    """The same lines, those of code blocks empty."""
    return FENCE.sub(lambda m: re.sub(r"[^\n]", "", m.group(0)), text)


def anchors(text):
    """As GitHub makes them of headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", without_fences(text), re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
    return found


class Tree:
    def __init__(self, root):
        self.files = set(project.files(root))
        self.folders = {str(parent) for name in self.files for parent in pathlib.PurePosixPath(name).parents}
        self.top = {name.split("/")[0] for name in self.files if "/" in name}

    def has(self, path):
        path = posixpath.normpath(path)
        if "*" in path:
            return any(fnmatch.fnmatchcase(name, path) for name in self.files | self.folders)
        return path in self.files or path in self.folders

    def finds(self, word, home):
        """From the root, from the document's folder, or, a mere name, anywhere below that folder."""
        return self.has(word) or self.has(posixpath.join(home, word)) or bool(self.below(home, word))

    def below(self, home, word):
        """The files of this mere name anywhere below a folder."""
        below = [name for name in self.files if name.startswith(f"{home}/" if home else "")]
        return [name for name in below if "/" not in word and fnmatch.fnmatchcase(name.rsplit("/", 1)[-1], word)]

    def sources(self, word, home):
        """The files that a document in `home` may mean by this word."""
        paths = [posixpath.normpath(path) for path in (posixpath.join(home, word), word)]
        return [path for path in paths if path in self.files][:1] or self.below(home, word)


def words_of(line):
    """What looks like a file of the project."""
    for code in re.findall(r"`([^`]+)`", line):
        yield from (word.rstrip(",;:") for word in code.split())


def check_paths(root):
    tree, problems = Tree(root), []
    for name in documents(root):
        home = posixpath.dirname(name)
        for number, line in enumerate(without_fences(project.read(root, name)).splitlines(), 1):
            for word in words_of(line):
                in_tree = re.fullmatch(r"[\w./*-]+", word) and "/" in word and word.split("/")[0] in tree.top
                if (in_tree or SOURCE.fullmatch(word)) and not PLACEHOLDER.search(word) and not word.startswith("/"):
                    if not tree.finds(word, home):
                        problems.append(f"{name}:{number}: there is no {word}")
    return problems


def check_names(root):
    """Where a document says "`name` in `file`" or "`file` (`name`)", the file has the name."""
    tree, problems = Tree(root), []
    for guide in filter(GUIDES.fullmatch, documents(root)):
        text, home = without_fences(project.read(root, guide)), posixpath.dirname(guide)
        for match in (match for pair in PAIRS for match in pair.finditer(text)):
            found = tree.sources(match["file"], home)
            code = "".join(project.read(root, name) for name in found)
            for name in re.findall(r"[\w:]+", re.sub(r"\s(?:and|in)\s", " ", match["names"])):
                if found and not all(re.search(rf"\b{part}\b", code) for part in name.split("::")):
                    problems.append(f"{guide}:{text.count(chr(10), 0, match.start()) + 1}: {match['file']} has no {name}")
    return problems


def check_links(root):
    tree, problems = Tree(root), []
    for name in documents(root):
        for number, line in enumerate(without_fences(project.read(root, name)).splitlines(), 1):
            for link in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
                if not tree.has(target):
                    problems.append(f"{name}:{number}: the link {link} leads nowhere")
                elif anchor and anchor not in anchors(project.read(root, target)):
                    problems.append(f"{name}:{number}: {target} has no heading #{anchor}")
    return problems


def check_versions(root):
    """The version of CMakeLists.txt is the newest of the changelog, and the one that the others have."""
    def found(name, pattern):
        match = re.search(pattern, project.read(root, name), re.M)
        return match.group(1) if match else None

    version, problems = found("CMakeLists.txt", r"^project\(\w+ VERSION (\S+)"), []
    for name, pattern in (("CHANGELOG.md", r"^## (\d\S*)"), ("CITATION.cff", r"^version: (\S+)"), ("spack/README.md", r'version\("([^"]+)"')):
        if found(name, pattern) != version:
            problems.append(f"{name}: its version is {found(name, pattern)}; CMakeLists.txt has {version}")
    dates = [found("CHANGELOG.md", rf"^## {re.escape(str(version))} - (\S+)"), found("CITATION.cff", r"^date-released: (\S+)")]
    if dates[0] != dates[1]:
        problems.append(f"CITATION.cff: released on {dates[1]}; CHANGELOG.md has {dates[0]}")
    if version and not version.startswith("0.1.") and not (pathlib.Path(root) / f"tests/app/old_runs/{version}.tar.xz").exists():
        problems.append(f"tests/app/old_runs/{version}.tar.xz: is missing; tests/app/old_runs/make writes the run folders of a release")
    return problems


class Documents(project.CheckCase):
    def test_project_names_files_that_exist(self):
        self.clean(check_paths)

    def test_finds_paths_of_nothing(self):
        for word in ("src/gone.cpp", "src/gone", "gone.hpp", "python3 src/gone.py", "src/*.cu"):
            self.finds(check_paths, {"docs/a.md": f"x\n| `{word}` | y |\n", "src/a.cpp": ""}, "docs/a.md:2", "there is no")
        self.finds(check_paths, {"src/README.md": "`b.hpp`\n", "docs/b.hpp": ""}, "src/README.md:1")

    def test_accepts_paths_that_exist_placeholders_and_other_words(self):
        self.accepts(check_paths, {"docs/a.md": "`src/a.cpp`, `src/`, `src/*.cpp`, `src/NAME/x.cpp`, `run/result.json`, `a/b`\n",
                                   "src/README.md": "`comm/b.hpp` `b.hpp` `comm/`\n```\nsrc/gone.cpp\n`src/gone.cpp`\n```\n",
                                   "src/a.cpp": "", "src/comm/b.hpp": ""})

    def test_project_names_are_in_their_files(self):
        self.clean(check_names)

    def test_finds_names_that_their_files_lack(self):
        for words in ("`gone` in `src/a.cpp`", "`src/a.cpp` (`gone`)", "`Gone` (`src/a.cpp`)", "`here` and `gone` in `src/a.cpp`",
                      "`src/a.cpp` (`here`, `gone`)", "`Class::gone`\nin `src/a.cpp`"):
            self.finds(check_names, {"docs/architecture.md": f"x\n{words} y\n", "src/a.cpp": "Class here;\n"}, "docs/architecture.md:2",
                       "src/a.cpp has no", "one")
        self.finds(check_names, {"src/README.md": "`gone` in `b.hpp`\n", "src/sub/b.hpp": "here"}, "src/README.md:1")

    def test_accepts_names_that_their_files_have(self):
        self.accepts(check_names, {"docs/architecture.md": "`here` and `Class::here` in `src/a.cpp`, `src/a.cpp` (words), `gone` in `src/`\n",
                                   "src/README.md": "`a.cpp` (`here`), `sub/a.cpp` (`Class`)\n```\n`gone` in `a.cpp`\n```\n",
                                   "docs/other.md": "`gone` in `src/a.cpp`\n", "src/a.cpp": "Class::here", "src/sub/a.cpp": "Class"})

    def test_project_links_lead_somewhere(self):
        self.clean(check_links)

    def test_finds_links_to_nothing(self):
        for link in ("b.md", "../docs/a.md#gone", "#gone", "../src/a.cpp"):
            self.finds(check_links, {"docs/a.md": f"# One\n[b]({link})\n"}, "docs/a.md:2")

    def test_accepts_links_that_lead_somewhere(self):
        self.accepts(check_links, {"docs/a.md": "# One `two`: three\n[b](b/c.md#x), [d](#one-two-three), [e](b), [f](https://x.org/y)\n",
                                   "docs/b/c.md": "## X\n`[t](u)`\n"})

    RELEASE = {"CMakeLists.txt": "project(distdl VERSION 0.2.0 LANGUAGES C)\n", "CHANGELOG.md": "## Unreleased\n\n## 0.2.0 - 2026-11-29\n",
               "CITATION.cff": "version: 0.2.0\ndate-released: 2026-11-29\n", "spack/README.md": 'version("0.2.0", url="x")\n',
               "tests/app/old_runs/0.2.0.tar.xz": ""}

    def test_project_has_one_version(self):
        self.clean(check_versions)

    def test_finds_other_versions(self):
        for name in ("CITATION.cff", "spack/README.md"):
            self.finds(check_versions, {**self.RELEASE, name: self.RELEASE[name].replace("0.2.0", "0.1.9")}, name)
        self.finds(check_versions, {**self.RELEASE, "CHANGELOG.md": "## Unreleased\n\n## 0.2.0 - 2026-11-30\n"}, "CITATION.cff")
        self.finds(check_versions, {**self.RELEASE, "CHANGELOG.md": "## 0.3.0 - 2026-11-29\n## 0.2.0 - 2026-11-29\n"}, "CHANGELOG.md")
        self.finds(check_versions, {**self.RELEASE, "CITATION.cff": "version: 0.2.0\ndate-released: 2026-11-30\n"}, "CITATION.cff", "released")
        self.finds(check_versions, {name: text for name, text in self.RELEASE.items() if "old_runs" not in name}, "0.2.0.tar.xz", "missing")

    def test_accepts_a_release(self):
        self.accepts(check_versions, self.RELEASE)


if __name__ == "__main__":
    project.main()
