# SPDX-License-Identifier: Apache-2.0
"""A backend is chosen by file in CMake, never by #if in logic. A backend's own folder may ask for its library's version;
__CUDACC__ may decide how a macro is defined, so that functors can be shared with the CPU."""

import re

import project

BACKENDS = {"cuda": r"cuda|cudnn|cublas|nvcc", "onednn": r"onednn|dnnl", "slurm": r"slurm"}
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef)\b(.*)")
BUILD_FLAGS = re.compile(r"DISTDL_(HAVE_|WITH_|USE_|ENABLE_)?(CUDA|ONEDNN|SLURM)\b")


def only_defines(lines):
    """Whether the lines up to the #endif that belongs to the first one only define macros."""
    for line in lines[1:]:
        if re.match(r"\s*#\s*endif", line):
            return True
        if line.strip() and not re.match(r"\s*#\s*(define|else|elif)\b", line):
            return False
    return False


def problem_in(name, lines, number, condition):
    if BUILD_FLAGS.search(condition):
        return True
    if "__CUDACC__" in condition:
        return not only_defines(lines[number - 1:])
    return any(re.search(words, condition, re.IGNORECASE) and f"/{backend}/" not in name
               for backend, words in BACKENDS.items())


def check(root):
    problems = []
    for name in project.cxx_files(root, project.CODE):
        lines = project.code_of(project.read(root, name)).splitlines()
        for number, line in enumerate(lines, 1):
            match = CONDITION.match(line)
            if match and problem_in(name, lines, number, match.group(2)):
                problems.append(f"{name}:{number}: choose the backend by file in CMake, not by #{match.group(1)}")
    return problems


class BackendChoice(project.CheckCase):
    def test_project_chooses_backends_in_cmake(self):
        self.clean(check)

    def test_finds_conditions_on_backends(self):
        for line in ("#ifdef DISTDL_HAVE_CUDA", "#if defined(USE_DNNL) && 1", "# elif SLURM_VERSION_NUMBER > 1",
                     "#ifndef DISTDL_ONEDNN"):
            self.finds(check, {"src/train/a.cpp": f"\n{line}\nint a;\n#endif\n"}, "src/train/a.cpp:2")

    def test_finds_own_build_flag_even_in_the_backend_folder(self):
        self.finds(check, {"kernels/cuda/a.cu": "#if DISTDL_HAVE_CUDA\n#endif\n"}, "kernels/cuda/a.cu:1")

    def test_finds_logic_under_cudacc(self):
        self.finds(check, {"kernels/a.hpp": "#ifdef __CUDACC__\nint logic();\n#endif\n"}, "kernels/a.hpp:1")

    def test_accepts_versions_in_the_own_folder_and_macros(self):
        self.accepts(check, {"kernels/cuda/a.cpp": "#if CUDNN_VERSION < 90000\nint a;\n#endif\n",
                             "kernels/maths.hpp": "#ifdef __CUDACC__\n#define HD __device__\n#else\n#define HD\n#endif\n",
                             "src/base/a.cpp": "#ifdef __SSE4_2__\nint a;\n#endif  // cuda\n"})


if __name__ == "__main__":
    project.main()
