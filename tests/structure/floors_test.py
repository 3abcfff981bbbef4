# SPDX-License-Identifier: Apache-2.0
"""Floors: a folder includes and links only folders on lines above its own in src/floors.txt; headers form no cycle."""

import re

import project

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


if __name__ == "__main__":
    project.main()
