# SPDX-License-Identifier: Apache-2.0
"""Weights come from another program, and a run begins with them: --partial."""
import re
import unittest

from program import ProgramTest, wait_until


class PartialResume(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def accuracy_at_once(self, run):
        """Of the first evaluation, after one epoch."""
        return next(row["validation_accuracy"] for row in self.rows("metrics.jsonl", run) if "validation_accuracy" in row)

    def test_weights_of_another_run_are_a_start(self):
        self.succeed(*self.run_local(2, "--set", "train.epochs=12"))
        self.succeed("checkpoint", "export", "run", "weights.safetensors", "--tensors", "parameter/*")
        self.succeed("checkpoint", "import", "safetensors", "weights.safetensors", "tuned/checkpoints", "--weights")
        tuned = ["--set", "run.dir=tuned", "--set", "train.epochs=2"]
        line = self.fails(4, ["it lacks momentum/fc1.bias", "--partial"], *self.run_local(2, *tuned))
        self.assertNotIn("parameter/", line)
        code, _, err = self.distdl(*self.run_local(2, *tuned, "--partial"))
        self.assertEqual(code, 0, err)
        self.assertIn("4 tensors are loaded: parameter/fc1.bias, parameter/fc1.weight, parameter/fc2.bias, parameter/fc2.weight",
                      err)
        self.assertIn("4 tensors are not in it and are initialized: momentum/fc1.bias", err)
        self.assertIn("the position in the samples: continuing at 0", err)
        self.succeed(*self.run_local(2, "--set", "run.dir=fresh", "--set", "train.epochs=2"))
        self.assertGreater(self.accuracy_at_once("tuned"), self.accuracy_at_once("fresh"))
        self.verify("tuned")

    def test_a_layer_more_and_a_layer_less(self):
        self.succeed(*self.run_local(2, "--set", "train.epochs=2"))
        longer = ["--set", "train.epochs=3", "--set", "model.batch_norm=true"]
        self.fails(4, ["fc1_norm", "--partial"], *self.run_local(1, *longer))
        code, _, err = self.distdl(*self.run_local(3, *longer, "--set", "checkpoint.partial=true"))
        self.assertEqual(code, 0, err)
        self.assertIn("parameter/fc1_norm.running_mean", err)
        self.fails(4, ["which the model does not have", "--partial"], *self.run_local(1, "--set", "train.epochs=4"))
        self.succeed(*self.run_local(2, "--set", "train.epochs=4", "--partial"))
        self.verify()

    def test_another_optimizer_is_refused_and_says_what_it_does_not_load(self):
        self.succeed(*self.run_local(2, "--set", "train.epochs=2"))
        other = ["--set", "train.epochs=3", "--set", "optim.name=adamw", "--set", "optim.learning_rate=0.01",
                 "--set", "optim.clip_norm=1", "--set", "optim.ema_decay=0.9"]
        self.fails(4, ["optim.name = \"sgd\"", "\"adamw\"", "--partial"], *self.run_local(2, *other))
        code, _, err = self.distdl(*self.run_local(2, *other, "--partial"))
        self.assertEqual(code, 0, err)
        self.assertIn("4 tensors are loaded: parameter/fc1.bias", err)
        self.assertIn("12 tensors are not in it and are initialized: average/fc1.bias", err)
        self.assertIn("4 tensors of it are ignored", err)
        self.assertIn("gradient_norm", self.rows("metrics.jsonl")[-2])
        self.verify()
        self.succeed("checkpoint", "export", "run", "ema.safetensors", "--tensors", "average/*")
        self.succeed("checkpoint", "import", "safetensors", "ema.safetensors", "tuned/checkpoints")
        self.assertIn("average/fc1.weight", self.succeed("checkpoint", "show", "tuned"))

    def test_another_shape_is_refused_in_any_case(self):
        self.succeed(*self.run_local(1, "--set", "train.epochs=1"))
        for more in ([], ["--partial"]):
            line = self.fails(4, ["parameter/fc1.weight", "in the model", "but was saved as"],
                              *self.run_local(2, *more, "--set", "model.hidden=[17]"))
            self.assertNotIn("--partial", line)


class Intervals(ProgramTest):
    def test_auto_measures_and_then_saves_as_often_as_it_pays(self):
        """A failure is expected every 72 ms, so that it must soon save much more often than at first."""
        self.make_set()
        auto = ["--set", "checkpoint.every=auto", "--set", "train.epochs=40", "--set", "kernels.backend=reference",
                "--set", "model.hidden=[64]"]
        self.succeed(*self.run_local(3, *auto, "--set", "checkpoint.mtbf_hours=0.00002"))
        saves = [row["step"] for row in self.rows("journal.jsonl") if row["event"] == "checkpoint"]
        self.assertEqual(saves[0], 100)
        self.assertGreater(len(saves), 3)
        self.assertRegex(self.log(), r"a checkpoint is now saved every \d+ steps: a save delays training by")
        self.succeed(*self.run_local(1, *auto, "--set", "checkpoint.every=0", "--set", "run.dir=without"))
        self.assertEqual(self.digest(), self.digest("without"))

    def test_auto_learns_from_the_journal(self):
        self.make_set()
        auto = ["--set", "checkpoint.every=auto", "--set", "train.epochs=100000", "--set", "kernels.backend=reference"]
        for expected in ("24 h", "12 h"):  # one failure a day is believed before anything is known
            run = self.start(*self.run_local(2, *auto))
            measured = f"a step takes .* a failure is expected every {expected}"  # it trains, and has journalled that
            wait_until(lambda: re.search(measured, self.log()), measured)
            run.kill()
            self.finish(run)


if __name__ == "__main__":
    unittest.main(verbosity=2)
