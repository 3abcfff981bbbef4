# SPDX-License-Identifier: Apache-2.0
"""What is installed is whole, can be used from CMake and from pkg-config, and can be moved."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import install_tree
from install_tree import BUILD, cache, components, lib_dir, run

project = install_tree.project
COMPILER = cache("CMAKE_CXX_COMPILER")
EXAMPLE = project.ROOT / "examples" / "consumer"


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install_tree.needs_plain_build()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.temp = pathlib.Path(cls.folder.name)
        cls.prefix = install_tree.install(cls.temp / "first")
        cls.version = re.search(r"^project\(distdl VERSION (\S+)", project.read(project.ROOT, "CMakeLists.txt"),
                                re.MULTILINE).group(1)

    def configure(self, source, name, *options, expect=0, **env):
        build = self.temp / name
        known = self.temp / "compiler"  # what CMake finds out about the compiler, which takes most of the time of these
        if known.exists():
            shutil.copytree(known, build / "CMakeFiles")
        launcher = cache("CMAKE_CXX_COMPILER_LAUNCHER")
        output = run(cache("CMAKE_COMMAND"), "-Werror=dev", "-S", source, "-B", build, "-G", cache("CMAKE_GENERATOR"),
                     f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",
                     f"-DCMAKE_PREFIX_PATH={self.prefix}", *options, expect=expect, env={**os.environ, **env})
        for found in [] if known.exists() else build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
            shutil.copytree(found.parent, known / found.parent.name)
        return build, output

    def write_project(self, name, find, body="", main="int main() {}\n"):
        source = self.temp / f"{name}-source"
        source.mkdir()
        (source / "main.cpp").write_text(main)
        (source / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.24)\nproject({name} LANGUAGES CXX)\n"
                                               f"{find}\nadd_executable({name} main.cpp)\n{body}\n")
        return source

    def check_example_output(self, output):
        self.assertIn("bias (10) at 208", output)
        self.assertIn(f"distdl {self.version}: 224 floats", output)

    def build_example(self, prefix, name):
        self.prefix = prefix
        build, _ = self.configure(EXAMPLE, name)
        run(cache("CMAKE_COMMAND"), "--build", build)
        self.check_example_output(run(build / "consumer"))

    def pkg_config(self, prefix, *arguments):
        program = project.require_tool("pkg-config", "pkgconf")
        path = f"{lib_dir(prefix)}/pkgconfig:{os.environ.get('PKG_CONFIG_PATH', '')}"
        return run(program, *arguments, env={**os.environ, "PKG_CONFIG_PATH": path}).split()

    def compile(self, prefix, program, source, *flags):
        run(COMPILER, "-std=c++20", source, "-o", program, *flags, f"-Wl,-rpath,{lib_dir(prefix)}")
        return run(program)

    def public_headers(self):
        include = self.prefix / "include"
        return sorted(str(path.relative_to(include)) for path in include.rglob("*.hpp"))

    def includes(self):
        return "".join(f"#include <{header}>\n" for header in self.public_headers()) + "int main() {}\n"

    def test_man_page_and_completions_are_where_systems_look_for_them(self):
        page = (self.prefix / "share/man/man1/distdl.1").read_text()
        self.assertIn("distdl checkpoint verify", page)
        for file in ("bash-completion/completions/distdl", "zsh/site-functions/_distdl", "fish/vendor_completions.d/distdl.fish"):
            self.assertIn("checkpoint verify", (self.prefix / "share" / file).read_text())

    def test_what_easybuild_checks_holds(self):
        recipe = {}
        exec(project.read(project.ROOT, "modules/easybuild/distdl-VERSION.part"), {"SHLIB_EXT": "so"}, recipe)
        self.assertTrue(recipe["build_shared_libs"])
        suffix = ".so" if cache("BUILD_SHARED_LIBS") == "ON" else ".a"
        for path in recipe["sanity_check_paths"]["files"] + recipe["sanity_check_paths"]["dirs"]:
            path = re.sub("^lib/", f"{lib_dir(self.prefix)}/", path).replace(".so", suffix)
            self.assertTrue((self.prefix / path).exists(), path)
        environment = {**os.environ, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}", "TMPDIR": str(self.temp),
                       "XDG_STATE_HOME": f"{self.temp}/state", "XDG_CACHE_HOME": f"{self.temp}/cache"}
        for command in recipe["sanity_check_commands"]:
            run("bash", "-c", command % {"installdir": self.prefix}, env=environment)

    def test_documents_are_installed_with_what_they_link_to(self):
        documents = self.prefix / "share/doc/distdl"
        for name in ("README.md", "CHANGELOG.md", "LICENSE", "docs/README.md", "docs/exit-codes.md"):
            self.assertTrue((documents / name).is_file(), name)
        for target in re.findall(r"\]\((docs/[^)#]+)", (documents / "README.md").read_text()):
            self.assertTrue((documents / target).exists(), target)

    def test_example_is_built_by_cmake_also_from_a_moved_prefix(self):
        self.build_example(self.prefix, "cmake-first")
        moved = install_tree.install(self.temp / "second")
        moved = moved.rename(self.temp / "moved")
        self.build_example(moved, "cmake-moved")
        type(self).prefix = self.temp / "first"

    def test_example_is_built_by_pkg_config_also_from_a_moved_prefix(self):
        moved = self.temp / "moved-for-pkg-config"
        shutil.copytree(self.prefix, moved)
        for prefix in (self.prefix, moved):
            flags = self.pkg_config(prefix, "--cflags", "--libs", "distdl-tensor")
            self.assertTrue(any(flag.startswith(f"-L{prefix}/") for flag in flags), flags)
            self.check_example_output(self.compile(prefix, self.temp / "by-pkg-config", EXAMPLE / "main.cpp", *flags))
            self.assertEqual(self.pkg_config(prefix, "--modversion", "distdl"), [self.version])

    def test_examples_that_communicate_are_built_by_cmake(self):
        for name, arguments, output in (("all_reduce", [], "1 ranks: each of 1000000 values is 1"),
                                        ("heat", [self.temp / "plate", 32, 10], "1 ranks, from step 0 of 10")):
            with self.subTest(name):
                build, _ = self.configure(EXAMPLE.parent / name, f"example-{name}")
                run(cache("CMAKE_COMMAND"), "--build", build)
                self.assertIn(output, run(build / name, *arguments))

    def test_c_program_is_built_by_pkg_config(self):
        source, program = self.temp / "version.c", self.temp / "version"
        source.write_text("#include <distdl.h>\n#include <stdio.h>\nint main(void) { return puts(distdl_version()) < 0; }\n")
        flags = self.pkg_config(self.prefix, "--cflags", "--libs", "distdl-capi")
        run(project.require_tool("cc", "gcc"), "-std=c99", "-pedantic", "-Werror", source, "-o", program, *flags, f"-Wl,-rpath,{lib_dir(self.prefix)}")
        self.assertEqual(run(program), self.version + "\n")

    def test_example_in_fortran_is_built_by_cmake(self):
        project.require_tool("gfortran")
        build, _ = self.configure(EXAMPLE.parent / "heat_fortran", "example-heat-fortran")
        run(cache("CMAKE_COMMAND"), "--build", build)
        self.assertIn("1 ranks, from step 0 of 10", run(build / "heat_fortran", self.temp / "fortran-plate", 32, 10))

    def test_every_symbol_is_found_through_cmake(self):
        names = components(self.prefix)
        whole = " ".join(f"$<TARGET_LINKER_FILE:distdl::{name}>" for name in names)
        source = self.write_project(
            "everything", "find_package(distdl CONFIG REQUIRED)",
            f"target_link_options(everything PRIVATE -Wl,--whole-archive {whole} -Wl,--no-whole-archive)\n"
            f"target_link_libraries(everything PRIVATE {' '.join(f'distdl::{name}' for name in names)})", self.includes())
        build, _ = self.configure(source, "everything")
        run(cache("CMAKE_COMMAND"), "--build", build)
        run(build / "everything")

    def test_every_symbol_is_found_through_pkg_config(self):
        source = self.temp / "everything.cpp"
        source.write_text(self.includes())
        flags = self.pkg_config(self.prefix, "--cflags", "--libs", "distdl")
        run(COMPILER, "-std=c++20", "-E", "-o", os.devnull, source, *flags)  # each header is found; they compile in the test above
        source.write_text("int main() {}\n")
        whole = [f"-ldistdl_{name}" for name in components(self.prefix)]
        self.compile(self.prefix, self.temp / "everything-by-pkg-config", source, f"-L{lib_dir(self.prefix)}",
                     "-Wl,--whole-archive", *whole, "-Wl,--no-whole-archive",
                     *flags)

    def test_unknown_component_is_refused_with_the_list_of_components(self):
        source = self.write_project("unknown", "find_package(distdl CONFIG REQUIRED COMPONENTS base abacus)")
        _, output = self.configure(source, "unknown", expect=None)
        self.assertIn('no component "abacus"', output)
        self.assertRegex(output, r"built\s+with:\s+base")

    def test_optional_component_may_be_missing(self):
        source = self.write_project(
            "optional", "find_package(distdl CONFIG REQUIRED COMPONENTS base OPTIONAL_COMPONENTS abacus)\n"
                        'message(STATUS "base=${distdl_base_FOUND} abacus=${distdl_abacus_FOUND}.")')
        _, output = self.configure(source, "optional")
        self.assertIn("base=TRUE abacus=.", output)

    def test_component_needs_only_its_own_libraries(self):
        source = self.write_project("alone", "find_package(distdl CONFIG REQUIRED COMPONENTS tensor)")
        self.configure(source, "alone", PKG_CONFIG_LIBDIR="/nowhere", PKG_CONFIG_PATH="")

    def test_missing_library_is_named(self):
        if "comm" not in components(self.prefix):
            self.skipTest("the component comm is not built")
        source = self.write_project("hidden", "find_package(distdl CONFIG REQUIRED COMPONENTS comm)")
        _, output = self.configure(source, "hidden", expect=None, PKG_CONFIG_LIBDIR="/nowhere", PKG_CONFIG_PATH="")
        self.assertRegex(output, r"(ucx|pmix|libarchive)>=")

    def test_other_minor_version_is_refused(self):
        source = self.write_project("newer", "find_package(distdl 99.0 CONFIG REQUIRED)")
        self.configure(source, "newer", expect=None)

    def test_public_headers_use_only_public_headers(self):
        headers = self.public_headers()
        self.assertIn("distdl/version.hpp", headers)
        for header in headers:
            self.assertRegex(header, r"^distdl/(\w+/)?\w+\.hpp$", "headers in subfolders are internal")
            text = (self.prefix / "include" / header).read_text()
            for included in re.findall(r"^#\s*include <(distdl/[^>]+)>", text, re.MULTILINE):
                self.assertIn(included, headers, f"{header} is public and includes {included}, which is not installed")

    def test_installed_files_do_not_name_build_or_source_folder(self):
        for path in self.prefix.rglob("*"):
            if path.suffix in (".cmake", ".pc", ".hpp", ".lua", ".sbatch"):
                text = path.read_text()
                for folder in (str(BUILD), str(project.ROOT)):
                    self.assertNotIn(folder, text, path)

    def test_program_runs_and_tells_its_version(self):
        program = self.prefix / "bin" / "distdl"
        if not program.exists():
            self.skipTest("the program is not built yet")
        moved = self.temp / "moved-program"
        shutil.copytree(self.prefix, moved)
        for path in (program, moved / "bin" / "distdl"):
            self.assertIn(self.version, run(path, "version"))

    def test_python_package_finds_the_library_of_its_prefix_also_from_a_moved_one(self):
        moved = self.temp / "moved-python"
        shutil.copytree(self.prefix, moved, symlinks=True)
        environment = {name: value for name, value in os.environ.items() if name != "DISTDL_LIBRARY"}
        script = "import distdl, importlib.metadata as metadata; from distdl import _library; " \
                 "print(metadata.version('distdl'), _library.library().version(), _library.library().path)"
        for prefix in (self.prefix, moved):
            path = prefix / cache("DISTDL_PYTHON_DIR")
            version, loaded, library = run(sys.executable, "-c", script, env={**environment, "PYTHONPATH": str(path)}).split()
            self.assertEqual((version, loaded), (self.version, self.version))
            self.assertTrue(library.startswith(f"{prefix.resolve()}/lib"), library)

    def write_script(self, name, text):
        folder = self.temp / "stand-ins"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("#!/bin/sh\n" + text)
        (folder / name).chmod(0o755)
        return folder

    def loaded_by(self, *command, **env):
        """Files that a process loads, whatever comes of it."""
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, **env, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{folder}/loaded"}
            env.pop("DISTDL_PLUGIN_PATH", None)
            subprocess.run([str(word) for word in command], env=env, cwd=folder, capture_output=True)
            text = "".join(file.read_text() for file in pathlib.Path(folder).glob("loaded.*"))
        return set(re.findall(r"calling init: (\S+)", text))

    def test_program_finds_its_plugins_also_from_a_moved_prefix(self):
        moved = self.temp / "moved-plugins"
        shutil.copytree(self.prefix, moved)
        # A driver in name only and a Slurm job that no Slurm knows: far enough to open the plug-ins.
        stand_ins = self.write_script("srun", "exit 0\n")
        # The plug-in is opened only where scontrol has its version and finds a slurm.conf.
        scontrol = shutil.which("scontrol") or "false"
        self.write_script("scontrol", f'case "$*" in *--version*) exec {scontrol} --version;; *"show config"*) exit 0;; esac\nexit 1\n')
        (stand_ins / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\n")
        run(COMPILER, "-shared", "-o", stand_ins / "libcuda.so.1", "-x", "c++", os.devnull)
        run(self.prefix / "bin" / "distdl", "data", "make", "shapes", stand_ins / "set.h5", "--samples", "60", "--size", "12")
        (stand_ins / "job.toml").write_text(f'data.train = "{stand_ins}/set.h5"\nmodel.name = "mlp"\n')
        for prefix in (self.prefix, moved):
            program, plugins = prefix / "bin" / "distdl", lib_dir(prefix) / "distdl"
            loaded = self.loaded_by(program, "doctor", LD_LIBRARY_PATH=str(stand_ins))
            loaded |= self.loaded_by(program, "run", stand_ins / "job.toml", "--set", f"run.dir={self.temp}/run",
                                     PATH=f"{stand_ins}:{os.environ['PATH']}", SLURM_CONF=str(stand_ins / "slurm.conf"),
                                     SLURM_JOB_ID="1")
            self.assertEqual({path for path in loaded if path.startswith(f"{plugins}/")},
                             {str(path) for path in plugins.glob("*.so") if "nccl" not in path.name})  # wants a GPU
            for path in loaded:
                if "libdistdl_" in path:
                    self.assertIn(lib_dir(prefix).resolve(), pathlib.Path(path).resolve().parents)


if __name__ == "__main__":
    project.main()
