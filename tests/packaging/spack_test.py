# SPDX-License-Identifier: Apache-2.0
"""The Spack recipe says the same as CMake: options, version, licence, dependencies, installed files; its tests run."""

import itertools
import os
import pathlib
import re
import tempfile
import unittest

import install_tree
import spack_stub
from install_tree import cache, lib_dir, project, run

SPACK = project.ROOT / "spack"
RECIPE = SPACK / "spack_repo" / "distdl" / "packages" / "distdl" / "package.py"
DIALECTS = ("0.23", "1.0")
# Options that a packager has no use for.
FOR_DEVELOPERS = {"DISTDL_CCACHE", "DISTDL_CUDA_WERROR", "DISTDL_PRECOMPILE", "DISTDL_SANITIZE", "DISTDL_TEST_PATIENCE", "DISTDL_TESTS", "DISTDL_TESTS_OPTIMISED",
                  "DISTDL_UNITY", "DISTDL_WERROR"}
# What CMake asks for, and the Spack package that brings it ("" where the compiler does).
PACKAGES = {"PkgConfig": "pkgconfig", "Threads": "", "OpenMP": "", "fmt": "fmt", "CLI11": "cli11",
            "nlohmann_json": "nlohmann-json", "tomlplusplus": "tomlplusplus", "OpenSSL": "openssl", "ZLIB": "zlib-api",
            "Boost": "boost", "HDF5": "hdf5", "ucx": "ucx", "pmix": "pmix", "libzstd": "zstd", "ONEDNN": "onednn",
            "SLURM": "slurm", "CUDAToolkit": "cuda", "CUDA": "cuda", "GTest": "googletest", "Python3": ""}
NOT_ASKED_BY_NAME = {"c", "cxx", "cmake", "cudnn", "nccl"}  # CMake itself, its languages, and libraries found by file


def cmake_files():
    return [name for name in project.files() if name.endswith(("CMakeLists.txt", ".cmake"))
            and not name.startswith(("examples/", "tests/packaging/"))]


def cmake_wants():
    """{CMake's name: least version or ""} of everything that CMake looks for."""
    wants = {}
    for name in cmake_files():
        text = re.sub(r"#.*", "", project.read(project.ROOT, name))
        for package, version in re.findall(r"find_package\(\s*(\w+)[ \t]*([\d.]*)", text):
            wants[package] = wants.get(package) or version
        for package, version in re.findall(r"pkg_check_modules\([^)]*?\b([a-z]+)>=([\d.]+)", text):
            wants[package] = version
    for option in cmake_options():
        if option.removeprefix("DISTDL_") in PACKAGES:  # DISTDL_CUDA=ON wants CUDA
            wants[option.removeprefix("DISTDL_")] = ""
    return wants


def cmake_options():
    """The user's options: BUILD_SHARED_LIBS and all of distdl's own."""
    text = "".join(project.read(project.ROOT, name) for name in cmake_files())
    settings = re.findall(r"set\(\s*(DISTDL_\w+)[^)]*\bCACHE (?:STRING|BOOL)", text)  # not the places of tools
    return set(re.findall(r"option\(\s*(\w+)", text)) | set(settings)


def every_choice(recorded):
    names = [name for name, default in recorded.variants.items() if isinstance(default, bool)]
    for values in itertools.product((False, True), repeat=len(names)):
        yield {**dict(zip(names, values)), "cuda_arch": ("80", "90")}


class Recipe(unittest.TestCase):
    def setUp(self):
        self.cls, self.recorded = spack_stub.load(RECIPE, "1.0")

    def arguments(self, **variants):
        """{CMake variable: value} for the variants."""
        words = self.cls("0.1.0", {**self.recorded.variants, **variants}).cmake_args()
        return dict(re.fullmatch(r"-D(\w+):\w+=(.*)", word).groups() for word in words)

    def test_both_dialects_load_the_same(self):
        for dialect in DIALECTS:
            cls, recorded = spack_stub.load(RECIPE, dialect)
            self.assertEqual(vars(recorded), vars(self.recorded), dialect)
            self.assertTrue(issubclass(cls, spack_stub.CMakePackage) and issubclass(cls, spack_stub.CudaPackage))

    def test_stub_refuses_what_spack_refuses(self):
        text = RECIPE.read_text()
        for right, wrong, error in (('variant("shared", default=', 'variant("shared", defualt=', TypeError),
                                    ('depends_on("fmt@9:")', 'depends_on("fmt >= 9")', ValueError),
                                    ('license("Apache-2.0")', 'licence("Apache-2.0")', NameError)):
            self.assertIn(right, text)
            with tempfile.TemporaryDirectory() as folder:
                bad = pathlib.Path(folder, "package.py")
                bad.write_text(text.replace(right, wrong))
                self.assertRaises(error, spack_stub.load, bad, "1.0")

    def test_repository_is_laid_out_for_spack(self):
        self.assertRegex((SPACK / "spack_repo/distdl/repo.yaml").read_text(), r"repo:\n  namespace: distdl\n  api: v2\.0\n")
        index = (SPACK / "spack-repo-index.yaml").read_text()
        path = re.search(r"repo_index:\n  paths:\n  - (\S+)\n", index).group(1)
        self.assertTrue((SPACK / path / "repo.yaml").exists(), path)

    def test_options_are_cmakes_in_both_directions(self):
        given = set()
        for choice in every_choice(self.recorded):
            given |= set(self.arguments(**choice))
        ours = {name for name in given if name.startswith("DISTDL_")} | {"BUILD_SHARED_LIBS"}
        self.assertEqual(ours, cmake_options() - FOR_DEVELOPERS)
        self.assertEqual(given - ours, {"BUILD_TESTING", "CMAKE_CUDA_ARCHITECTURES"})

    def test_variants_decide(self):
        self.assertEqual(self.arguments(onednn=False, slurm=True, shared=False),
                         {"BUILD_SHARED_LIBS": "OFF", "DISTDL_ONEDNN": "OFF", "DISTDL_SLURM": "ON", "DISTDL_CUDA": "OFF",
                          "DISTDL_NCCL": "OFF", "BUILD_TESTING": "OFF"})
        cuda = self.arguments(cuda=True, cuda_arch=("80", "90"))
        self.assertEqual((cuda["DISTDL_CUDA"], cuda["CMAKE_CUDA_ARCHITECTURES"]), ("ON", "80;90"))

    def test_documented_variants_are_the_recipes(self):
        table = re.findall(r"^\| (`.*?) \|", (SPACK / "README.md").read_text(), re.MULTILINE)
        self.assertEqual({name for row in table for name in re.findall(r"`(\w+)=?`", row)}, set(self.recorded.variants))

    def test_conditions_name_existing_variants(self):
        conditions = [when for _, when, _ in self.recorded.dependencies] + [when for _, when in self.recorded.conflicts]
        for name in re.findall(r"[+~](\w+)", " ".join(conditions)):
            self.assertIn(name, self.recorded.variants)

    def test_version_licence_and_home_are_the_projects(self):
        text = project.read(project.ROOT, "CMakeLists.txt")
        version = re.search(r"^project\(distdl VERSION (\S+)", text, re.MULTILINE).group(1)
        self.assertEqual(list(self.recorded.versions), ["main", version])
        self.assertEqual(self.recorded.versions[version]["tag"], f"v{version}")
        self.assertEqual(self.recorded.licences, ["Apache-2.0"])
        self.assertIn("Apache License", project.read(project.ROOT, "LICENSE"))

    def test_dependencies_are_cmakes_in_both_directions(self):
        wants = cmake_wants()
        self.assertEqual(set(wants) - set(PACKAGES), set(), "tell spack_test.py and the recipe what brings these")
        spack = {re.match(r"[\w-]+", spec).group(0): spec for spec, _, _ in reversed(self.recorded.dependencies)}
        self.assertEqual({PACKAGES[name] for name in wants} - {""}, set(spack) - NOT_ASKED_BY_NAME)
        for name, version in wants.items():
            if version and PACKAGES[name]:
                self.assertIn(f"@{version}:", spack[PACKAGES[name]])
        least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", project.read(project.ROOT, "CMakeLists.txt"))
        self.assertIn(f"@{least.group(1)}:", spack["cmake"])

    def test_boost_has_every_component_that_is_linked(self):
        text = project.read(project.ROOT, "cmake/DistdlDependencies.cmake")
        components = re.search(r"find_package\(Boost [^)]*COMPONENTS ([^)]*)\)", text).group(1).split()
        boost, = [spec for spec, _, _ in self.recorded.dependencies if spec.startswith("boost")]
        for component in components:
            self.assertRegex(boost, rf"\+{component}\b")

    def test_example_environment_uses_existing_variants(self):
        for path in SPACK.glob("envs/*/spack.yaml"):
            spec, = re.findall(r"^  - (distdl.*)$", path.read_text(), re.MULTILINE)
            for name in re.findall(r"[+~](\w+)", spec):
                self.assertIn(name, self.recorded.variants)

    def test_cmake_takes_the_arguments(self):
        words = self.cls("0.1.0", {**self.recorded.variants, "onednn": False}).cmake_args()
        with tempfile.TemporaryDirectory() as build:
            output = run(cache("CMAKE_COMMAND"), "-S", project.ROOT, "-B", build, "-G", cache("CMAKE_GENERATOR"), *words)
            text = pathlib.Path(build, "CMakeCache.txt").read_text()
        self.assertNotIn("not used by the project", output)
        self.assertIn("DISTDL_ONEDNN:BOOL=OFF", text)


class Installed(unittest.TestCase):
    """The recipe against what is really installed."""

    @classmethod
    def setUpClass(cls):
        install_tree.needs_plain_build()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.temp = pathlib.Path(folder.name)
        cls.prefix = install_tree.install(cls.temp / "prefix")

    def setUp(self):
        cls, recorded = spack_stub.load(RECIPE, "1.0")
        version = list(recorded.versions)[1]
        self.package = cls(version, recorded.variants, str(self.prefix))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.temp)
        os.environ["PKG_CONFIG_PATH"] = f"{lib_dir(self.prefix)}/pkgconfig"
        os.environ["CXX"] = cache("CMAKE_CXX_COMPILER")

    def needs_program(self):
        if not (self.prefix / "bin" / "distdl").exists():
            self.skipTest("the program is not built yet")

    def test_sanity_checks_hold(self):
        self.needs_program()
        for name in self.package.sanity_check_is_file:
            self.assertTrue((self.prefix / name).is_file(), name)
        for name in self.package.sanity_check_is_dir:
            self.assertTrue((self.prefix / name).is_dir(), name)

    def test_standalone_tests_are_described(self):
        tests = {name: getattr(self.package, name).__doc__ for name in dir(self.package) if name.startswith("test_")}
        self.assertEqual(set(tests), {"test_info", "test_selfcheck", "test_resume", "test_consumer"})
        self.assertTrue(all(tests.values()), tests)

    def test_info(self):
        self.needs_program()
        self.package.test_info()

    def test_selfcheck(self):
        self.needs_program()
        self.package.test_selfcheck()

    def test_resume(self):
        self.needs_program()
        self.package.test_resume()

    def test_consumer(self):
        self.package.test_consumer()


if __name__ == "__main__":
    project.main()
