# SPDX-License-Identifier: Apache-2.0
"""distdl plan job.toml: forecasts of a run, what they are made of, and how wrong they were."""
import json
import resource
import statistics
import unittest

from program import ProgramTest


class Forecast(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def distdl(self, *words, **how):
        """No calibration but the test's own."""
        return super().distdl(*words, variables={"XDG_CACHE_HOME": str(self.folder / "cache")}, **how)

    def plan(self, *words):
        return json.loads(self.succeed("plan", "job.toml", "--json", *words))

    def product(self, strategy, *words):
        """Of ranks that hold the whole model."""
        return next(each for each in self.plan(*words)["products"]
                    if each["strategy"] == strategy and each["pipeline_ranks"] * each["tensor_ranks"] == 1)

    def test_says_what_a_run_needs(self):
        plan = self.plan("--nodes", "3")
        self.assertEqual((plan["nodes"], plan["global_batch"], plan["steps"]), (3, 24, 90))
        products = {(each["replicas"], each["pipeline_ranks"], each["tensor_ranks"], each["strategy"]) for each in plan["products"]}
        self.assertEqual(products, {(3, 1, 1, "replicas"), (3, 1, 1, "sharded"), (3, 1, 1, "sharded_gradients"),
                                    (3, 1, 1, "sharded_parameters")})  # two layers are no three stages
        self.assertIn("at most 6 replicas", plan["limits"])
        self.assertTrue(any("nothing was measured" in warning for warning in plan["warnings"]), plan["warnings"])
        for each in plan["products"]:
            self.assertGreater(each["step_seconds"], each["compute_seconds"])
            self.assertAlmostEqual(each["rank_bytes"], sum(each["memory"].values()), delta=10)
            self.assertTrue(0 < each["efficiency"] < 1)
        self.assertGreaterEqual(plan["node_hours"] * 3600, 3 * 90 * plan["products"][0]["step_seconds"])
        table = self.succeed("plan", "job.toml", "--nodes", "3", "--set", "run.spares=1")
        self.assertRegex(table, r"(?m)^\*[= ] 3x1x1 (replicas|sharded) .* yes$")
        self.assertRegex(table, r"(?m)^[* ]= 3x1x1 replicas ")
        self.assertRegex(table, r"(?m)^run .* node hours with 1 spares$")

    def test_says_what_auto_chooses_and_the_ranks_choose_it(self):
        for ranks, keys in ((1, []), (3, ["parallel.recompute=blocks"]), (4, ["parallel.microbatches=2", "parallel.microbatch_size=12"])):
            auto = [word for key in ["parallel.strategy=auto", "train.steps=1", f"run.dir=run{ranks}", *keys] for word in ("--set", key)]
            plan = self.plan("--nodes", "1", "--ranks-per-node", str(ranks), *auto)
            chosen = plan["automatic"]
            self.succeed(*self.run_local(ranks, *auto))
            row = next(row for row in self.rows("journal.jsonl", f"run{ranks}") if row["event"] == "product")
            self.assertEqual((row["ranks"], row["product"], row["reason"]), (ranks, chosen["product"], chosen["reason"]))
            self.assertIn(f'strategy = "auto": {ranks} rank', self.log(f"run{ranks}"))
        self.assertRegex(self.succeed("plan", "job.toml", "--nodes", "1"), r"(?m)^auto +1x1x1 replicas fits, with ")
        self.fails(78, ["none of", "the nearest choice is"], "plan", "job.toml", "--nodes", "1", "--node-memory", "9M", *auto)

    def test_compares_products_of_ranks(self):
        deep = ["--nodes", "3", "--ranks-per-node", "2", "--set", "model.hidden=[64,64,64,64,64]"]
        plan = self.plan(*deep, "--set", "parallel.pipeline_ranks=2", "--set", "parallel.recompute=blocks")
        own = plan["products"][plan["own"]]
        self.assertEqual((own["replicas"], own["pipeline_ranks"], own["recompute"]), (3, 2, "blocks"))
        self.assertGreater(len(plan["products"]), 6)
        fewer, every = (self.succeed("plan", "job.toml", *deep, *words).splitlines() for words in ([], ["--all"]))
        self.assertTrue(any(line.endswith("--all shows them") for line in fewer), fewer)
        self.assertGreater(len(every), len(fewer))
        self.assertIn("do not divide into pipelines of 4", self.succeed("plan", "job.toml", *deep, "--set", "parallel.pipeline_ranks=4"))

    def test_depends_on_what_it_is_told(self):
        base = self.product("replicas", "--nodes", "2", "--rate", "1G")
        self.assertEqual(base, self.product("replicas", "--nodes", "2", "--rate", "1G"))
        self.assertGreater(self.product("replicas", "--nodes", "2", "--rate", "10M")["step_seconds"], base["step_seconds"])
        adam = ["--nodes", "2", "--set", "optim.name=adamw", "--set", "model.hidden=[512]"]
        both = {strategy: self.product(strategy, *adam) for strategy in ("replicas", "sharded")}
        self.assertLess(both["sharded"]["memory"]["moments"], 0.6 * both["replicas"]["memory"]["moments"])
        safe, unsafe = (self.plan("--nodes", "2", "--mtbf-hours", hours, "--set", "train.epochs=1000000") for hours in ("0", "0.5"))
        self.assertEqual(safe["failures"], 0)
        self.assertGreater(unsafe["failures"], 1)
        self.assertLess(unsafe["goodput"], safe["goodput"])
        self.assertLess(unsafe["checkpoint"]["interval_steps"], safe["checkpoint"]["interval_steps"])

    def test_thousands_of_ranks_take_seconds(self):
        many = ["--set", "parallel.microbatches=4096", "--set", "parallel.microbatch_size=1", "--set", "train.epochs=1000"]
        flat, tree = (self.product("replicas", "--nodes", "4096", "--latency", "2", "--rate", "100G", *many, *fabric)
                      for fabric in ([], ["--fabric", "fat-tree", "--group", "32", "--oversubscription", "8"]))
        self.assertGreater(tree["step_seconds"], flat["step_seconds"])
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1 << 20)  # KiB

    def test_measures_and_tells_how_wrong_it_was(self):
        self.assertRegex(self.succeed("bench", "calibrate", "job.toml", "--local", "-n", "1"),
                         r"(?m)^peak +[\d.]+ GFLOP/s of a rank, with 1 on a node$(?s:.*)^kept in")
        plan = self.plan("--nodes", "1")
        self.assertFalse(any("measured on such nodes" in warning for warning in plan["warnings"]), plan["warnings"])
        self.assertIsNotNone(plan["measured_on"])
        self.assertRegex(self.fails(64, ["no forecast"], "plan", str(self.folder)), "distdl plan job.toml --nodes")
        self.assertRegex(self.succeed(*self.run_local(1)), r"(?m)^MFU +[\d.]+%$")
        self.tells_utilization()
        self.tells_what_is_computed_again()
        for words in (["run"], ["job.toml", "--nodes", "1"]):
            self.assertRegex(self.succeed("plan", *words),
                             r"(?m)^1 ranks, 1x1x1 replicas: step .* forecast, .* measured \([+-][\d.]+%\); memory of rank 0 .* measured \(")
        self.plan("--nodes", "1", "--set", "parallel.recompute=blocks")  # which has not run
        self.assertNotIn("blocks", self.succeed("plan", "run"))

    def test_learns_from_earlier_runs(self):
        runs = [self.run_that_takes(3, ranks, hidden) for ranks, hidden in ((1, 16), (2, 16), (1, 64), (2, 64))]
        words = [word for run in (*runs, runs[0]) for word in ("--from", run)]
        plain, plan = self.plan("--nodes", "1"), self.plan("--nodes", "1", *words)
        self.assertIsNone(plain["learned"])
        learned = plan["learned"]["step"]
        self.assertEqual((learned["runs"], learned["used"]), (4, True), "each once")
        self.assertAlmostEqual(learned["factor"], 3, places=3)
        self.assertLess(learned["largest_error"], 1e-3)
        self.assertAlmostEqual(learned["forecast_error"], 2 / 3, places=3)
        for before, after in zip(plain["products"], plan["products"]):
            self.assertEqual(before["strategy"], after["strategy"])
            self.assertAlmostEqual(after["step_seconds"] / before["step_seconds"], learned["factor"], places=6)
        self.assertEqual(plan["learned"]["memory"]["runs"], 4)
        self.assertEqual(plan["learned"]["left_out"], [])
        self.assertRegex(self.succeed("plan", "job.toml", "--nodes", "1", *words),
                         r"(?m)^learned +steps: forecasts times 3, learned from 4 runs, error 0.0% \(largest 0.0%\); the forecast alone: 66.7%$")
        table = self.succeed("plan", "job.toml", "--nodes", "1", *words[:4], "--from", self.broken_run())
        self.assertRegex(table, r"(?m)^learned +steps: as forecast, 2 runs of the 3 that it takes$")
        self.assertRegex(table, r'(?m)^left out +".*broken": .*job.toml')
        self.fails(3, ["no run"], "plan", "job.toml", "--nodes", "1", "--from", "nowhere")
        self.learns_from_a_folder_of_runs(plan["learned"])

    def learns_from_a_folder_of_runs(self, learned):
        """Beside what cannot be looked at, and a run that trained otherwise."""
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "odd").mkdir()
        (self.folder / "odd" / "journal.jsonl").symlink_to("journal.jsonl")
        found = self.plan("--nodes", "1", "--from", ".")["learned"]
        self.assertEqual((found["step"]["runs"], found["memory"]["runs"]), (4, 4))
        self.assertAlmostEqual(found["step"]["factor"], learned["step"]["factor"], msg="in another order")
        self.assertEqual(len(found["left_out"]), 1, "the broken run")
        self.assertEqual(found["traffic"]["bytes"], 0, "of one rank")
        other = self.plan("--nodes", "1", "--ranks-per-node", "2", "--from", ".", "--set", "parallel.compression=bf16")["learned"]
        self.assertEqual(other["step"]["runs"], 0)
        self.assertIn("parallel.compression is none in it and bf16 in the next job", other["left_out"][1])
        auto, replicas = (self.plan("--nodes", "1", "--ranks-per-node", "2", "--from", ".", "--set", f"parallel.strategy={strategy}")
                          for strategy in ("auto", "replicas"))
        self.assertEqual(auto["products"][auto["own"]]["strategy"], "replicas")
        self.assertEqual(auto["learned"]["traffic"], replicas["learned"]["traffic"])
        self.assertEqual(replicas["learned"]["traffic"]["runs"], 2)

    def run_that_takes(self, factor, ranks, hidden):
        """So many times as long for a step as forecast."""
        name, model = f"run{ranks}_{hidden}", ["--set", f"model.hidden=[{hidden}]"]
        plan = self.plan("--nodes", "1", "--ranks-per-node", str(ranks), *model)
        self.succeed(*self.run_local(ranks, *model, "--set", f"run.dir={name}", "--set", "train.steps=6"))
        rows = self.rows("metrics.jsonl", name)
        for row in rows:
            if "samples_per_s" in row:
                row["samples_per_s"] = plan["global_batch"] / plan["products"][plan["own"]]["step_seconds"] / factor
        (self.folder / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name

    def broken_run(self):
        """Whose job was not kept."""
        folder = self.folder / "broken"
        folder.mkdir()
        (folder / "journal.jsonl").write_text((self.folder / "run1_16" / "journal.jsonl").read_text())
        return "broken"

    def tells_utilization(self):
        """Of a run on a node whose peak was measured."""
        started = next(row for row in self.rows("journal.jsonl") if row["event"] == "started")
        self.assertEqual(started["product"], "1x1x1 replicas")
        steps = [row for row in self.rows("metrics.jsonl") if "loss" in row]
        for row in steps:
            self.assertAlmostEqual(row["mfu"], row["samples_per_s"] * started["flops_per_sample"] / started["peak_flops_per_s"])
            self.assertNotIn("hfu", row)
        result = json.loads((self.folder / "run" / "result.json").read_text())
        self.assertAlmostEqual(result["mfu"], statistics.median(row["mfu"] for row in steps))
        self.assertRegex(self.succeed("status", "run", "--verbose"), r"(?m)^compute +MFU [\d.]+% of [\d.e+]+ .FLOP/s, [\d.]+ kFLOP per sample$")

    def tells_what_is_computed_again(self):
        out = self.succeed(*self.run_local(1, "--set", "run.dir=again", "--set", "model.hidden=[64,64,64]", "--set", "parallel.recompute=blocks"))
        started = next(row for row in self.rows("journal.jsonl", "again") if row["event"] == "started")
        more = started["hardware_flops_per_sample"] / started["flops_per_sample"]
        self.assertTrue(1 < more < 4 / 3 + 0.01, more)
        rows = [row for row in self.rows("metrics.jsonl", "again") if "loss" in row]
        for row in rows:
            self.assertAlmostEqual(row["hfu"], more * row["mfu"])
        result = json.loads((self.folder / "again" / "result.json").read_text())
        self.assertAlmostEqual(result["hfu"], statistics.median(row["hfu"] for row in rows))
        self.assertRegex(out, r"(?m)^MFU +[\d.]+%\nHFU +[\d.]+%$")
        self.assertRegex(self.succeed("status", "again", "--verbose"), r"(?m)^compute +MFU [\d.]+%, HFU [\d.]+% of ")
        self.assertRegex(self.succeed("compare", "run", "again"), r"(?m)^HFU +- +[\d.]+%$")

    def test_mistakes_are_answered_with_a_valid_choice(self):
        for words, code, hints in (
                (["job.toml"], 64, ["--nodes 4"]), (["job.toml", "--nodes", "0"], 64, ["from 1 to"]), (["--nodes", "2"], 64, ["need a job file"]),
                (["job.toml", "--nodes", "2", "--stages", "2"], 64, ["without a job file"]), ([], 64, ["give a job file", "--stages"]),
                (["job.toml", "--nodes", "2", "--rate", "fast"], 64, ["--rate 100M"]), (["job.toml", "--nodes", "2", "--fabric", "torus"], 64, ["fat-tree"]),
                (["job.toml", "--nodes", "2", "--calibration", "gone.json"], 64, ["gone.json", "bench calibrate"]),
                (["job.toml", "--nodes", "7", "--ranks-per-node", "2"], 78, ["14 ranks", "6 microbatches", "--nodes 3"]),
                (["job.toml", "--nodes", "1", "--ranks-per-node", "2", "--node-memory", "30M"], 78, ["none of", "1 rank on each node with"]),
                (["job.toml", "--nodes", "1", "--node-memory", "1M"], 78, ["a smaller model"])):
            with self.subTest(words=words):
                got, out, err = self.distdl("plan", *words)
                self.assertEqual((got, out), (code, ""), err)
                for hint in hints:
                    self.assertIn(hint, err)

    def test_refuses_a_damaged_calibration(self):
        (self.folder / "bad.json").write_text("{}")
        self.fails(78, ["bad.json", "bench calibrate"], "plan", "job.toml", "--nodes", "1", "--calibration", "bad.json")


if __name__ == "__main__":
    unittest.main(verbosity=2)
