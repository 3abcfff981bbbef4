# SPDX-License-Identifier: Apache-2.0
"""The installed modulefiles in the real module systems: Lmod (Lua) and Environment Modules (Tcl)."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import install_tree
from install_tree import BUILD, project, run

PATHS = ("PATH", "MANPATH", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
OWN = re.compile(r"_=|_ModuleTable")  # the shell's last argument, Lmod's record of what it did


class ModuleSystem:
    """What both systems must do. A subclass gives `tree`, `prologue`, and the extension of its modulefiles."""
    extension = ""

    @classmethod
    def setUpClass(cls):
        install_tree.needs_plain_build()
        cls.find()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = install_tree.install(pathlib.Path(folder.name) / "distdl")
        cls.modules = cls.prefix / "modules" / cls.tree
        cls.file, = (cls.modules / "distdl").iterdir()
        cls.version = cls.file.name.removesuffix(cls.extension)
        other = cls.modules / "distdl" / f"99.0{cls.extension}"
        other.write_text(cls.file.read_text().replace(cls.version, "99.0"))

    def shell(self, *lines, manpath=None):
        """Standard output and error of a bash that has the module system and nothing else."""
        script = "\n".join([self.prologue, f"module use {self.modules}", *lines])
        env = {"HOME": "/nonexistent", "PATH": "/usr/local/bin:/usr/bin:/bin", **({"MANPATH": manpath} if manpath else {})}
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(["bash", "--norc", "--noprofile", "-c", script], env=env, cwd=folder, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return result.stdout

    def environments(self, *commands, manpath=None):
        """The environment before all commands and after each."""
        dump = "echo @@@; env -0 | sort -z | tr '\\n\\0' ' \\n'"
        text = self.shell(dump, *(f"{command}\n{dump}" for command in commands), manpath=manpath)
        shots = [shot for shot in text.split("@@@\n")][1:]
        return [dict(line.split("=", 1) for line in shot.splitlines() if "=" in line and not OWN.match(line))
                for shot in shots]

    def test_load_sets_what_a_user_needs(self):
        _, loaded = self.environments("module load distdl/" + self.version)
        self.assertEqual(loaded["DISTDL_ROOT"], str(self.prefix))
        self.assertEqual(loaded["DISTDL_VERSION"], self.version)
        self.assertEqual(loaded["PATH"].split(":")[0], str(self.prefix / "bin"))
        self.assertEqual(loaded["CMAKE_PREFIX_PATH"], str(self.prefix))
        self.assertTrue(pathlib.Path(loaded["PYTHONPATH"], "distdl/__init__.py").is_file(), loaded["PYTHONPATH"])
        self.assertTrue(list(pathlib.Path(loaded["PKG_CONFIG_PATH"]).glob("distdl.pc")), loaded["PKG_CONFIG_PATH"])

    def test_every_added_path_exists(self):
        before, loaded = self.environments("module load distdl/" + self.version)
        for name in PATHS:
            for entry in set(loaded.get(name, "").split(":")) - set(before.get(name, "").split(":")) - {""}:
                self.assertTrue(pathlib.Path(entry).is_dir(), f"{name}: {entry}")

    def test_manpath_keeps_the_pages_of_the_system(self):
        for manpath in (None, "/opt/other/man"):
            _, loaded = self.environments("module load distdl/" + self.version, manpath=manpath)
            entries = loaded["MANPATH"].split(":")
            self.assertIn(str(self.prefix / "share/man"), entries)
            self.assertIn("", entries, "an empty entry stands for the system's pages")

    def test_documents_are_where_the_page_says(self):
        url = re.search(r"URL: file://(\S+/README\.md)\b", self.file.read_text()).group(1)
        self.assertTrue(pathlib.Path(url).is_file(), url)

    def test_unload_restores_the_environment_byte_for_byte(self):
        for manpath in (None, "/opt/other/man"):
            before, loaded, after = self.environments("module load distdl/" + self.version, "module unload distdl",
                                                      manpath=manpath)
            self.assertNotEqual(before, loaded)
            self.assertEqual(before, after)

    def test_loading_twice_is_loading_once(self):
        _, once, twice, none = self.environments(*2 * ["module load distdl/" + self.version], "module unload distdl")
        self.assertEqual({name: once.get(name) for name in PATHS}, {name: twice.get(name) for name in PATHS})
        self.assertNotIn("DISTDL_ROOT", none)

    def test_help_whatis_and_show_say_something(self):
        module = "distdl/" + self.version
        self.assertIn("distdl run --local", self.shell(f"module help {module}"))
        whatis = self.shell(f"module whatis {module}")
        for field in ("Name: distdl", f"Version: {self.version}", "Category: ", "Description: ", f"URL: file://{self.prefix}/"):
            self.assertIn(field, whatis)
        self.assertIn("DISTDL_ROOT", self.shell(f"module show {module}"))

    def test_modulefile_runs_no_program_and_tunes_nothing(self):
        self.assertNotRegex(self.file.read_text(), r"\b(exec|execute|os\.|io\.|capture|system|purge|UCX_|OMP_)")


class Lmod(ModuleSystem, unittest.TestCase):
    tree, extension = "lmod", ".lua"

    @classmethod
    def find(cls):
        inits = sorted(pathlib.Path("/usr/share/lmod").glob("*/init/bash"))
        if not inits:
            raise unittest.SkipTest("Lmod is not installed (lmod)")
        cls.libexec = inits[-1].parents[1] / "libexec"
        # Lmod's first command writes down what it found on PATH and keeps that: let it, before we compare.
        warm = tempfile.TemporaryDirectory()
        cls.addClassCleanup(warm.cleanup)
        pathlib.Path(warm.name, "warm.lua").write_text('prepend_path("PATH", "/")\nprepend_path("MANPATH", "/")\n')
        cls.prologue = f"source {inits[-1]}\nmodule use {warm.name}\nmodule load warm\nmodule unload warm"

    def test_second_version_takes_the_place_of_the_first(self):
        _, both = self.environments(f"module load distdl/{self.version}\nmodule load distdl/99.0")
        self.assertEqual(both["DISTDL_VERSION"], "99.0")
        self.assertEqual(both["PATH"].split(":").count(str(self.prefix / "bin")), 1)

    def test_second_version_conflicts_where_the_site_forbids_swapping(self):
        _, first, both = self.environments("export LMOD_DISABLE_SAME_NAME_AUTOSWAP=yes\nmodule load distdl/" + self.version,
                                           "module load distdl/99.0 && echo loaded")
        self.assertEqual(first["DISTDL_VERSION"], self.version)
        self.assertEqual(first, both)

    def test_tree_passes_the_syntax_check(self):
        check = self.libexec / "check_module_tree_syntax"
        self.assertIn("No errors found", run(check, self.modules))
        with tempfile.TemporaryDirectory() as bad:
            folder = pathlib.Path(bad, "distdl")
            folder.mkdir()
            (folder / "1.0.lua").write_text(self.file.read_text() + 'prepend_path("X" garbage\n')
            run(check, bad, expect=1)

    def test_spider_shows_the_software_page(self):
        page, = json.loads(run(self.libexec / "spider", "-o", "softwarePage", self.modules))
        self.assertEqual(page["package"], "distdl")
        self.assertIn(self.version, [entry["versionName"] for entry in page["versions"]])
        self.assertTrue(page["description"] and page["url"] and page["categories"])

    def test_tcl_modulefile_does_the_same_in_lmod(self):
        lua = self.environments("module load distdl/" + self.version)[1]
        tcl = self.environments(f"module unuse {self.modules}\nmodule use {self.prefix}/modules/tcl\n"
                                f"module load distdl/{self.version}")[1]
        for name in (*PATHS, "DISTDL_ROOT", "DISTDL_VERSION"):
            self.assertEqual(lua.get(name), tcl.get(name), name)


class EnvironmentModules(ModuleSystem, unittest.TestCase):
    tree = "tcl"

    @classmethod
    def find(cls):
        tclsh = project.require_tool("tclsh")
        get = pathlib.Path(__file__).with_name("get_environment_modules")
        result = subprocess.run([get, BUILD / "environment-modules"], capture_output=True, text=True)
        if result.returncode == project.SKIPPED:
            raise unittest.SkipTest(result.stderr.strip())
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.prologue = f'module() {{ eval "$({tclsh} {result.stdout.strip()} bash "$@")"; }}'

    def test_first_line_names_the_format(self):
        self.assertTrue(re.match(r"#%Module1\.0\n", self.file.read_text()))

    def test_second_version_conflicts(self):
        _, first, both = self.environments("module load distdl/" + self.version, "module load distdl/99.0")
        self.assertEqual(first["DISTDL_VERSION"], self.version)
        self.assertEqual(first, both)
        self.assertIn("conflict", self.shell(f"module load distdl/{self.version}", "module load distdl/99.0"))


if __name__ == "__main__":
    project.main()
