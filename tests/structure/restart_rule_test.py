# SPDX-License-Identifier: Apache-2.0
"""Whether a run is restarted is decided in src/base/restart.cpp only; all others ask it."""

import re

import project

ALLOWED = ("src/base/exit_codes.hpp", "src/base/exit_codes.cpp", "src/base/restart.cpp")
ASKS = re.compile(r"\brestart_decision\s*\(")


def check(root):
    problems = []
    for name in project.cxx_files(root, project.CODE):
        if name in ALLOWED:
            continue
        for number, line in enumerate(project.code_of(project.read(root, name)).splitlines(), 1):
            if ASKS.search(line):
                problems.append(f"{name}:{number}: decide about restarts by decide_restart() (base/restart.hpp)")
    return problems


class RestartRule(project.CheckCase):
    def test_project_decides_about_restarts_in_one_place(self):
        self.clean(check)

    def test_finds_another_rule(self):
        self.finds(check, {"src/launch/a.cpp": "int a;\nif (restart_decision(code) == b) return;\n"}, "src/launch/a.cpp:2")

    def test_accepts_the_one_place_and_who_asks_it(self):
        self.accepts(check, {ALLOWED[2]: "restart_decision(code);\n",
                             "src/launch/a.cpp": "// restart_decision(code)\ndecide_restart(code);\n"})


if __name__ == "__main__":
    project.main()
