# SPDX-License-Identifier: Apache-2.0
"""The environment is read in src/base/env.cpp only, which records what was read."""

import re

import project

ALLOWED = "src/base/env.cpp"
READS = re.compile(r"\b(getenv|secure_getenv|getenv_s|_{0,2}environ)\b")


def check(root):
    problems = []
    for name in project.cxx_files(root, project.CODE):
        if name == ALLOWED:
            continue
        for number, line in enumerate(project.code_of(project.read(root, name)).splitlines(), 1):
            if READS.search(line):
                problems.append(f"{name}:{number}: read the environment through distdl::env (base/env.hpp)")
    return problems


class Getenv(project.CheckCase):
    def test_project_reads_the_environment_in_one_place(self):
        self.clean(check)

    def test_finds_each_way_to_read(self):
        for code in ("std::getenv(name)", "secure_getenv (name)", "char** all = environ;", "::__environ"):
            self.finds(check, {"kernels/a.cpp": f"int a;\n{code}\n"}, "kernels/a.cpp:2")

    def test_accepts_the_one_place_comments_strings_and_likenesses(self):
        self.accepts(check, {ALLOWED: "std::getenv(name);\n",
                             "src/comm/a.cpp": '// getenv\n/* environ\n getenv */ auto a = "getenv";\n'
                                               "int environment = my_getenv_count(1'000, 'x');\n"})


if __name__ == "__main__":
    project.main()
