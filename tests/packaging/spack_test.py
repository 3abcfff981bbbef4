# SPDX-License-Identifier: Apache-2.0
"""The Spack recipe says the same as CMake: options, licence, dependencies, installed files; and the easyconfig names the same dependencies. They
are read, not run: tests/packaging/spack_real and easybuild_real run them in the real Spack and EasyBuild."""

import ast
import pathlib
import re
import tempfile
import unittest

import install_tree
from install_tree import project

SPACK = project.ROOT / "spack"
RECIPE = SPACK / "spack_repo" / "distdl" / "packages" / "distdl" / "package.py"
OF_CUDA_PACKAGE = {"cuda", "cuda_arch"}  # variants that the recipe inherits
FOR_GPUS = {"cuda", "cudnn", "nccl", "gdrcopy"}
# Options that a packager has no use for.
FOR_DEVELOPERS = {"DISTDL_CCACHE", "DISTDL_CUDA_WERROR", "DISTDL_PRECOMPILE", "DISTDL_SANITIZE", "DISTDL_TEST_PATIENCE", "DISTDL_TESTS",
                  "DISTDL_TESTS_OPTIMISED", "DISTDL_WERROR"}
# What CMake asks for, and the Spack package that brings it ("" where the compiler does).
PACKAGES = {"PkgConfig": "pkgconfig", "Threads": "", "OpenMP": "", "fmt": "fmt", "CLI11": "cli11",
            "nlohmann_json": "nlohmann-json", "tomlplusplus": "tomlplusplus", "OpenSSL": "openssl", "ZLIB": "zlib-api",
            "Boost": "boost", "HDF5": "hdf5", "ucx": "ucx", "pmix": "pmix", "libzstd": "zstd", "libjpeg": "libjpeg-turbo", "libpng": "libpng", "libwebp": "libwebp", "libarchive": "libarchive", "ONEDNN": "onednn",
            "SENTENCEPIECE": "sentencepiece", "sentencepiece": "sentencepiece", "SLURM": "slurm", "CUDAToolkit": "cuda", "CUDA": "cuda", "GTest": "googletest", "Python3": "python", "PYTHON": "python"}
NOT_ASKED_BY_NAME = {"c", "cxx", "cmake", "cudnn", "nccl", "gdrcopy", "py-numpy"}  # CMake itself, its languages, what is found by file, by UCX or by Python


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


class Recipe:
    """What the recipe says, without Spack. A part of a text that is only known in Spack is {}."""

    def __init__(self):
        tree = ast.parse(RECIPE.read_text())
        self.cls, = (node for node in tree.body if isinstance(node, ast.ClassDef))

    def calls(self, name, inside=None):
        """([positional argument, ...], {keyword: argument}) of each call."""
        for node in ast.walk(inside or self.cls):
            if isinstance(node, ast.Call) and name == (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")):
                yield [text_of(value) for value in node.args], {word.arg: text_of(word.value) for word in node.keywords}

    def dependencies(self):
        return [arguments[0] for arguments, _ in self.calls("depends_on")]

    def variants(self):
        return {arguments[0] for arguments, _ in self.calls("variant")} | OF_CUDA_PACKAGE

    def attribute(self, name):
        """The paths in a list of join_path(...)."""
        value, = (node.value for node in self.cls.body if isinstance(node, ast.Assign) and node.targets[0].id == name)
        return ["/".join(arguments) for arguments, _ in self.calls("join_path", value)]

    def tests(self):
        return {node.name: ast.get_docstring(node) for node in self.cls.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def text_of(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return "{}"


def name_of(spec):
    return re.match(r"[\w-]+", spec).group(0)


class SaysTheSame(unittest.TestCase):
    def setUp(self):
        self.recipe = Recipe()

    def test_repository_is_laid_out_for_spack(self):
        self.assertRegex((SPACK / "spack_repo/distdl/repo.yaml").read_text(), r"repo:\n  namespace: distdl\n  api: v2\.0\n")
        index = project.read(project.ROOT, "spack-repo-index.yaml")
        path = re.search(r"repo_index:\n  paths:\n  - (\S+)\n", index).group(1)
        self.assertTrue((project.ROOT / path / "repo.yaml").exists(), path)

    def test_recipe_finds_the_sources_around_it(self):
        up = re.search(r"^SOURCES = .*__file__.* \*(\d+) \* \[\"\.\.\"\]", RECIPE.read_text(), re.MULTILINE).group(1)
        self.assertEqual(RECIPE.parents[int(up)], project.ROOT)
        self.assertRegex(project.read(project.ROOT, "CMakeLists.txt"), re.compile(r"^project\(distdl VERSION (\S+)", re.MULTILINE))

    def test_options_are_cmakes_in_both_directions(self):
        given = {arguments[0] for name in ("define", "define_from_variant") for arguments, _ in self.recipe.calls(name)}
        ours = {name for name in given if name.startswith("DISTDL_")} | {"BUILD_SHARED_LIBS"}
        self.assertEqual(ours, cmake_options() - FOR_DEVELOPERS)
        self.assertEqual(given - ours, {"BUILD_TESTING", "CMAKE_CUDA_ARCHITECTURES"})

    def test_documented_variants_are_the_recipes(self):
        table = re.findall(r"^\| (`.*?) \|", (SPACK / "README.md").read_text(), re.MULTILINE)
        self.assertEqual({name for row in table for name in re.findall(r"`(\w+)=?`", row)}, self.recipe.variants())

    def test_conditions_name_existing_variants(self):
        conditions = [words.get("when", "") for name in ("depends_on", "conflicts", "variant") for _, words in self.recipe.calls(name)]
        for name in re.findall(r"[+~](\w+)", " ".join(conditions)):
            self.assertIn(name, self.recipe.variants())

    def test_licence_is_the_projects(self):
        self.assertEqual([arguments for arguments, _ in self.recipe.calls("license")], [["Apache-2.0"]])
        self.assertIn("Apache License", project.read(project.ROOT, "LICENSE"))

    def test_dependencies_are_cmakes_in_both_directions(self):
        wants = cmake_wants()
        self.assertEqual(set(wants) - set(PACKAGES), set(), "tell spack_test.py and the recipe what brings these")
        spack = {name_of(spec): spec for spec in reversed(self.recipe.dependencies())}
        self.assertEqual({PACKAGES[name] for name in wants} - {""}, set(spack) - NOT_ASKED_BY_NAME)
        for name, version in wants.items():
            if version and PACKAGES[name]:
                self.assertIn(f"@{version}:", spack[PACKAGES[name]])
        least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", project.read(project.ROOT, "CMakeLists.txt"))
        self.assertIn(f"@{least.group(1)}:", spack["cmake"])

    def test_what_compiles_for_gpus_is_told_which(self):
        """Without it Spack finds no solution: NCCL and gdrcopy refuse cuda_arch=none."""
        told = {name_of(spec) for spec in self.recipe.dependencies() if "cuda_arch={}" in spec}
        self.assertEqual(told, {"nccl", "ucx", "gdrcopy"})

    def test_boost_has_every_component_that_is_linked(self):
        text = project.read(project.ROOT, "cmake/DistdlDependencies.cmake")
        components = re.search(r"find_package\(Boost [^)]*COMPONENTS ([^)]*)\)", text).group(1).split()
        boost, = [spec for spec in self.recipe.dependencies() if spec.startswith("boost")]
        for component in components:
            self.assertRegex(boost, rf"\+{component}\b")

    def test_standalone_tests_are_described(self):
        tests = self.recipe.tests()
        self.assertEqual(set(tests), {"test_info", "test_selfcheck", "test_resume", "test_python", "test_consumer"})
        self.assertTrue(all(tests.values()), tests)


class Externals(unittest.TestCase):
    """The example of an environment on a machine's own libraries."""

    def setUp(self):
        self.recipe = Recipe()
        self.text = (SPACK / "envs/externals/spack.yaml").read_text()
        self.packages = {name: body for name, body in re.findall(r"^    ([\w-]+):\n((?:      .*\n)+)", self.text, re.MULTILINE)}

    def test_spec_has_existing_variants(self):
        spec, = re.findall(r"^  - (distdl.*)$", self.text, re.MULTILINE)
        for name in re.findall(r"[+~](\w+)", spec):
            self.assertIn(name, self.recipe.variants())

    def test_every_dependency_is_an_external_and_is_never_built(self):
        wanted = {name_of(spec) for spec in self.recipe.dependencies()} - FOR_GPUS - {"c", "cxx"}
        self.assertEqual(wanted - set(self.packages), set())
        for name, body in self.packages.items():
            self.assertIn("buildable: false", body, name)

    def test_externals_have_the_variants_that_the_recipe_asks_for(self):
        for spec in self.recipe.dependencies():
            name = name_of(spec)
            if name in self.packages and "externals:" in self.packages[name] and "+cuda" not in spec and "{}" not in spec:
                external = re.search(r"- spec: (.*)", self.packages[name]).group(1)
                for variant in re.findall(r"[+~]\w+|\w+=\w+", spec):
                    self.assertIn(variant, external)


class EasyBuild(unittest.TestCase):
    """The easyconfig that takes all from EasyBuild; tests/packaging/easybuild_real asks whether EasyBuild has these versions."""

    def test_dependencies_are_cmakes_in_both_directions(self):
        text = project.read(project.ROOT, "modules/easybuild/distdl-VERSION-GCC-14.3.0.eb.in")
        named = {name.lower().replace("_", "-"): version for name, version in re.findall(r"^    \('([\w-]+)', '([\d.]+)'", text, re.MULTILINE)}
        of_the_system = {"slurm", "cuda", "python", "googletest", ""}
        names = {"pkgconfig": "pkgconf", "zlib-api": "zlib", "libzstd": "zstd"}
        wants = {names.get(PACKAGES[name], PACKAGES[name]): version for name, version in cmake_wants().items() if PACKAGES[name] not in of_the_system}
        self.assertEqual(set(wants) | {"cmake"}, set(named))
        for name, least in wants.items():
            self.assertGreaterEqual(numbers(named[name]), numbers(least), name)


def numbers(version):
    return [int(number) for number in version.split(".") if number]


class Installed(unittest.TestCase):
    def test_sanity_checks_hold(self):
        install_tree.needs_plain_build()
        recipe = Recipe()
        with tempfile.TemporaryDirectory() as folder:
            prefix = install_tree.install(pathlib.Path(folder, "prefix"))
            if not (prefix / "bin" / "distdl").exists():
                self.skipTest("the program is not built yet")
            for name in recipe.attribute("sanity_check_is_file"):
                self.assertTrue((prefix / name).is_file(), name)
            for name in recipe.attribute("sanity_check_is_dir"):
                self.assertTrue((prefix / name).is_dir(), name)


if __name__ == "__main__":
    project.main()
