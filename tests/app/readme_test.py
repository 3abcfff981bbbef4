# SPDX-License-Identifier: Apache-2.0
"""Runs what README.md, docs/README.md, docs/tutorial.md, docs/command-line.md and docs/pipeline.md show. In blocks fenced as "sh", lines that begin with "$ " are
commands, the others are what they print: "..." stands for anything, on a line of its own for any number of lines; a number with a decimal point or with a
unit of time, speed or size may differ. The commands of a block share a scratch folder with examples/ and sbatch/."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from program import DISTDL, PATIENCE
from shown_commands import blocks, matches

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_RUN = ("make", "sbatch", "git", "spack", "module", "apt-get")  # too much for a test of seconds: must exist


def missing(command):
    """What a command that is not run here would need and does not find."""
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.M)
        return [word for word in words[1:] if "=" not in word and not word.startswith("-") and word not in targets]
    return [word for word in words[1:] if re.match(r"(examples|sbatch|bench|docs)/", word) and not (ROOT / word).exists()]


class Patterns(unittest.TestCase):
    def test_measurements_may_differ_and_all_else_may_not(self):
        self.assertTrue(matches(["loss 1.25", "...", "end"], "loss 3.75\na\nb\nend\n"))
        self.assertTrue(matches(["...", "end"], "end\n"))
        self.assertTrue(matches(["step 7 took 12 ms, ... done"], "step 7 took 9 ms, 3 tries, done\n"))
        self.assertFalse(matches(["step 7 took 12 ms"], "step 8 took 12 ms\n"))
        self.assertFalse(matches(["end"], "end\nmore\n"))
        self.assertFalse(matches(["accuracy ...%"], "accuracy none\n"))

    def test_what_does_not_exist_is_found(self):
        self.assertEqual(missing("make test"), [])
        self.assertEqual(missing("make tset"), ["tset"])
        self.assertEqual(missing("sbatch sbatch/none.sbatch examples/lenet.toml"), ["sbatch/none.sbatch"])


class Readme(unittest.TestCase):
    def test_does_what_it_shows(self):
        self.check_document("README.md")

    def test_does_what_the_index_of_documents_shows(self):
        self.check_document("docs/README.md")

    def test_does_what_the_document_of_the_command_line_shows(self):
        self.check_document("docs/command-line.md")

    def test_does_what_the_document_of_pipelines_shows(self):
        self.check_document("docs/pipeline.md")

    def test_does_what_the_tutorial_shows(self):
        self.check_document("docs/tutorial.md", in_one_folder=True)

    def check_document(self, name, in_one_folder=False):
        shown = blocks((ROOT / name).read_text())
        self.assertTrue(shown, f"{name} shows no commands in a block marked sh")
        for block in [sum(shown, [])] if in_one_folder else shown:
            with tempfile.TemporaryDirectory(prefix="distdl-readme-") as folder:
                for name in ("examples", "sbatch"):
                    shutil.copytree(ROOT / name, pathlib.Path(folder) / name)
                for command, lines in block:
                    with self.subTest(command=command):
                        self.check(command, lines, folder)

    def check(self, command, lines, folder):
        if command.split()[0] in NOT_RUN:
            self.assertEqual(missing(command), [])
            return
        done = subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=2 * PATIENCE, env={**os.environ, "PATH": f"{DISTDL.parent}:{os.environ['PATH']}", "XDG_STATE_HOME": f"{folder}/state"})
        self.assertEqual(done.returncode, 0, done.stdout)
        if lines:
            self.assertTrue(matches(lines, done.stdout), f"the document shows\n{chr(10).join(lines)}\nit prints\n{done.stdout}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
