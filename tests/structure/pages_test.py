# SPDX-License-Identifier: Apache-2.0
"""Pages that can be read: no line of prose above 120 characters (cmake/wrap-documents breaks them), a summary at the top of a long page,
a table of at most ten rows in README.md, and an index of all documents that keeps how-to, reference and explanation apart."""

import re

import project
from documents_test import FENCE, LINK, without_fences

WIDTH, LONG_PAGE = 120, 1500
SUMMARY = "**In short.** "
PAGE = re.compile(r"(README|CONTRIBUTING|SECURITY)\.md|docs/[\w-]+\.md|.*/README\.md")
KINDS = ("Tutorial", "How-to", "Reference", "Explanation")
ROWS = 10


def pages(root):
    return [name for name in project.files(root) if PAGE.fullmatch(name) and not name.startswith("tests/")]


def is_table(line):
    return line.startswith("|")


def check_width(root):
    """Tables and code cannot be broken."""
    return [f"{name}:{number}: {len(line)} characters; at most {WIDTH}: cmake/wrap-documents {name}"
            for name in pages(root) for number, line in enumerate(without_fences(project.read(root, name)).splitlines(), 1)
            if len(line) > WIDTH and not is_table(line)]


def check_summaries(root):
    problems = []
    for name in pages(root):
        text = FENCE.sub("", project.read(root, name))
        words = len(text.split())
        if words > LONG_PAGE and f"\n{SUMMARY}" not in text.partition("\n## ")[0]:
            problems.append(f'{name}: {words} words, and no paragraph "{SUMMARY.strip()} ..." above its first part says what most readers need')
    return problems


def check_first_page(root):
    """Rows of the first table below "I want to ..."."""
    text = project.read(root, "README.md").partition("## I want to ...")[2].partition("\n## ")[0]
    rows = len([line for line in text.splitlines() if is_table(line)]) - 2
    return [f"README.md: {rows} rows below \"I want to ...\"; at most {ROWS}, the others in docs/README.md"] if rows > ROWS else []


def check_index(root):
    """Each document stands once in the index, below the heading of its kind."""
    index = project.read(root, "docs/README.md").partition("\n## I want to ...")[0]
    listed = {}
    for part in re.split(r"^## ", index, flags=re.M)[1:]:
        for row in filter(is_table, part.splitlines()):
            for link in LINK.findall(row.split("|")[1]):
                listed.setdefault(link, []).append(part.split("\n")[0])
    problems = [f"docs/README.md: no heading {kind}" for kind in KINDS if f"\n## {kind}" not in index]
    for name in project.files(root):
        page = name.removeprefix("docs/")
        if name.startswith("docs/") and name.endswith(".md") and page != "README.md" and len(listed.get(page, [])) != 1:
            problems.append(f"docs/README.md: {page} stands in {len(listed.get(page, []))} of its tables, not in one of {', '.join(KINDS)}")
    return problems


class Pages(project.CheckCase):
    def test_project_has_lines_that_fit(self):
        self.clean(check_width)

    def test_finds_long_lines(self):
        for name in ("README.md", "docs/a.md", "src/base/README.md"):
            self.finds(check_width, {name: "a\n" + "word " * 25 + "\n"}, f"{name}:2", "cmake/wrap-documents")

    def test_accepts_long_tables_and_code(self):
        self.accepts(check_width, {"docs/a.md": "| " + "word " * 25 + "|\n```\n" + "word " * 25 + "\n```\n", "CHANGELOG.md": "word " * 25})

    def test_project_has_summaries(self):
        self.clean(check_summaries)

    def test_finds_long_pages_without_a_summary(self):
        long = "word " * LONG_PAGE
        for text in (f"# A\n\n{long}\n", f"# A\n\n## B\n\n{SUMMARY}x\n{long}\n"):
            self.finds(check_summaries, {"docs/a.md": text}, "docs/a.md", "no paragraph")

    def test_accepts_summaries_and_short_pages(self):
        self.accepts(check_summaries, {"docs/a.md": f"# A\n\n{SUMMARY}It is long.\n\n" + "word " * LONG_PAGE,
                                       "docs/b.md": "# B\n```\n" + "word " * LONG_PAGE + "\n```\n"})

    def test_projects_first_page_has_few_rows(self):
        self.clean(check_first_page)

    def test_finds_too_many_rows(self):
        self.finds(check_first_page, {"README.md": "## I want to ...\n\n| a | b |\n|---|---|\n" + "| c | d |\n" * (ROWS + 1)}, "README.md: 11 rows")

    def test_project_has_an_index(self):
        self.clean(check_index)

    INDEX = "# Documents\n" + "".join(f"\n## {kind}\n\n| document | contents |\n|---|---|\n| [{kind}](%s.md) | x |\n" for kind in KINDS)

    def test_finds_documents_that_the_index_lacks_or_has_twice(self):
        files = {f"docs/{name}.md": "" for name in "abcd"}
        self.finds(check_index, {"docs/a.md": "", "docs/README.md": self.INDEX % tuple("abac")}, "a.md stands in 2")
        self.finds(check_index, {**files, "docs/README.md": self.INDEX % tuple("abce")}, "d.md stands in 0")
        self.finds(check_index, {"docs/README.md": (self.INDEX % tuple("abcd")).replace("How-to", "Recipes")}, "no heading How-to")

    def test_accepts_an_index(self):
        files = {f"docs/{name}.md": "" for name in "abcd"}
        self.accepts(check_index, {**files, "docs/README.md": self.INDEX % tuple("abcd")})


if __name__ == "__main__":
    project.main()
