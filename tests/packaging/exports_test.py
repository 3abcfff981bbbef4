# SPDX-License-Identifier: Apache-2.0
"""A shared library exports the namespace distdl, with the version of the interface, and nothing of the standard library or of others
(cmake/exports.map.in). A small library shows that the linker does so; in a build with shared libraries each of them is looked at."""

import pathlib
import re
import tempfile
import unittest

import install_tree
from install_tree import BUILD, cache, project, run

OURS = re.compile(r"(?:(?:guard variable|typeinfo|typeinfo name|vtable|VTT|TLS \w+ function) for |(?:non-virtual|virtual) thunk to )?distdl::")
SMALL = """
#include <map>
#include <memory>
#include <string>
#include <stdexcept>
#include <vector>
namespace other { int hidden() { return 1; } template <class T> struct Table { T value{}; virtual ~Table() = default; }; template struct Table<int>; }
extern "C" int hidden_too() { return 2; }
namespace distdl {
struct Shape { virtual ~Shape() = default; virtual int size() const { return 3; } };
struct Lost : std::runtime_error { using std::runtime_error::runtime_error; };
inline std::map<std::string, std::vector<double>>& table() { static std::map<std::string, std::vector<double>> all; return all; }
std::shared_ptr<Shape> shape() { table()["a"].push_back(other::hidden()); return std::make_shared<Shape>(); }
void lose() { throw Lost("rank 1"); }
namespace { struct Own : Shape { int size() const override { return 4; } }; }
std::unique_ptr<Shape> own() { return std::make_unique<Own>(); }
}
"""


def exported(library):
    """[(letter of nm, mangled name, version, name without types)] of what a program can link to."""
    rows = re.findall(r"^[0-9a-f]* +(\w) (\w+)(@*\S*)$", run("nm", "-D", "--defined-only", library), re.MULTILINE)
    plain = run("c++filt", "-p", input="\n".join(name for _, name, _ in rows)).splitlines()
    return [(*row, name) for row, name in zip(rows, plain)]


class Exports(unittest.TestCase):
    def setUp(self):
        install_tree.needs_plain_build()
        for tool in ("nm", "c++filt"):
            project.require_tool(tool)
        self.node = "DISTDL_" + cache("CMAKE_PROJECT_VERSION").rsplit(".", 1)[0]

    def check(self, library):
        """The names of what it exports, all of which are ours."""
        rows = [row for row in exported(library) if row[0] != "A"]  # A: the version itself
        foreign = [plain for _, _, version, plain in rows if not OURS.match(plain) or version != "@@" + self.node]
        if foreign:
            self.fail(f"{library} exports {len(foreign)} names that are not distdl's, or not of {self.node}, such as {foreign[:5]}; see cmake/exports.map.in")
        return [plain for *_, plain in rows]

    def small_library(self, folder, *options):
        source = pathlib.Path(folder, "small.cpp")
        source.write_text(SMALL)
        library = source.with_suffix(".so")
        run(cache("CMAKE_CXX_COMPILER"), "-std=c++20", "-shared", "-fPIC", source, "-o", library, *options)
        return library

    def test_linker_exports_the_namespace_alone(self):
        template = project.read(project.ROOT, "cmake/exports.map.in")
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "exports.map")
            major, minor, _ = cache("CMAKE_PROJECT_VERSION").split(".")
            script.write_text(template.replace("@PROJECT_VERSION_MAJOR@", major).replace("@PROJECT_VERSION_MINOR@", minor))
            names = self.check(self.small_library(folder, f"-Wl,--version-script={script}"))
            for wanted in ("distdl::shape", "distdl::Shape::size", "distdl::own", "vtable for distdl::Shape", "typeinfo for distdl::Lost",
                           "guard variable for distdl::table[abi:cxx11]()::all", "distdl::table[abi:cxx11]()::all"):
                self.assertIn(wanted, names)
            with self.assertRaisesRegex(AssertionError, "names that are not distdl's"):
                self.check(self.small_library(folder))

    def test_built_libraries_export_the_namespace_alone(self):
        if cache("BUILD_SHARED_LIBS") != "ON":
            self.skipTest("this build has static libraries; \"make shared\" and \"make deb\" have shared ones")
        libraries = sorted((BUILD / "lib").glob("libdistdl_*.so"))
        libraries = [library for library in libraries if library.is_symlink()]  # not those of tests
        self.assertGreater(len(libraries), 20)
        owner = {}
        for library in libraries:
            self.assertGreater(len(self.check(library)), 0)
            for letter, name, *_ in exported(library):
                if letter in "TDBR":  # not what each library has that uses it (W, V, u)
                    self.assertIsNone(owner.get(name), f"{name} is in {owner.get(name)} and in {library.name}")
                    owner[name] = library.name


if __name__ == "__main__":
    project.main()
