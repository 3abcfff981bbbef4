# SPDX-License-Identifier: Apache-2.0
"""The variant with shared libraries, as far as its build plan tells: every library is shared, and nothing is linked twice.
The plan costs seconds; building and testing it all is "make shared". It is made as Spack makes it: a search path is given, and toml++, built
by CMake, has no .pc file."""

import os
import pathlib
import re
import tempfile
import unittest

import install_tree
from install_tree import cache, project, run

# Only what the build under test found: the plan must not depend on what else is installed.
OPTIONS = ("DISTDL_ONEDNN", "DISTDL_CUDA", "DISTDL_SLURM", "CMAKE_CXX_COMPILER", "CMAKE_CUDA_ARCHITECTURES")
PACKAGER = "/opt/packager/lib"


class SharedVariant(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install_tree.needs_plain_build()
        cls.ninja = project.require_tool("ninja")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.build = pathlib.Path(folder.name)
        given = [f"-D{name}={cache(name)}" for name in OPTIONS if cache(name)]
        run(cache("CMAKE_COMMAND"), "-S", project.ROOT, "-B", cls.build, "-G", "Ninja", "-DBUILD_SHARED_LIBS=ON",
            "-DBUILD_TESTING=OFF", f"-DCMAKE_INSTALL_RPATH={PACKAGER}", *given, env={**os.environ, **cls.modules_without("tomlplusplus")})

    @classmethod
    def modules_without(cls, left_out):
        """Variables for pkg-config, which finds all of this machine's modules but one."""
        path = run(project.require_tool("pkg-config", "pkgconf"), "--variable=pc_path", "pkg-config").strip()
        links = pathlib.Path(cls.build, "modules")
        links.mkdir()
        for folder in [*os.environ.get("PKG_CONFIG_PATH", "").split(":"), *path.split(":")]:
            for file in pathlib.Path(folder).glob("*.pc") if folder else []:
                if file.stem != left_out and not (links / file.name).exists():
                    (links / file.name).symlink_to(file)
        return {"PKG_CONFIG_LIBDIR": str(links), "PKG_CONFIG_PATH": ""}

    def outputs(self):
        listing = run(self.ninja, "-C", self.build, "-t", "targets", "all")
        return re.findall(r"^(\S+): (?!phony)", listing, re.MULTILINE)

    def inputs(self, output):
        """All files from which one is linked."""
        text = run(self.ninja, "-C", self.build, "-t", "query", output)
        return re.findall(r"^    (?:\|+ )?(\S+)$", text[text.index("  input:"):text.index("  outputs:")], re.MULTILINE)

    def assert_links_only_shared_libraries_of_ours(self, output):
        for name in self.inputs(output):
            if pathlib.Path(name).name.startswith("libdistdl_"):
                self.assertRegex(name, r"^lib/libdistdl_\w+\.so", output)

    def test_every_library_is_shared_and_has_one_file(self):
        names = [pathlib.Path(name).name for name in self.outputs() if name.startswith("lib/lib")]
        self.assertFalse([name for name in names if name.endswith(".a")])
        folders = set(re.findall(r"^\s*distdl_add_library\((\w+)", "".join(
            project.read(project.ROOT, name) for name in project.files() if name.endswith("CMakeLists.txt")), re.MULTILINE))
        self.assertEqual({name for name in names if name.endswith(".so")}, {f"libdistdl_{name}.so" for name in folders} | {"libdistdl.so"})

    def test_sonames_differ_where_find_package_tells_versions_apart(self):
        text = project.read(project.ROOT, "CMakeLists.txt")
        minor = re.search(r"^project\(distdl VERSION (\d+\.\d+)", text, re.MULTILINE).group(1)
        self.assertIn("COMPATIBILITY SameMinorVersion", project.read(project.ROOT, "cmake/DistdlInstall.cmake"))
        sonames = re.findall(r"^  SONAME = libdistdl(?:_\w+)?\.so\.(\S+)$", (self.build / "build.ninja").read_text(), re.MULTILINE)
        self.assertEqual(set(sonames), {minor})

    def test_every_library_exports_the_namespace_alone(self):
        """exports_test.py shows what the linker makes of this script."""
        flags = re.findall(r"^  LINK_FLAGS = (.*--version-script=.*)$", (self.build / "build.ninja").read_text(), re.MULTILINE)
        self.assertEqual(len(flags), len([name for name in self.outputs() if re.fullmatch(r"lib/libdistdl(_\w+)?\.so", name)]))

    def test_search_path_of_a_packager_follows_ours(self):
        paths = re.findall(r'NEW_RPATH "([^"]*)"', (self.build / "cmake_install.cmake").read_text())
        self.assertTrue(paths)
        for path in paths:
            self.assertRegex(path, rf"^\\\$ORIGIN/\.\./[^:]+:\\\$ORIGIN:{PACKAGER}$")

    def test_modules_require_only_modules_that_exist(self):
        required = re.findall(r"^Requires.*: (.*)$", "\n".join(file.read_text() for file in self.build.glob("pkgconfig/*.pc")), re.MULTILINE)
        self.assertIn("fmt", ", ".join(required))
        self.assertNotIn("tomlplusplus", ", ".join(required))

    def test_plugins_lie_in_a_folder_of_their_own_and_hold_no_library_of_ours(self):
        plan = (self.build / "build.ninja").read_text()
        sources = {"cuda": "kernels/cuda/plugin.cpp", "nccl": "src/comm/device/nccl/plugin.cpp",
                   "slurm": "src/slurm/queries/libslurm_plugin.cpp"}
        plugins = {name for name in self.outputs() if name.startswith("lib/distdl/")}
        self.assertEqual(plugins, {f"lib/distdl/libdistdl_{name}.so" for name in sources if sources[name] in plan})
        for plugin in plugins:
            self.assert_links_only_shared_libraries_of_ours(plugin)
            folders = {re.match(r".*?\.dir(?=/)", name).group() for name in self.inputs(plugin) if name.endswith(".o")}
            self.assertEqual(len(folders), 1, plugin)

    def test_the_program_links_only_shared_libraries_of_ours(self):
        self.assertTrue([name for name in self.inputs("bin/distdl") if name.startswith("lib/libdistdl_app.so")])
        self.assert_links_only_shared_libraries_of_ours("bin/distdl")


if __name__ == "__main__":
    project.main()
