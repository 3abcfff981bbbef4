# SPDX-License-Identifier: Apache-2.0
"""What a Debian package holds, and what it depends on, as far as the build under test tells: each file is in one component, libslurm's
plug-in is in a package of its own, and distdl.spdx.json says the truth. tests/packaging/debian_real installs the packages."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import install_tree
from install_tree import BUILD, cache, project, run

COMPONENTS = ("runtime", "development", "python", "slurm", "cuda")


def files_below(folder):
    return {str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if not path.is_dir() or path.is_symlink()}


class Components(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install_tree.needs_plain_build()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        temp = pathlib.Path(folder.name)
        cls.files = {}
        for name in COMPONENTS:
            run(cache("CMAKE_COMMAND"), "--install", BUILD, "--prefix", temp / name, "--component", name)
            cls.files[name] = files_below(temp / name)
        cls.all = files_below(install_tree.install(temp / "all"))

    def test_each_file_is_in_one_component(self):
        self.assertEqual(set().union(*self.files.values()), self.all)
        self.assertEqual(sum(map(len, self.files.values())), len(self.all))

    def test_runtime_has_what_a_user_runs_and_reads(self):
        for name in ("bin/distdl", "share/man/man1/distdl.1", "share/bash-completion/completions/distdl", "share/distdl/sbatch/train.sbatch",
                     "share/distdl/examples/consumer/main.cpp", "share/doc/distdl/distdl.spdx.json", "share/doc/distdl/third-party-licences.txt"):
            self.assertIn(name, self.files["runtime"])
        self.assertFalse([name for name in self.files["runtime"] if re.search(r"^include/|\.(a|pc|cmake|so)$", name)])

    def test_development_has_what_a_program_of_ones_own_is_built_with(self):
        for pattern in (r"include/distdl/comm/communicator\.hpp", r".*/distdl-config\.cmake", r".*/pkgconfig/distdl\.pc", r".*/libdistdl_comm\.(a|so)",
                        r"include/distdl\.h", r".*/libdistdl\.so", r".*/pkgconfig/distdl-capi\.pc"):
            self.assertTrue([name for name in self.files["development"] if re.fullmatch(pattern, name)], pattern)
        for name in self.files["development"]:
            self.assertRegex(name, r"^include/distdl/.*\.hpp$|^include/distdl(_source)?\.h$|^include/distdl/fortran/distdl\.(f90|mod)$|\.(pc|cmake)$|/libdistdl(_\w+)?\.(a|so)$")

    def test_plugins_are_apart(self):
        plugins = {"slurm": {"slurm"}, "cuda": {"cuda", "nccl"}}
        for component, names in plugins.items():
            built = {f"libdistdl_{name}.so" for name in names if (BUILD / f"lib/distdl/libdistdl_{name}.so").exists()}
            self.assertEqual({pathlib.Path(name).name for name in self.files[component]}, built, component)


    def test_python_has_the_package_and_its_metadata(self):
        folder = cache("DISTDL_PYTHON_DIR")
        for name in ("distdl/__init__.py", "distdl/py.typed", "distdl/torch/__init__.py", f"distdl-{cache('CMAKE_PROJECT_VERSION')}.dist-info/METADATA"):
            self.assertIn(f"{folder}/{name}", self.files["python"])
        self.assertFalse([name for name in self.files["python"] if not name.startswith(f"{folder}/distdl") or name.endswith(".pyc")])


class Package(unittest.TestCase):
    def pack(self, component, folder):
        """The one package of a component."""
        run(pathlib.Path(cache("CMAKE_COMMAND")).with_name("cpack"), "--config", BUILD.resolve() / "CPackConfig.cmake", "-G", "DEB", "-B", folder,
            "-D", f"CPACK_COMPONENTS_ALL={component}", "-D", "CPACK_INSTALL_PREFIX=/usr", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=folder)
        package, = pathlib.Path(folder).glob("*.deb")
        return package

    def test_of_python_is_for_all_architectures(self):
        install_tree.needs_plain_build()
        project.require_tool("dpkg-deb")
        with tempfile.TemporaryDirectory() as folder:
            package = self.pack("python", folder)
            version = cache("CMAKE_PROJECT_VERSION") + "-1"
            self.assertEqual(package.name, f"python3-distdl_{version}_all.deb")
            self.assertEqual(run("dpkg-deb", "-f", package, "Depends"), f"python3 (>= 3.9), distdl (= {version})\n")
            self.assertIn("python3-numpy", run("dpkg-deb", "-f", package, "Suggests"))
            run("dpkg-deb", "-e", package, f"{folder}/control")
            self.assertIn("py3clean", pathlib.Path(folder, "control/prerm").read_text())

    def test_of_the_slurm_plugin_depends_on_libslurm_and_on_the_same_distdl(self):
        install_tree.needs_plain_build()
        for tool in ("dpkg-deb", "dpkg-shlibdeps", "file"):
            project.require_tool(tool)
        if not (BUILD / "lib/distdl/libdistdl_slurm.so").exists():
            self.skipTest("the plug-in for libslurm is not built (libslurm-dev)")
        with tempfile.TemporaryDirectory() as folder:
            package = self.pack("slurm", folder)
            version = cache("CMAKE_PROJECT_VERSION") + "-1"
            self.assertRegex(package.name, rf"^distdl-slurm-plugin_{re.escape(version)}_\w+\.deb$")
            depends = run("dpkg-deb", "-f", package, "Depends").strip().split(", ")
            self.assertIn(f"distdl (= {version})", depends)
            self.assertRegex(" ".join(depends), r"\blibslurm\d+")
            self.assertRegex(" ".join(depends), r"\blibc6 \(>= ")
            self.assertRegex(run("dpkg-deb", "-c", package), r"usr/share/doc/distdl-slurm-plugin -> distdl\n")


class Sbom(unittest.TestCase):
    def setUp(self):
        document = json.loads((BUILD / "distdl.spdx.json").read_text())
        self.packages = {package["name"]: package for package in document["packages"]}
        self.relations = document["relationships"]
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")

    def test_every_package_has_a_version_and_a_licence_and_is_linked(self):
        self.assertEqual(self.packages["distdl"]["versionInfo"], cache("CMAKE_PROJECT_VERSION"))
        for name, package in self.packages.items():
            self.assertRegex(package["versionInfo"], r"^\d+(\.\w+)+$", name)
            self.assertRegex(package["licenseDeclared"], r"^[A-Za-z][\w.-]+( (OR|AND) [\w.-]+)*$", name)
        linked = {relation["relatedSpdxElement"] for relation in self.relations}
        self.assertEqual(linked, {package["SPDXID"] for package in self.packages.values()})

    def test_versions_are_those_of_the_machine(self):
        program = project.require_tool("pkg-config", "pkgconf")
        compared = 0
        for module, name in (("fmt", "fmt"), ("libcrypto", "openssl"), ("zlib", "zlib"), ("libzstd", "zstd"), ("libjpeg", "libjpeg-turbo"), ("libpng", "libpng"), ("libwebp", "libwebp"), ("libarchive", "libarchive"), ("sentencepiece", "sentencepiece"), ("ucx", "ucx"), ("pmix", "pmix"),
                             ("nlohmann_json", "nlohmann-json"), ("tomlplusplus", "tomlplusplus")):
            found = subprocess.run([program, "--modversion", module], capture_output=True, text=True, check=False)
            if found.returncode == 0 and (name in self.packages or name != "sentencepiece"):  # an option
                self.assertEqual(found.stdout.strip(), self.packages[name]["versionInfo"])
                asked = subprocess.run([program, "--cflags", "--libs", module], capture_output=True, text=True, check=False)
                self.assertEqual((asked.returncode, asked.stderr), (0, ""), f"{module}.pc asks for another, whose package is to be installed too")
                compared += 1
        self.assertGreater(compared, 3)

    def test_nothing_that_cmake_links_is_left_out(self):
        table = re.search(r"set\(DISTDL_OUTSIDE\n(.*?)\)\n", project.read(project.ROOT, "cmake/DistdlInstall.cmake"), re.DOTALL).group(1)
        names = {"nlohmann_json": "nlohmann-json", "DNNL": "onednn", "CUDAToolkit": "cuda", "CLI11": "cli11", "JPEG": "libjpeg-turbo",
                 "PNG": "libpng", "WEBP": "libwebp", "ARCHIVE": "libarchive"}
        written = set(re.findall(r"distdl_sbom\(([\w-]+) ", project.read(project.ROOT, "cmake/DistdlSbom.cmake")))
        for finder in set(re.findall(r'^  "[^,]+,([^,]*),', table, re.MULTILINE)) - {"Threads", "OpenMP"}:  # the compiler's
            self.assertIn(names.get(finder, finder.lower()), written)

    def test_notices_of_what_is_inside_are_there(self):
        notices = project.read(project.ROOT, "cmake/third-party-licences.txt")
        titles = {"cli11": "CLI11", "nlohmann-json": "JSON for Modern C++", "tomlplusplus": "toml++", "dygraphs": "dygraphs",
                  "unicode-data": "Unicode Character Database"}
        inside = {relation["relatedSpdxElement"].removeprefix("SPDXRef-") for relation in self.relations if relation["relationshipType"] == "STATIC_LINK"}
        for name in inside - {"cuda"}:  # NVIDIA's own licence lets its run-time library be passed on
            self.assertIn(f"\n{titles[name]} (", notices)


if __name__ == "__main__":
    project.main()
