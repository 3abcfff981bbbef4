# SPDX-License-Identifier: Apache-2.0
"""The command line: help, mistakes, what machines read, what a run leaves in its folder."""
import json
import os
import re
import subprocess
import tomllib
import unittest
import xml.etree.ElementTree

from program import DISTDL, PATIENCE, ProgramTest

COMMANDS = ["run", "data", "data make", "data make shapes", "data import", "data import idx", "data import text", "data info",
            "checkpoint", "checkpoint ls", "checkpoint show", "checkpoint verify", "checkpoint digest", "checkpoint why",
            "checkpoint diff", "checkpoint gc", "checkpoint tag", "checkpoint export", "checkpoint import", "checkpoint import safetensors",
            "checkpoint import pretrained", "config", "init",
            "bench", "bench checkpoint", "bench comm", "bench train", "doctor", "version",
             "submit", "join", "status", "watch", "compare", "sweep", "log", "trace", "cancel", "requeue", "ls", "plan"]


class Help(ProgramTest):
    def test_every_command_explains_itself(self):
        listing = self.succeed("--help")
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.succeed(*command.split(), "--help")
                self.assertIn("--help", text)
                if " " not in command:
                    self.assertRegex(listing, rf"(?m)^\s+{command}\b")
        self.assertIn("75", listing)  # exit codes
        self.assertEqual(re.findall(r"(?m)^(\w+):$", listing), ["Options", "Begin", "Train", "Look", "Models", "More", "Examples"])
        for inner in ("worker", "agent", "preflight"):  # others run them
            self.assertNotRegex(listing, rf"(?m)^\s+{inner}\b")
            self.assertIn("--help", self.succeed(inner, "--help"))
        self.assertIn("--local", self.succeed("help", "run"))

    def test_defaults_are_those_that_hold(self):
        self.assertRegex(self.succeed("bench", "checkpoint", "--help"), r"--ranks INT:POSITIVE(=1| \[1\]) ")  # CLI11 2.1, 2.4

    def test_a_wrong_word_is_named_with_the_one_that_was_meant(self):
        for words, named, meant in ((["tain"], "tain", "distdl run"), (["stauts"], "stauts", "distdl status"), (["sbatch"], "sbatch", "distdl submit"),
                                    (["verify", "run"], "verify", "distdl checkpoint verify"), (["data", "mkae"], "mkae", "distdl data make"),
                                    (["checkpoint", "import", "safetensor"], "safetensor", "distdl checkpoint import safetensors"),
                                    (["help", "data", "imprt"], "imprt", "distdl data import"), (["--", "chekpoint"], "chekpoint", "distdl checkpoint"),
                                    (["run", "job.toml", "--lokal"], "--lokal", "--local"), (["status", "run", "--jsno=1"], "--jsno", "--json")):
            with self.subTest(words=words):
                line = self.fails(64, [f'"{named}"; did you mean "{meant}"?'], *words)
                self.assertNotIn("subcommand is required", line)
        self.assertNotIn("did you mean", self.fails(64, ['"distdl" has no command "xylophone"; "distdl help" lists'], "xylophone"))
        self.fails(64, ['does not expect "twice"', "usage is: distdl version"], "version", "twice")

    def test_what_is_missing_is_said_with_an_example(self):
        self.fails(64, ['"distdl run" needs job (Job file in TOML', "as in: distdl run --local -n 4 job.toml"], "run", "--local")
        self.fails(64, ["needs IMAGES (", " and LABELS (", " and OUT (", "as in: distdl data import idx"], "data", "import", "idx")
        self.fails(64, ['"distdl data" needs one of its commands: make, import, info'], "data")
        self.fails(64, ['"distdl run": --set: 1 required KEY=VALUE missing', "as in:"], "run", "job.toml", "--set")
        self.fails(78, ['"train.lr"; did you mean "optim.learning_rate"?'], "run", "--local", "job.toml", "--set", "train.lr=0.1")

    def test_alone_it_shows_what_to_do_first(self):
        code, out, err = self.distdl()
        self.assertEqual((code, out), (64, ""))
        steps = re.findall(r"^  (distdl .*?)(?:  +.*)?$", err, re.M)
        self.assertEqual([words.split()[1] for words in steps], ["data", "init", "run", "status", "submit"])
        (self.folder / "job.toml").unlink()
        for step in steps[:4]:
            done = subprocess.run(["bash", "-c", step.replace("job.toml", "job.toml --set train.steps=3") if "run --local" in step else step], cwd=self.folder, capture_output=True, text=True,
                                  timeout=PATIENCE, env={**os.environ, "PATH": f"{DISTDL.parent}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 0, step + done.stderr)

    def test_version(self):
        text = self.succeed("--version")
        self.assertEqual(text, self.succeed("version"))
        told = json.loads(self.succeed("version", "--json"))
        bill = json.loads((DISTDL.parent.parent / "distdl.spdx.json").read_text())["packages"]
        self.assertEqual({"distdl": told["version"], **told["libraries"]}, {package["name"]: package["versionInfo"] for package in bill})
        for name, version in told["libraries"].items():
            self.assertIn(f" {name} {version}", text)
        for key in ("version", "compiler", "processor", "type", "commit"):
            self.assertIn(told[key], text)
        self.assertRegex(told["commit"], "^[0-9a-f]{40}$|^$")

    def test_mistakes_are_answered_with_a_hint(self):
        for words in ([], ["train"], ["run"], ["run", "job.toml", "--lokal"], ["data"], ["checkpoint", "ls"], ["config"],
                      ["run", "--local", "-n", "0", "job.toml"], ["run", "--local", "-n", "two", "job.toml"],
                      ["bench", "train", "--batch", "0"], ["help", "nothing"]):
            with self.subTest(words=words):
                code, out, err = self.distdl(*words)
                self.assertEqual(code, 64, err)
                self.assertEqual(out, "")
                self.assertRegex(err, "--help|distdl help")

    def test_a_wrong_option_is_named_before_what_is_missing(self):
        self.fails(64, ['"distdl" has no option "--foo"'], "--foo")
        self.fails(64, ['"distdl run" has no option "--hepl"', 'did you mean "--help"?'], "run", "--hepl")
        self.fails(64, ['"distdl checkpoint" has no option "--json"'], "checkpoint", "--json")
        self.assertEqual(self.succeed("-V"), self.succeed("--version"))


class Init(ProgramTest):
    def test_writes_a_job_that_runs_as_it_is(self):
        (self.folder / "job.toml").unlink()
        self.fails(64, ["there is no data set in this folder", "distdl data make shapes shapes.h5"], "init")
        self.make_set()
        shown = self.succeed("init")
        self.assertIn("job.toml: model lenet with", shown)
        text = (self.folder / "job.toml").read_text()
        self.assertIn("600 images of (1, 12, 12) in 10 classes", text)
        self.succeed("config", "--check", "job.toml")
        self.succeed("run", "--local", "-n", "2", "job.toml", "--set", "train.steps=3")
        self.verify("run-set-lenet")
        self.fails(78, ['"job.toml" already exists', "--force"], "init")
        self.assertEqual((self.folder / "job.toml").read_text(), text)
        self.succeed("init", "--force", "--model", "vit")
        self.assertIn("patch = 1", (self.folder / "job.toml").read_text())
        self.assertEqual([each.name for each in self.folder.glob(".*")], [])

    def test_of_a_set_that_is_not_there_speaks_of_the_set(self):
        self.fails(3, ["nofile.h5"], "init", "nofile.h5")  # job.toml is there, too

    def test_for_a_text_and_what_does_not_fit(self):
        (self.folder / "text.txt").write_text("to be or not to be " * 500)
        self.fails(78, ['"text.txt" is not a data set', "distdl data import text text.txt text.h5"], "init", "text.txt", "-o", "gpt.toml")
        self.succeed("data", "import", "text", "text.txt", "text.h5")
        self.succeed("init", "text.h5", "-o", "gpt.toml")
        self.succeed("run", "--local", "-n", "1", "gpt.toml", "--set", "train.steps=2")
        self.make_set()
        self.fails(64, ["several data sets in this folder: set.h5, text.h5", "distdl init set.h5"], "init", "-o", "new.toml")
        self.fails(78, ['"lenet" takes images'], "init", "text.h5", "--model", "lenet", "-o", "new.toml")
        self.fails(78, ['"gpt" takes sequences of tokens'], "init", "set.h5", "--model", "gpt", "-o", "new.toml")
        self.fails(64, ["--model"], "init", "set.h5", "--model", "alexnet", "-o", "new.toml")
        self.fails(3, ["gone.h5"], "init", "gone.h5", "-o", "new.toml")
        self.fails(74, ['no folder "none"'], "init", "set.h5", "-o", "none/new.toml")
        (self.folder / "set.h5").rename(self.folder / "\udcff.h5")  # a byte that is no UTF-8
        self.fails(78, ["is not UTF-8"], "init", "\udcff.h5", "-o", "new.toml")
        self.assertFalse((self.folder / "new.toml").exists())


class ForMachines(ProgramTest):
    def read(self, *words, code=0):
        got, out, err = self.distdl(*words)
        self.assertEqual(got, code, out + err)
        return json.loads(out)

    def test_a_run_without_validation_data(self):
        self.make_set()
        job = self.run_local(2, "--set", "data.holdout=0", "--set", "train.steps=3")
        result = self.read(*job, "--json")
        self.assertIsNone(result["accuracy"])
        self.assertIsNone(result["loss"])
        self.assertIsNone(json.loads((self.folder / "run" / "result.json").read_text())["accuracy"])
        self.assertIn("none, no validation data", self.succeed(*job))

    def test_run_checkpoint_data(self):
        self.make_set()
        result = self.read(*self.run_local(2, "--json"))
        self.assertEqual((result["steps"], result["ranks"], result["interruptions"]), (90, 2, 0))
        self.assertGreater(result["accuracy"], 0.3)
        self.assertGreater(result["samples_per_s"], 0)
        self.assertEqual(self.read("checkpoint", "ls", "run", "--json")[-1]["step"], 90)
        shown = self.read("checkpoint", "show", "run", "--json")
        self.assertIn("parameter/fc1.weight", [tensor["name"] for tensor in shown["tensors"]])
        self.assertTrue(all(each["ok"] for each in self.read("checkpoint", "verify", "run", "--json")))
        digest = self.read("checkpoint", "digest", "run", "--json")
        self.assertEqual(self.digest(), f"step {digest['step']} sha256 {digest['sha256']}\n")
        self.assertRegex(digest["sha256"], "^[0-9a-f]{64}$")
        self.assertEqual(self.read("data", "info", "set.h5", "--json")["samples"], 600)

    def test_damage_is_reported_to_machines_too(self):
        self.make_set()
        self.succeed(*self.run_local(2))
        newest = sorted((self.folder / "run" / "checkpoints").glob("step-*"))[-1]
        file = next(newest.glob("*.h5"))
        broken = bytearray(file.read_bytes())
        for place in range(len(broken) // 10, len(broken), 997):
            broken[place] ^= 1
        file.write_bytes(broken)
        found = self.read("checkpoint", "verify", "run", "--json", code=2)
        bad = [each for each in found if not each["ok"]]
        self.assertEqual([each["folder"].split("/")[-1] for each in bad], [newest.name])
        self.assertEqual(bad[0]["findings"][0]["file"].split("/")[-1], file.name)

    def test_version_doctor_bench(self):
        version = self.read("version", "--json")
        self.assertIn("reference", version["backends"])
        self.assertIn(version["version"], self.succeed("version"))
        code, out, err = self.distdl("doctor", "--json")
        self.assertIn(code, (0, 78), err)
        self.assertLessEqual({"CPU", "HDF5"}, {row["what"] for row in json.loads(out)} | {"CPU"})
        self.assertTrue(all(row["health"] in ("ok", "warn", "fail") for row in json.loads(out)))
        words = ["bench", "train", "--model", "mlp", "--threads", "1", "--batch", "16", "--steps", "3"]
        bench = self.read(*words, "--json")
        self.assertAlmostEqual(bench["samples_per_s"], 16 / bench["step_ms"] * 1e3, delta=bench["samples_per_s"] * 0.01)
        self.assertGreater(bench["peak_mib"], 1)
        both = self.read(*words, "--local", "-n", "2", "--json")
        self.assertEqual((bench["ranks"], both["ranks"]), (1, 2))
        code, _, err = self.distdl("bench", "train", "--local", "--threads", "2")
        self.assertEqual((code, err.count("\n")), (64, 1), err)
        self.assertIn("--threads 1", err)
        self.assertAlmostEqual(both["samples_per_s"], 32 / both["step_ms"] * 1e3, delta=both["samples_per_s"] * 0.01)
        self.assertRegex(self.succeed(*words), r"median step [\d.]+ ms .*, \d+ samples/s, peak memory \d+ MiB")

    def test_config(self):
        self.make_set()
        defaults = self.succeed("config", "--defaults")
        (self.folder / "defaults.toml").write_text(defaults)
        line = self.succeed("config", "--check", "defaults.toml", "--set", "data.train=set.h5", "--set", "data.holdout=60")
        self.assertIn("ok", line)
        self.succeed("config", "--check", "job.toml")
        keys = set(re.findall(r"^\| `([\w.]+)` \|", self.succeed("config", "--reference"), re.M))

        def keys_in(table, prefix=""):
            for name, value in table.items():
                yield from keys_in(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]

        found = set(keys_in(tomllib.loads(defaults)))
        # Tables [[alert]] have no defaults: a job without them has no alerts.
        self.assertEqual(found, {key for key in keys if not key.startswith("alert.")})
        self.assertGreater(len(keys), 20)


class Plan(ProgramTest):
    SHAPE = ["plan", "--stages", "4", "--microbatches", "12"]

    def test_compares_the_schedules(self):
        table = self.succeed(*self.SHAPE, "--svg", "all.svg")
        rows = {row["schedule"]: row for row in json.loads(self.succeed(*self.SHAPE, "--json"))["schedules"]}
        self.assertEqual(list(rows), ["gpipe", "1f1b", "interleaved", "zero-bubble"])
        for name, bubble, activations in (("gpipe", 3 / 15, 12), ("1f1b", 3 / 15, 4), ("interleaved", 3 / 27, 5.5), ("zero-bubble", 3 / 39, 4)):
            self.assertAlmostEqual(rows[name]["bubble"], bubble)
            self.assertEqual(rows[name]["activations"], activations)
            self.assertRegex(table, rf"(?m)^{name} +\d .* {100 * bubble:.1f}% +{activations} ")
        drawing = xml.etree.ElementTree.parse(self.folder / "all.svg")
        self.assertEqual(sum(each.get("class") == "f" for each in drawing.iter()), 3 * 48 + 96 + 1)

    def test_shows_one_schedule(self):
        chart = self.succeed(*self.SHAPE, "--schedule", "interleaved", "--interleave", "3")
        self.assertRegex(chart, r"(?m)^ +0  F")
        self.assertLessEqual(max(map(len, chart.splitlines())), 100)
        plan = json.loads(self.succeed(*self.SHAPE, "--schedule", "1f1b", "--costs", "2,3,1", "--transfer", "0.5", "--json"))
        first = [rank["operations"][0] for rank in plan["schedules"][0]["ranks"]]
        self.assertEqual([each["begin"] for each in first], [0, 2.5, 5, 7.5])
        self.assertEqual((first[1]["receive_from"], first[1]["send_to"], first[3]["kind"]), (0, 2, "forward"))

    def test_balances_layers(self):
        plan = json.loads(self.succeed("plan", "--schedule", "gpipe", "--stages", "3", "--microbatches", "2", "--layers", "9,1,1,1,6", "--json"))
        self.assertEqual(plan["schedules"][0]["layers"], [1, 3, 1])
        self.assertEqual(plan["schedules"][0]["ranks"][0]["operations"][0]["end"], 9)
        chosen = ["plan", "--schedule", "gpipe", "--stages", "3", "--microbatches", "2", "--layers", "9,1,1,1,6", "--stage-layers"]
        self.assertIn("layers of the 3 stages: 2, 1, 2\n", self.succeed(*chosen, "2,1,2"))
        self.assertIn("the nearest possible choice is 2,1,2", self.distdl(*chosen, "2,1,9")[2])

    def test_mistakes_are_answered_with_a_valid_choice(self):
        for words, hint in ((["--stages", "0"], "1024"), (["--microbatches", "0"], "range"), (["--schedule", "2f2b"], "zero-bubble"),
                            (["--stages", "1024", "--microbatches", "9999"], "at most --microbatches 512"),
                            (["--schedule", "1f1b", "--interleave", "2"], "--schedule interleaved"),
                            (["--costs", "1,2"], "--costs 1,1,1"), (["--costs", "1,0,1"], "above 0"), (["--costs", "1,nan,1"], "not a number"),
                            (["--layers", "1,2,3"], "at most 3"), (["--layers", "1,-2,3,4,5,6,7,8"], "above 0"), (["--transfer", "-1"], "range")):
            with self.subTest(words=words):
                code, out, err = self.distdl("plan", *(["--stages", "4"] if "--stages" not in words else []),
                                             *(["--microbatches", "12"] if "--microbatches" not in words else []), *words)
                self.assertEqual((code, out), (64, ""), err)
                self.assertIn(hint, err)
        code, _, err = self.distdl(*self.SHAPE, "--svg", "gone/all.svg")
        self.assertEqual(code, 74, err)


class RunFolder(ProgramTest):
    def test_tells_the_state_of_nodes_from_which_failures_are_learnt(self):
        self.make_set()
        self.succeed(*self.run_local(2))
        status = json.loads(self.succeed("status", "run", "--json"))
        self.assertEqual(len(status["nodes"]), 1)
        self.assertGreaterEqual(status["nodes"][0]["load"], 0)
        self.assertRegex(self.succeed("status", "run", "--verbose"), r"nodes +\S+ load [\d.]+")
        code, _, err = self.distdl("health", "run", "--train", "predictor.json")
        self.assertEqual(code, 78, err)
        self.assertIn("0 are of the half hour before a failure", err)
        # Two more nodes for two hours; one has errors of its memory in the second one, and is lost.
        for node, last in (("well", 400), ("lost", 240)):
            rows = [{"time": 1.7e9 + 30 * i, "host": node, "corrected_errors": max(0, i - 180) if node == "lost" else 0} for i in range(last)]
            (self.folder / "run/health" / f"{node}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        with open(self.folder / "run/journal.jsonl", "a") as journal:
            journal.write(json.dumps({"event": "node_lost", "time": 1.7e9 + 30 * 241}) + "\n")
        self.assertIn("60 of them before a failure", self.succeed("health", "run", "--train", "predictor.json"))
        weights = json.loads((self.folder / "predictor.json").read_text())["weights"]
        self.assertEqual(max(weights, key=weights.get), "corrected_errors")
        self.succeed(*self.run_local(2, "--set", "run.dir=other", "--set", "run.failure_predictor=predictor.json"))

    def test_holds_the_steps_that_were_traced(self):
        self.make_set()
        self.fails(78, ['log.trace is "x"', '"100:110"'], *self.run_local(2, "--set", "log.trace=x"))
        self.succeed(*self.run_local(2, "--set", "train.steps=8"))
        self.fails(3, ['has no trace', "--set log.trace=A:B"], "trace", "run")
        self.succeed(*self.run_local(2, "--set", "train.steps=8", "--set", "run.dir=traced", "--set", "log.trace=3:6"))
        self.assertEqual(self.digest(), self.digest("traced"))
        text = self.succeed("trace", "traced")
        for words in ("Steps 3:6 on 2 ranks", "Where the time goes", "compute", "The layers that take longest", "traced/trace.json"):
            self.assertIn(words, text)
        events = json.loads((self.folder / "traced/trace.json").read_text())["traceEvents"]
        self.assertEqual({event["args"]["name"].split(" (")[0] for event in events if event["name"] == "process_name"}, {"rank 0", "rank 1", "journal"})
        summary = json.loads(self.succeed("trace", "traced", "--steps", "4:5", "-o", "own.json", "--json"))
        self.assertEqual((summary["first_step"], summary["last_step"], summary["missing_ranks"]), (4, 5, []))
        self.assertEqual({event["args"]["number"] for event in json.loads((self.folder / "own.json").read_text())["traceEvents"]
                          if event.get("cat") == "step"}, {4, 5})
        self.fails(3, ["no whole step of 7:9", "it has 3:6"], "trace", "traced", "--steps", "7:9")
        self.fails(64, ["--steps is \"7:\""], "trace", "traced", "--steps", "7:")
        self.fails(64, ["own.json", "--force replaces it"], "trace", "traced", "-o", "own.json")
        self.succeed("trace", "traced", "--steps", "3:3", "-o", "own.json", "--force")
        self.fails(74, ["own.json", "no folder \"none\"", "-o"], "trace", "traced", "-o", "none/own.json")

    def test_holds_checkpoints_logs_metrics_and_result(self):
        self.make_set()
        self.succeed(*self.run_local(2, "--set", "log.level=debug"))
        run = self.folder / "run"
        self.assertLessEqual({"checkpoints", "logs", "metrics.jsonl", "result.json"}, {each.name for each in run.iterdir()})
        steps = [row for row in self.rows("metrics.jsonl") if "loss" in row]
        self.assertEqual([row["step"] for row in steps], list(range(1, 91)))
        for row in steps:
            self.assertLessEqual({"step", "epoch", "loss", "accuracy", "samples_per_s"}, row.keys())
        self.assertAlmostEqual(steps[-1]["epoch"], 4, delta=0.1)
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        result = json.loads((run / "result.json").read_text())
        self.assertEqual((result["status"], result["steps"], result["failed_saves"]), ("finished", 90, 0))
        log = self.log()
        for rank in range(2):  # ranks on one host take its GPUs in turn
            self.assertRegex(log, rf"rank={rank} device {rank}:")


    def test_tells_how_a_run_ended(self):
        self.make_set()
        self.fails(78, ["became"], *self.run_local(2, "--set", "optim.learning_rate=1e30", "--set", "optim.name=sgd"))
        result = json.loads((self.folder / "run" / "result.json").read_text())
        self.assertEqual((result["status"], result["code"], result["cause_code"]), ("failed", 78, "diverged"))
        self.assertIn("lower optim.learning_rate", result["cause"])
        failed = [row for row in self.rows("journal.jsonl") if row["event"] == "failed"]
        self.assertEqual([(row["code"], row["cause_code"], row["cause"]) for row in failed], [(78, "diverged", result["cause"])])
        self.assertIn("lower optim.learning_rate", self.succeed("status", "run"))
        status = json.loads(self.succeed("status", "run", "--json"))
        self.assertEqual((status["state"], status["failure_code"], status["start"]), ("failed", "diverged", 1))

    def test_the_first_start_of_a_checkpoint_is_that_of_the_journal(self):
        self.make_set()
        self.succeed(*self.run_local(2, "--set", "train.steps=20"))
        self.succeed(*self.run_local(2))
        starts = {row["step"]: row["start"] for row in self.rows("journal.jsonl") if row["event"] == "checkpoint"}
        self.assertEqual(set(starts.values()), {1, 2})
        for each in json.loads(self.succeed("checkpoint", "ls", "run", "--json")):
            self.assertEqual(each["start"], starts[each["step"]])
        self.assertEqual({row["start"] for row in self.rows("metrics.jsonl") if row["step"] > 20}, {2})
        again = self.succeed(*self.run_local(2, "--set", "train.steps=40"))  # fewer than are done
        self.assertRegex(again, r"steps +90\n")
        self.assertIn("90, from a checkpoint; the job ends at step 40", self.succeed("status", "run"))

    def test_compare(self):
        self.make_set()
        self.succeed(*self.run_local(2))
        self.succeed(*self.run_local(1, "--set", "run.dir=other", "--set", "train.steps=20", "--set", "model.hidden=[8, 8]"))
        table = self.succeed("compare", "run", "other")
        self.assertRegex(table, r"(?m)^key +run +other$")
        self.assertRegex(table, r"(?m)^model.hidden +\[16\] +\[8, 8\]$")
        self.assertNotIn("run.dir", table)
        self.assertRegex(table, r"(?m)^steps +90 +20$")
        self.assertRegex(table, r"(?m)^state +finished +finished$")
        found = json.loads(self.succeed("compare", "run", "other", "run", "--json"))
        self.assertEqual([each["key"] for each in found["job"]], ["model.hidden", "train.steps"])
        self.assertEqual([each["ranks"] for each in found["runs"]], [2, 1, 2])
        self.assertGreater(found["runs"][0]["wall_seconds"], 0)
        (self.folder / "other" / "job.toml").unlink()
        self.assertIn("other: its job was not kept", self.succeed("compare", "run", "other"))
        self.fails(64, ["needs two runs or more, as in: distdl compare"], "compare", "run")
        self.fails(3, ["nowhere"], "compare", "run", "nowhere")

    def test_the_reference_parser_reads_the_open_metrics(self):
        self.make_set()
        self.fails(78, ["log.openmetrics", "gone"], *self.run_local(2, "--set", "log.openmetrics=gone/distdl.prom"))
        self.succeed(*self.run_local(2, "--set", "log.openmetrics=distdl.prom"))
        python = "/usr/bin/python3"  # that of Debian's packages
        if subprocess.run([python, "-c", "import prometheus_client"], capture_output=True).returncode != 0:
            self.skipTest("there is no python3-prometheus-client")
        program = ("import sys, prometheus_client.openmetrics.parser as p, prometheus_client.parser as q; text = open(sys.argv[1]).read()\n"
                   "for read in (p, q):\n"
                   "    families = list(read.text_string_to_metric_families(text))\n"
                   "    print({each.name: each.samples[0].value for each in families}, {each.samples[0].labels['run'] for each in families})")
        done = subprocess.run([python, "-c", program, "distdl.prom"], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        run = (self.folder / "run" / "RUN").read_text()
        for line in done.stdout.splitlines():
            self.assertRegex(line, r"'distdl_step': 90\b")  # some parsers make floats of all
            self.assertRegex(line, r"'distdl_checkpoint_step': 90\b")
            self.assertIn(re.search("[0-9a-f]{12}", run)[0], line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
