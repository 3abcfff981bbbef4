# SPDX-License-Identifier: Apache-2.0
"""Code for x86 alone lies in the files of the table below, and each has a twin for all other processors: another file, which CMake
compiles instead, or the same file beside #if defined(__x86_64__). A twin gives the same bits (docs/builds-and-tests.md)."""

import os
import pathlib
import re
import subprocess

import project

FOLDERS = (*project.CODE, "tests/", "bench/", "examples/")
X86 = re.compile(r"\b_mm\d*_\w+|\b__m(128|256|512)\w*|\b__builtin_(ia32_\w+|cpu_supports|cpu_is)\b|\b_*get_cpuid\w*|\b__rdtscp?\b"
                 r"|\b(_M_X64|__SSE\w+|__AVX\w+)\b|#\s*include\s*<(\w*mmintrin|immintrin|x86intrin|x86gprintrin|cpuid)\.h>")
ASSEMBLER = re.compile(r"\b(asm|__asm__)\b[^;\"]*\(\s*\"[^\"]")
GUARD = re.compile(r"\s*#\s*(ifdef\s+__x86_64__|if\s+defined\(__x86_64__\))\s*$")
OPTION = re.compile(r"-m(arch|tune|cpu|avx|sse|ssse|fma|f16c|bmi|pclmul|prefer)\w*")
ITSELF = "the same file"
TWINS = {
    "kernels/host/vectors.hpp": ITSELF,
    "kernels/onednn/bfloat16.cpp": ITSELF,
    "src/app/commands/doctor.cpp": ITSELF,
    "src/base/crc32c.cpp": ITSELF,
    "src/comm/execution/node_ranks.hpp": ITSELF,
    "src/comm/reduce/reduce_avx2.cpp": "src/comm/reduce/reduce_baseline.cpp",
    "src/comm/reduce/reduce_avx512.cpp": "src/comm/reduce/reduce_baseline.cpp",
    "src/comm/reduce/reduce_x86.cpp": "src/comm/reduce/reduce_other.cpp",
    "src/comm/request.cpp": ITSELF,
    "src/compression/loops/x86.cpp": "src/compression/loops/other.cpp",
    "src/data/codecs/resample.cpp": ITSELF,
}


def uses(text):
    """(line, whether it lies beside #if defined(__x86_64__)) of each use of x86's instructions, or of any by assembler."""
    conditions = []
    code = project.code_of(text).splitlines()
    for number, (line, raw) in enumerate(zip(code, text.splitlines()), 1):
        if re.match(r"\s*#\s*if", line):
            conditions.append(bool(GUARD.match(line)))
        elif re.match(r"\s*#\s*elif", line):
            conditions[-1] = "__x86_64__" in line or "__aarch64__" in line
        elif re.match(r"\s*#\s*else", line):
            conditions[-1] = False
        elif re.match(r"\s*#\s*endif", line):
            conditions.pop()
        if X86.search(line) or ("asm" in line and ASSEMBLER.search(raw)):
            yield number, any(conditions)


def problems_of(root, name, table):
    found = list(uses(project.read(root, name)))
    twin = table.get(name)
    if found and twin is None:
        yield (f"{name}:{found[0][0]}: code for one kind of processor: write it for all, or give it a twin with the same bits and add "
               "both to TWINS in tests/structure/processors_test.py")
    if twin == ITSELF:
        yield from (f"{name}:{number}: must lie beside #if defined(__x86_64__)" for number, guarded in found if not guarded)
    if twin is not None and not found:
        yield f"{name}: has no code for x86 alone: remove it from TWINS in tests/structure/processors_test.py"


def check(root, table=None):
    table = TWINS if table is None else table
    problems = [f"{name} or its twin {twin} does not exist: mend TWINS in tests/structure/processors_test.py"
                for name, twin in table.items()
                if not all((root / each).is_file() for each in (name, twin) if each != ITSELF)]
    for name in project.cxx_files(root, FOLDERS):
        if not name.startswith("kernels/cuda/"):  # assembler of GPUs
            problems.extend(problems_of(root, name, table))
    for name in project.files(root):
        if name.endswith(("CMakeLists.txt", ".cmake")):
            rest = re.sub(r"(?ms)^if\(CMAKE_SYSTEM_PROCESSOR .*?^else\(\)", "", project.read(root, name))
            if option := OPTION.search(re.sub(r"#.*", "", rest)):
                problems.append(f"{name}: {option.group(0)} is for one kind of processor: set it between if(CMAKE_SYSTEM_PROCESSOR "
                                "MATCHES ...) and else(), where the sources for the others are")
    return problems


class Processors(project.CheckCase):
    def test_project_has_a_twin_for_whatever_is_for_x86_alone(self):
        self.clean(check)

    def test_the_part_for_others_compiles_without_that_for_x86(self):
        compiler = project.require_tool("c++", "g++", "clang++")
        include = pathlib.Path(os.environ.get("DISTDL_BUILD_DIR", project.ROOT / "build")) / "include"
        if not include.is_dir():
            self.skipTest(f"{include} is missing: configure a build")
        options = "-std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Werror -x c++".split()
        for name in (name for name, twin in TWINS.items() if twin == ITSELF and name.endswith(".cpp")):
            code = re.sub(r"(?m)^(\s*#\s*)(ifdef\s+__x86_64__|if\s+defined\(__x86_64__\))", r"\1if 0", project.read(project.ROOT, name))
            done = subprocess.run([compiler, *options, f"-I{include}", "-"], input=code, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{name}, as processors other than x86 see it:\n{done.stderr}")

    def finds_in(self, code, *expected, name="src/base/a.cpp", table=None):
        self.finds(lambda root: check(root, table or {}), {name: code}, *expected)

    def test_finds_code_for_x86_that_is_not_in_the_table(self):
        for code in ("_mm_pause();", "__m256i a;", "#include <immintrin.h>", "if (__builtin_cpu_supports(\"avx2\")) f();",
                     "asm volatile(\"pause\");", "__builtin_ia32_crc32di(a, b);"):
            self.finds_in(f"\n{code}\n", "src/base/a.cpp:2")

    def test_finds_code_without_a_condition_in_a_file_that_is_its_own_twin(self):
        for before in ("#if 1", "#if defined(__x86_64__)\n#else"):
            self.finds_in(f"{before}\n_mm_pause();\n#endif\n", "must lie beside", table={"src/base/a.cpp": ITSELF})

    def test_finds_entries_that_are_out_of_date(self):
        self.finds_in("int a;\n", "remove it", table={"src/base/a.cpp": ITSELF})
        self.finds_in("_mm_pause();\n", "does not exist", table={"src/base/a.cpp": "src/base/b.cpp"})

    def test_finds_options_of_compilers(self):
        self.finds_in("if(WIN32)\n  add_compile_options(-mavx2)\nelse()\nendif()\n", "-mavx2", name="src/CMakeLists.txt")

    def test_accepts_twins_comments_and_empty_assembler(self):
        guarded = "#ifdef __x86_64__\n_mm_pause();\n#elif defined(__aarch64__)\nasm(\"isb\");\n#endif\n"
        self.accepts(lambda root: check(root, {"src/base/a.cpp": ITSELF}), {
            "src/base/a.cpp": guarded, "src/base/b.cpp": "// _mm_pause\nasm volatile(\"\");\n", "kernels/cuda/a.cu": "asm(\"bar\");\n",
            "src/CMakeLists.txt": "if(CMAKE_SYSTEM_PROCESSOR MATCHES \"x86\")\n  set(a -mavx2)\nelse()\n  set(a b)\nendif()\n"})


if __name__ == "__main__":
    project.main()
