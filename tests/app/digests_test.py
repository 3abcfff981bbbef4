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
TRAINED, REFUSED = "mlp/replicas/data2/none", "mlp/sharded/data2/int8"


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

    def test_another_seed_and_a_refusal_are_differences(self):
        self.assertEqual(self.against('[ "$1" != run ] || set -- "$@" --set train.seed=2', TRAINED), (1, {TRAINED: "DIFFERENT"}))
        self.assertEqual(self.against('[ "$1" != run ] || exit 78', TRAINED), (1, {TRAINED: "DIFFERENT"}))

    def test_a_failure_and_nothing_trained_are_no_success(self):
        self.assertEqual(self.against('[ "$1" != run ] || exit 70', TRAINED), (1, {TRAINED: "FAILED"}))
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
