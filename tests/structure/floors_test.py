# SPDX-License-Identifier: Apache-2.0
"""Floors: a folder includes and links only folders on lines above its own in src/floors.txt; headers form no cycle. The same
inside folders with a floors.txt of their own, whose other headers than those at the top are included there alone."""

import collections
import posixpath
import re

import project

# Lines that take what the floors inside rooms forbid. Lower these when there are fewer, and mend rather than raise them.
MOST = {"except": 9, "open": 51}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def read_floors(root):
    """{folder: floor number}"""
    lines = [line.split("#")[0].split() for line in project.read(root, "src/floors.txt").splitlines()]
    return {folder: floor for floor, line in enumerate(filter(None, lines)) for folder in line}


def folder_of(name):
    parts = name.split("/")
    if len(parts) > 2 and parts[0] == "src":
        return parts[1]
    return parts[0] if parts[0] in ("kernels", "checkpoint") else None


def problem_of(floors, name, folder, other, where):
    if other not in floors:
        return f"{where}: no folder {other} in src/floors.txt"
    if other == folder or floors[other] < floors[folder]:
        return None
    relation = "the room beside it," if floors[other] == floors[folder] else "the higher floor"
    return f"{where}: {folder} must not use {relation} {other} (src/floors.txt)"


def included_folder(header):
    """distdl/comm/x.hpp -> comm; distdl/version.hpp, which is generated, belongs to base."""
    parts = header.split("/")
    return "base" if header == "distdl/version.hpp" else parts[1]


def check_includes(root, floors, name, folder):
    text = re.sub(r"//[^\n]*", "", project.read(root, name))
    for match in INCLUDE.finditer(text):
        where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        kind, header = match.groups()
        if kind == '"':
            yield f'{where}: include "{header}" as <distdl/folder/file.hpp>'
        elif header.startswith("distdl/"):
            problem = problem_of(floors, name, folder, included_folder(header), where)
            if problem:
                yield problem


def check_links(root, floors, name, folder):
    text = re.sub(r"#[^\n]*", "", project.read(root, name))
    for match in re.finditer(r"\bdistdl(?:::|_)(\w+)", text):
        where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        other = match.group(1)
        if match.group(0).startswith("distdl_") and other not in floors:
            continue  # a CMake function or a target of the folder's own
        problem = problem_of(floors, name, folder, other.split("_")[0], where)
        if problem:
            yield problem


def check_cycles(root):
    headers = {name: "distdl/" + re.sub(r"^src/", "", name) for name in project.cxx_files(root, project.CODE)
               if name.endswith((".hpp", ".cuh"))}
    by_include = {include: name for name, include in headers.items()}
    graph = {name: [by_include[m.group(2)] for m in INCLUDE.finditer(project.read(root, name))
                    if m.group(2) in by_include] for name in headers}
    done, problems = set(), []

    def visit(name, path):
        if name in path:
            problems.append("cycle of headers: " + " -> ".join(path[path.index(name):] + [name]))
        elif name not in done:
            for other in graph[name]:
                visit(other, path + [name])
            done.add(name)

    for name in graph:
        visit(name, [])
    return problems


def is_public(name):
    """Headers at the top of a room are installed; see cmake/DistdlTargets.cmake."""
    return name.endswith(".hpp") and len(re.sub(r"^src/", "", name).split("/")) == 2


def check_public(root, name):
    if is_public(name):
        for match in INCLUDE.finditer(project.read(root, name)):
            header = match.group(2)
            if header.startswith("distdl/") and header != "distdl/version.hpp" and not is_public(header[len("distdl/"):]):
                yield f"{name}: a public header includes {header}, which is not installed"


def key_of(name):
    """src/train/run.hpp -> train/run.hpp, as includes name it."""
    return re.sub(r"^src/", "", name)


def includes_of(root):
    """[(file, the header of ours that it includes, line)], both as includes name them."""
    found = []
    for name in project.cxx_files(root, project.CODE):
        text = re.sub(r"//[^\n]*", "", project.read(root, name))
        found += [(key_of(name), match.group(2)[len("distdl/"):], text.count("\n", 0, match.start()) + 1)
                  for match in INCLUDE.finditer(text) if match.group(2).startswith("distdl/")]
    return found


class Inside:
    """The floors.txt of a folder: {subfolder: floor}, pairs of them that it excepts, and what it opens to which rooms."""

    LINE = {"except": re.compile(r"except (\S+) -> (\S+)"), "open": re.compile(r"open (\S+) to (\S+(?: \S+)*)")}

    def __init__(self, root, name):
        self.name, self.folder = name, posixpath.dirname(key_of(name))
        self.floors, self.excepted, self.opened, self.problems = {}, [], [], []
        floor = 0
        for number, line in enumerate(project.read(root, name).splitlines(), 1):
            words = line.split("#")[0].split()
            match = words and words[0] in self.LINE and self.LINE[words[0]].fullmatch(" ".join(words))
            if match and words[0] == "except":
                self.excepted.append((match[1], match[2]))
            elif match:
                self.opened += [(match[1], room) for room in match[2].split()]
            elif words and words[0] in self.LINE:
                self.problems.append(f"{name}:{number}: neither \"except A -> B\" nor \"open X to ROOM\"")
            elif words:
                self.floors.update({word: floor for word in words})
                floor += 1

    def subfolder(self, key):
        """The one that has a file; None: it lies at the top, or elsewhere."""
        inside = key.startswith(self.folder + "/") and key[len(self.folder) + 1:].split("/")
        return inside[0] if inside and len(inside) > 1 else None

    def check(self, keys, includes):
        there = {self.subfolder(key) for key in keys} - {None}
        yield from self.problems
        yield from (f"{self.name}: {folder} is missing" for folder in sorted(there - set(self.floors)))
        yield from (f"{self.name}: there is no folder {folder}" for folder in sorted(set(self.floors) - there))
        upwards = {}
        for key, header, line in includes:
            pair = self.subfolder(key), self.subfolder(header)
            if None not in pair and pair[0] != pair[1] and self.floors.get(pair[0], 0) <= self.floors.get(pair[1], -1):
                upwards.setdefault(pair, f"{key}:{line}")
        yield from (f"{where}: {one} must not include {other} ({self.name})"
                    for (one, other), where in upwards.items() if (one, other) not in self.excepted)
        yield from (f"{self.name}: {one} includes {other} no more: remove the exception"
                    for one, other in self.excepted if (one, other) not in upwards)

    def check_opened(self, includes):
        taken = {(what, key.split("/")[0]) for key, header, _ in includes if header.startswith(self.folder + "/")
                 for what in (header[len(self.folder) + 1:], self.subfolder(header))}
        yield from (f"{self.name}: {room} includes {what} no more: keep it for this room" for what, room in self.opened
                    if (what, room) not in taken)

    def opens(self, header, room):
        return (header[len(self.folder) + 1:], room) in self.opened or (self.subfolder(header), room) in self.opened


def tables_of(root):
    names = [name for name in project.files(root) if name.endswith("/floors.txt") and name != "src/floors.txt"]
    return {table.folder: table for table in (Inside(root, name) for name in names)}


def check_inside(root):
    tables = tables_of(root)
    keys, includes = [key_of(name) for name in project.cxx_files(root, project.CODE)], includes_of(root)
    problems = [problem for table in tables.values() for check_one in (table.check(keys, includes), table.check_opened(includes))
                for problem in check_one]
    for key, header, line in includes:
        room, other = key.split("/")[0], header.split("/")[0]
        if room != other and header.count("/") > 1 and not (other in tables and tables[other].opens(header, room)):
            problems.append(f"{key}:{line}: {header} is internal to {other}: move it to the top, or open it ({other}/floors.txt)")
    subfolders = collections.defaultdict(set)
    for key in keys:
        if key.count("/") > 1:
            subfolders[key.split("/")[0]].add(key.split("/")[1])
    problems += [f"{room}: has {len(found)} subfolders and no floors.txt for them" for room, found in sorted(subfolders.items())
                 if len(found) > 1 and room not in tables]
    return problems


def check_counts(root, most=None):
    tables, problems = tables_of(root).values(), []
    for kind, count in (("except", sum(len(table.excepted) for table in tables)), ("open", sum(len(table.opened) for table in tables))):
        limit = (most or MOST)[kind]
        if count != limit:
            problems.append(f'the floors.txt of all rooms have {count} times "{kind}", {limit} is in MOST of floors_test.py: '
                            + ("lower it" if count < limit else "mend what is new"))
    return problems


def check(root):
    floors = read_floors(root)
    problems = []
    for name in project.files(root):
        folder = folder_of(name)
        if folder is None:
            continue
        if folder not in floors:
            problems.append(f"{name}: folder {folder} is missing in src/floors.txt")
        elif name.endswith(project.CXX):
            problems += check_includes(root, floors, name, folder)
            problems += check_public(root, name)
        elif name.endswith("CMakeLists.txt"):
            problems += check_links(root, floors, name, folder)
    return problems + check_cycles(root)


class Floors(project.CheckCase):
    TABLE = "# lowest first\nbase\nworld tensor\ncomm kernels\ntrain\n"

    def tree(self, **files):
        return {"src/floors.txt": self.TABLE, **{name.replace("__", "/").replace("_D_", "."): text
                                                 for name, text in files.items()}}

    def test_project_keeps_its_floors(self):
        self.clean(check)

    def test_accepts_lower_floors_and_own_folder(self):
        self.accepts(check, self.tree(src__comm__a_D_hpp="#include <distdl/world/w.hpp>\n#include <distdl/comm/b.hpp>\n"
                                                         "#include <distdl/version.hpp>\n#include <vector>\n"))

    def test_finds_higher_floor(self):
        self.finds(check, self.tree(src__base__a_D_cpp="\n# include <distdl/comm/b.hpp>\n"),
                   "src/base/a.cpp:2", "higher floor comm")

    def test_finds_neighbour(self):
        self.finds(check, self.tree(src__world__a_D_hpp="#include <distdl/tensor/b.hpp>\n"), "the room beside it, tensor")

    def test_finds_neighbour_of_kernels_folder(self):
        self.finds(check, self.tree(kernels__cuda__a_D_cu="#include <distdl/comm/b.hpp>\n"), "the room beside it, comm")

    def test_finds_unknown_folder(self):
        self.finds(check, self.tree(src__base__a_D_hpp="#include <distdl/attic/b.hpp>\n"), "no folder attic")

    def test_finds_folder_without_floor(self):
        self.finds(check, self.tree(src__attic__a_D_hpp="\n"), "attic is missing")

    def test_finds_quoted_include(self):
        self.finds(check, self.tree(src__base__a_D_cpp='#include "a.hpp"\n'), 'include "a.hpp" as')

    def test_finds_link_to_higher_floor(self):
        self.finds(check, self.tree(src__world__CMakeLists_D_txt="distdl_add_library(world PUBLIC distdl::train)\n"),
                   "higher floor train")

    def test_finds_internal_header_in_public_one(self):
        self.finds(check, self.tree(src__comm__a_D_hpp="#include <distdl/comm/ucx/b.hpp>\n"),
                   "src/comm/a.hpp", "distdl/comm/ucx/b.hpp", "not installed")

    def test_accepts_internal_header_in_internal_one(self):
        self.accepts(check, self.tree(src__comm__ucx__a_D_hpp="#include <distdl/comm/ucx/b.hpp>\n"))

    def test_finds_cycle(self):
        self.finds(check, self.tree(src__base__a_D_hpp="#include <distdl/base/b.hpp>\n",
                                    src__base__b_D_hpp="#include <distdl/base/a.hpp>\n"), "cycle", "a.hpp", "b.hpp")

    def room(self, table, *includes, **files):
        """src/comm with the subfolders a, b and c, and includes such as "a/x.cpp b/b.hpp"."""
        text = {f"src/comm/{folder}/{folder}.hpp": "" for folder in "abc"}
        for name, header in (include.split() for include in includes):
            text[name if name.startswith("src/") else f"src/comm/{name}"] = f"#include <distdl/comm/{header}>\n"
        return {**self.tree(**files), **text, "src/comm/floors.txt": table}

    def test_project_keeps_its_floors_inside(self):
        self.clean(check_inside)
        self.clean(check_counts)

    def test_accepts_lower_floors_inside_and_the_top(self):
        self.accepts(check_inside, self.room("# lowest first\na b\nc  # a comment\n", "c/x.cpp a/a.hpp", "c/y.cpp b/b.hpp", "c/z.cpp c/c.hpp",
                                             "top.cpp c/c.hpp", "a/x.cpp top.hpp", "src/train/x.cpp top.hpp"))

    def test_finds_higher_floor_and_neighbour_inside(self):
        self.finds(check_inside, self.room("a b\nc\n", "a/x.cpp c/c.hpp"), "comm/a/x.cpp:1", "a must not include c", "src/comm/floors.txt")
        self.finds(check_inside, self.room("a b\nc\n", "a/deep/x.cpp b/b.hpp"), "comm/a/deep/x.cpp:1", "a must not include b")

    def test_exceptions_become_fewer(self):
        self.accepts(check_inside, self.room("a b\nc\nexcept a -> c\n", "a/x.cpp c/c.hpp", "c/x.cpp a/a.hpp"))
        for table, include in (("a b\nc\nexcept a -> c\n", "c/x.cpp a/a.hpp"), ("a b\nc\nexcept c -> a\n", "c/x.cpp a/a.hpp")):
            self.finds(check_inside, self.room(table, include), "src/comm/floors.txt", "no more")
        tree = self.room("a b\nc\nexcept a -> c\nopen a to train app\n")
        self.accepts(lambda root: check_counts(root, {"except": 1, "open": 2}), tree)
        self.finds(lambda root: check_counts(root, {"except": 0, "open": 2}), tree, '1 times "except"', "mend")
        self.finds(lambda root: check_counts(root, {"except": 1, "open": 3}), tree, '2 times "open"', "lower")

    def test_finds_folders_that_the_table_lacks_or_has_alone(self):
        self.finds(check_inside, self.room("a b\n"), "c is missing")
        self.finds(check_inside, self.room("a b\nc attic\n"), "no folder attic")
        self.finds(check_inside, self.room("a b c\nexcept a to c\n"), "src/comm/floors.txt:2", "neither")
        tree = self.room("a b c\n")
        del tree["src/comm/floors.txt"]
        self.finds(check_inside, tree, "comm", "3 subfolders")

    def test_finds_internal_headers_in_other_rooms(self):
        self.finds(check_inside, self.room("a b c\n", "src/train/x.cpp a/a.hpp"), "train/x.cpp:1", "comm/a/a.hpp is internal to comm")
        self.finds(check_inside, self.room("a b c\nopen a/a.hpp to app\n", "src/app/x.cpp a/a.hpp", "src/train/x.cpp a/a.hpp"), "train/x.cpp:1", "internal")
        for opened in ("a", "a/a.hpp"):
            self.accepts(check_inside, self.room(f"a b c\nopen {opened} to app train\n", "src/train/x.cpp a/a.hpp", "src/app/x.cpp a/a.hpp"))
            self.finds(check_inside, self.room(f"a b c\nopen {opened} to train\n", "top.cpp a/a.hpp"), "src/comm/floors.txt", f"train includes {opened} no more")

    def test_reads_tables_of_deeper_folders(self):
        tree = {"kernels/floors.txt": "cuda\n", "kernels/cuda/floors.txt": "low\nhigh\n", "kernels/cuda/high/h.hpp": "",
                "kernels/cuda/low/l.cu": "#include <distdl/kernels/cuda/high/h.hpp>\n"}
        self.finds(check_inside, self.tree() | tree, "kernels/cuda/low/l.cu:1", "low must not include high", "kernels/cuda/floors.txt")


if __name__ == "__main__":
    project.main()
