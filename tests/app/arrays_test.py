# SPDX-License-Identifier: Apache-2.0
"""Tables and fields, as users bring them: imported, trained on, evaluated and predicted in the units of the file."""
import json
import math
import unittest

from program import DISTDL, ProgramTest

WAVES = DISTDL.parent.parent / "lib" / "libexample_source.so"  # examples/source


def houses(first, count):
    """Rooms, area, and a price that follows from both."""
    lines = ["id,rooms,area,price"]
    for i in range(first, first + count):
        rooms, area = 1 + i * 7 % 6, 40 + i * 37 % 160
        lines.append(f"h{i},{rooms},{area},{250000 + 20000 * rooms + 3000 * area}")
    return "\n".join(lines) + "\n"


class Arrays(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "houses.csv").write_text(houses(0, 600))
        (self.folder / "new.csv").write_text(houses(600, 70))
        self.table("houses.csv", "set.h5")

    def table(self, *words):
        return self.succeed("data", "import", "table", *words, "--target", "price", *([] if "--like" in words else ["--without", "id"]))

    def test_a_table_is_trained_on_and_evaluated_in_its_units(self):
        self.assertIn("600 arrays of (2, 1, 1), 1 number to predict", self.table("houses.csv", "again.h5"))
        self.assertEqual((self.folder / "again.h5").read_bytes(), (self.folder / "set.h5").read_bytes())
        self.assertIn("-> 390000", self.succeed("data", "info", "set.h5", "--verify", "--preview", "1"))
        out = self.succeed(*self.run_local(2), "--set", "train.epochs=20", "--set", "optim.learning_rate=0.02")
        self.assertIn("none, the data have no classes", out)
        rows = [json.loads(row) for row in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertFalse([row for row in rows if "accuracy" in row or "validation_accuracy" in row])
        self.table("new.csv", "new.h5", "--like", "set.h5")
        told = json.loads(self.succeed("evaluate", "run", "new.h5", "--json"))
        self.assertNotIn("accuracy", told)
        target = told["targets"][0]
        self.assertGreater(target["r2"], 0.9, told)
        predicted = json.loads(self.succeed("predict", "run", "new.h5", "--count", "1000", "--json"))
        self.assertEqual(len(predicted), 70)
        self.assertEqual(predicted[0]["targets"], [250000 + 20000 * 1 + 3000 * (40 + 600 * 37 % 160)])
        squares = [(row["predictions"][0] - row["targets"][0]) ** 2 for row in predicted]
        self.assertAlmostEqual(math.sqrt(sum(squares) / len(squares)), target["rmse"], delta=1e-3 * target["rmse"])
        self.assertIn("R2 ", self.succeed("evaluate", "run", "new.h5"))
        self.assertIn("sample  targets  predictions", self.succeed("predict", "run", "new.h5"))
        self.table("new.csv", "other.h5", "--column", "rooms", "--column", "area")
        self.fails(78, "other columns, classes, means or deviations than the set on which", "evaluate", "run", "other.h5")

    def test_init_chooses_a_job_that_trains(self):
        self.succeed("init", "set.h5", "-o", "new.toml")
        self.assertIn('name = "mlp"', (self.folder / "new.toml").read_text())
        self.succeed("run", "--local", "-n", "1", "new.toml", "--set", "train.steps=3")

    @unittest.skipUnless(WAVES.exists(), "the example of a source is not built")
    def test_a_source_of_the_users_is_trained_on_and_evaluated(self):
        source = f"data.source={WAVES}"
        self.succeed(*self.run_local(2), "--set", source, "--set", "data.train=600", "--set", "data.validation=+100", "--set", "data.holdout=0")
        told = json.loads(self.succeed("evaluate", "run", "+100", "--source", WAVES, "--json"))
        self.assertEqual(told["samples"], 100)
        self.assertGreater(told["accuracy"], 0.5)
        self.assertEqual(len(json.loads(self.succeed("predict", "run", "+100", "--source", WAVES, "--json", "--count", "7"))), 7)
        self.fails(78, "cannot be loaded", "evaluate", "run", "+100", "--source", "none.so")

    def test_what_cannot_be_is_told(self):
        (self.folder / "bad.csv").write_text("a,price\n1,2\nx,3\n")
        self.fails(78, 'line 3, column "a": "x" is not a finite number', "data", "import", "table", "bad.csv", "bad.h5", "--target", "price")
        self.fails(78, "best_metric", *self.run_local(1), "--set", "train.keep_best=true", "--set", 'train.best_metric="accuracy"')
        self.fails(78, "takes sequences of tokens", *self.run_local(1), "--set", "model.name=gpt")


if __name__ == "__main__":
    unittest.main(verbosity=2)
