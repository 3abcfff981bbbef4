# SPDX-License-Identifier: Apache-2.0
"""Slurm's variables may be those of the shell that has submitted the job. So they are read and handed on in src/slurm and in few other
places, each with its reason; processes are started in src/base, which hands none of them on; and Slurm's commands get theirs from a table."""

import re

import project

VARIABLE = re.compile(r"\b(SLURM|SLURMD|SBATCH|SQUEUE|SINFO|SCONTROL|SRUN|SCANCEL|SACCT|SALLOC)_[A-Z]*")
MAY_NAME = {
    "src/base/env.cpp": "knows their beginnings, to hand on none",
    "src/slurm/": "the room of the tables",
    "src/submit/lint": "speaks of them in messages",
    "src/submit/write_script.cpp": "writes a script, which Slurm runs in a task of an array",
    "src/app/commands/doctor.cpp": "speaks of SLURM_CONF",
    "kernels/cuda/loader.cpp": "a GPU modulo those that there are, where nobody names one",
    "src/world/make_world.cpp": "a rank's own step, whose srun sets them",
    "src/agent/meeting/datagrams.cpp": "the address of the agent's own srun, which sets it",
    "src/comm/communicator.cpp": "a part of a name, which no decision follows from",
}
ALL_OF_THEM = re.compile(r"\bslurm_variables\s*\(")
MAY_HAND_ON_ALL = {
    "src/base/env.cpp": "", "src/base/slurm_variables.hpp": "",
    "src/agent/ranks/node_ranks.cpp": "ranks are part of the agent's step",
    "src/observe/alerts/alert_watch.cpp": "a command of the user's own",
    "src/slurm/environment.cpp": "says which do not count",
}
STARTS = re.compile(r"(?<![\w.:>])(?:::|std::)?(exec[lv]p?e?|fork|vfork|popen|posix_spawnp?|system)\s*\(")
MAY_START = ("src/base/process.cpp", "checkpoint/format/hdf5_structure.cpp")  # the latter runs no other program
COMMAND = re.compile(r"\b(run_command|start_process)\s*\(\s*\{\s*\"(sbatch|srun|squeue|sinfo|scontrol|scancel|sacct)\"[^;]*;")


def is_in(name, table):
    return any(name.startswith(each) for each in table)


def check(root):
    problems = []
    for name in project.cxx_files(root, project.CODE):
        text = project.read(root, name)
        if not is_in(name, MAY_NAME):
            problems += [f"{name}:{line}: ask src/slurm instead of the variable {VARIABLE.search(literal).group(0)}"
                         for line, literal in project.literals_of(text) if VARIABLE.search(literal) and "include" not in literal]
        code = project.code_of(text)
        for number, line in enumerate(code.splitlines(), 1):
            if ALL_OF_THEM.search(line) and not is_in(name, MAY_HAND_ON_ALL):
                problems.append(f"{name}:{number}: hand on what slurm/environment.hpp has for it, not all of Slurm's variables")
            if STARTS.search(line) and not is_in(name, MAY_START):
                problems.append(f"{name}:{number}: start processes by base/process.hpp")
        for call in COMMAND.finditer(text):
            if "variables_for_step" not in call.group(0):
                problems.append(f"{name}:{text.count(chr(10), 0, call.start()) + 1}: call {call.group(2)} by slurm::ask")
    return problems


class SlurmVariables(project.CheckCase):
    def test_project_reads_and_hands_them_on_where_it_may(self):
        self.clean(check)

    def test_finds_a_variable_that_is_read(self):
        self.finds(check, {"src/launch/a.cpp": 'int a;\nauto b = env("SLURM_RESTART_COUNT");\n'}, "src/launch/a.cpp:2")
        self.finds(check, {"src/app/a.cpp": 'f({"SBATCH_TIMELIMIT"});\n'}, "src/app/a.cpp:1")

    def test_finds_processes_that_would_inherit_them(self):
        for code in ('::execvp(words[0], words);', 'std::system("sbatch");', "if (::fork() == 0) {}", 'popen("squeue", "r");'):
            self.finds(check, {"src/app/a.cpp": f"int a;\n{code}\n"}, "src/app/a.cpp:2")
        self.finds(check, {"src/app/a.cpp": "int a;\nauto all = slurm_variables();\n"}, "src/app/a.cpp:2")
        self.finds(check, {"src/app/a.cpp": 'int a;\nauto b = run_command({"squeue", "--me"}, 5s);\n'}, "src/app/a.cpp:2")

    def test_accepts_comments_likenesses_and_the_places_with_a_reason(self):
        self.accepts(check, {"src/slurm/a.cpp": 'env("SLURM_JOB_ID");\n', "src/base/process.cpp": "::fork();\n",
                             "src/app/a.cpp": '// SLURM_JOB_ID\nexecute(a); my_fork(); auto b = slurm::ask({"squeue"}, 5s);\n'
                                              'start_process({"srun", "--nodes=1"}, slurm::variables_for_step(job));\n'})


if __name__ == "__main__":
    project.main()
