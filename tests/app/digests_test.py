# SPDX-License-Identifier: Apache-2.0
"""tests/app/digests, which compares what two programs train, finds this program equal to itself, and different from one that trains otherwise."""
import json
import pathlib
import subprocess
import sys
import unittest

from program import DISTDL, PATIENCE, ProgramTest
from training_cases import Keys

DIGESTS = pathlib.Path(__file__).resolve().parent / "digests"
TRAINED, REFUSED = "mlp/replicas/data2/none", "mlp/parameter_server/tensor2/none"


class Digests(ProgramTest):
    def digests(self, *words):
        return subprocess.run([sys.executable, DIGESTS, "--program", DISTDL, *words], capture_output=True, text=True, timeout=PATIENCE)

    def against(self, lines, *cases):
        """Compares this program with one that runs these lines of a shell first."""
        other = self.folder / "other"
        other.write_text(f'#!/bin/sh\n{lines}\nexec "{DISTDL}" "$@"\n')
        other.chmod(0o755)
        done = self.digests("--against", other, "--json", *(word for case in cases for word in ("--only", case)))
        return done.returncode, {row["case"]: row["verdict"] for row in json.loads(done.stdout)["cases"]}

    def test_a_program_is_equal_to_itself(self):
        self.assertEqual(self.against("", TRAINED, REFUSED), (0, {TRAINED: "same", REFUSED: "refused"}))

    def test_another_seed_a_refusal_and_a_failure_are_differences(self):
        two, three, four = (f"mlp/replicas/data{ranks}/none" for ranks in (2, 3, 4))
        lines = """case "$*" in
"run --local -n 2 "*) set -- "$@" --set train.seed=2;;
"run --local -n 3 "*) exit 78;;
"run --local -n 4 "*) exit 70;;
esac"""
        self.assertEqual(self.against(lines, two, three, four), (1, {two: "DIFFERENT", three: "DIFFERENT", four: "FAILED"}))

    def test_nothing_trained_is_no_success(self):
        self.assertEqual(self.digests("--only", REFUSED).returncode, 1)

    def test_names_come_from_the_program(self):
        names = {case.split("/")[1] for case in self.digests("--list").stdout.split()}
        self.assertEqual(names, set(Keys(self.succeed("config", "--reference")).names["parallel.strategy"]))
        self.assertLessEqual({"replicas", "sharded", "local_sgd", "parameter_server", "auto"}, names)

    def test_names_of_a_table_of_keys(self):
        keys = Keys('| `a.b` | `"x"` | for "z" (a word): "x" (one (or two)), "y" or "w" (more); "v" |\n| `a.c` | `""` | such as "x" or "y" |\n')
        self.assertEqual(keys.names, {"a.b": ["x", "y", "w"], "a.c": []})


if __name__ == "__main__":
    unittest.main(verbosity=2)
