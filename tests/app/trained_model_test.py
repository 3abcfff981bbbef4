# SPDX-License-Identifier: Apache-2.0
"""What a run has learnt is used: evaluate, predict, generate."""
import json
import pathlib
import unittest

from program import PATIENCE, ProgramTest

TINY = pathlib.Path(__file__).resolve().parent.parent / "tokenizer" / "tiny"


class TrainedModel(ProgramTest):
    def train_images(self, *more):
        self.make_set()
        self.succeed(*self.run_local(2, *more))

    def train_text(self, *more):
        (self.folder / "text").write_text("".join("abcde"[i % 5] for i in range(3000)))
        self.succeed("data", "import", "text", "text", "text.h5")
        self.train_gpt(*more)

    def train_gpt(self, *more):
        self.succeed(*self.run_local(1, "--set", "data.train=text.h5", "--set", "data.holdout=301", "--set", "model.name=gpt",
                                     "--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2",
                                     "--set", "model.context=12", "--set", "optim.name=adamw",
                                     "--set", "optim.learning_rate=0.01", *more))

    def test_evaluate_agrees_with_the_run(self):
        self.train_images("--set", "data.holdout=0", "--set", "data.validation=set.h5")
        evaluated = [row for row in self.rows("metrics.jsonl") if "validation_loss" in row][-1]
        report = json.loads(self.succeed("evaluate", "run", "set.h5", "--json"))
        self.assertAlmostEqual(report["loss"], evaluated["validation_loss"], delta=1e-5)
        self.assertAlmostEqual(report["accuracy"], evaluated["validation_accuracy"], delta=1e-9)
        self.assertEqual(report["step"], evaluated["step"])
        odd = json.loads(self.succeed("evaluate", "run", "set.h5", "--json", "--batch", "7"))  # the last group is smaller
        self.assertAlmostEqual(odd["loss"], report["loss"], delta=1e-6)
        told = json.loads(self.succeed("evaluate", "run", "set.h5", "--json", "--classes"))
        rows = told["confusion"]
        self.assertEqual(sum(map(sum, rows)), report["samples"])
        self.assertAlmostEqual(sum(row[i] for i, row in enumerate(rows)) / report["samples"], report["accuracy"], 9)
        self.assertEqual([each["samples"] for each in told["classes"]], [sum(row) for row in rows])
        shown = self.succeed("evaluate", "run", "set.h5", "--classes")
        self.assertIn("accuracy", shown)
        self.assertIn("TAKEN FOR", shown)

    def test_the_average_is_used_where_there_is_one(self):
        self.train_images("--set", "data.holdout=0", "--set", "data.validation=set.h5", "--set", "optim.ema_decay=0.9")
        evaluated = [row for row in self.rows("metrics.jsonl") if "validation_loss" in row][-1]
        report = json.loads(self.succeed("evaluate", "run", "set.h5", "--json"))
        self.assertAlmostEqual(report["loss"], evaluated["validation_loss"], delta=1e-5)

    def test_predict_tells_classes_with_probabilities(self):
        self.train_images("--set", "train.epochs=20")
        rows = json.loads(self.succeed("predict", "run", "set.h5", "--json", "--first", "5", "--count", "40", "--top", "99"))
        self.assertEqual([row["sample"] for row in rows], list(range(5, 45)))
        for row in rows:
            probabilities = [prediction["probability"] for prediction in row["predictions"]]
            self.assertAlmostEqual(sum(probabilities), 1, places=6)
            self.assertEqual(probabilities, sorted(probabilities, reverse=True))
            self.assertEqual(row["guesses"], row["predictions"])
        right = sum(row["predictions"][0]["class"] == row["label"] for row in rows)
        self.assertGreater(right, 20)
        few = self.succeed("predict", "run", "set.h5", "--count", "3", "--top", "1")
        self.assertEqual(len(few.splitlines()), 4)
        self.fails(64, ["--first 100000"], "predict", "run", "set.h5", "--first", "100000")

    def test_an_ensemble_averages_what_its_models_tell(self):
        self.make_set()
        runs = ["run", "other"]
        for run in runs:
            self.succeed(*self.run_local(1, "--set", f"run.dir={run}", "--set", f"train.seed={len(run)}"))
        words = ["set.h5", "--json", "--count", "9", "--top", "99"]

        def told(*words):
            return [{p["class"]: p["probability"] for p in row["predictions"]} for row in json.loads(self.succeed("predict", *words))]
        one, other, both = told("run", *words), told("other", *words), told("run", *words, "--with", "other")
        for a, b, mean in zip(one, other, both):
            for label, probability in mean.items():
                self.assertAlmostEqual(probability, (a[label] + b[label]) / 2, places=6)
        report = json.loads(self.succeed("evaluate", "run", "set.h5", "--json", "--with", "other"))
        losses = [json.loads(self.succeed("evaluate", run, "set.h5", "--json"))["loss"] for run in runs]
        self.assertLessEqual(report["loss"], sum(losses) / 2 + 1e-6, "by Jensen's inequality")
        self.assertEqual(len(report["checkpoints"]), 2)
        twice = json.loads(self.succeed("evaluate", "run", "set.h5", "--json", "--with", "run"))
        self.assertAlmostEqual(twice["loss"], losses[0], delta=1e-5)
        self.make_set("wide.h5", "--classes", "4")
        self.succeed(*self.run_local(1, "--set", "run.dir=four", "--set", "data.train=wide.h5"))
        self.fails(4, ["an ensemble needs models for the same data"], "evaluate", "run", "set.h5", "--with", "four")

    def test_generate_ends_with_its_reader(self):
        self.train_text()
        for words in (["--prompt", "abc"], ["--prompt-tokens", "97"]):
            with self.subTest(words=words):
                process = self.start("generate", "run", *words, "--tokens", "1000000000")
                process.stdout.read(2)
                process.stdout = process.stdout.close()
                self.assertEqual(process.wait(PATIENCE), 0)
                self.assertEqual(process.stderr_file.read_text(), "")
                with open("/dev/full", "w") as full:
                    process = self.start("generate", "run", *words, "--tokens", "1000000000", output=full)
                    self.assertEqual(process.wait(PATIENCE), 74)
                self.says_once(["stdout", "No space left"], process.stderr_file.read_text())

    def test_generate_goes_on_with_what_was_learnt(self):
        self.train_text("--set", "train.epochs=30")
        text = self.succeed("generate", "run", "--prompt", "abc", "--tokens", "40", "--temperature", "0")
        self.assertEqual(text, ("abcde" * 9)[:43] + "\n")
        drawn = [self.succeed("generate", "run", "--prompt-tokens", "97", "--tokens", "60", "--temperature", "8", "--seed", seed)
                 for seed in "112"]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        numbers = self.succeed("generate", "run", "--prompt-tokens", "97,98", "--tokens", "3", "--top-k", "1")
        self.assertEqual(numbers.split(), ["97", "98", "99", "100", "101"])
        report = json.loads(self.succeed("evaluate", "run", "text.h5", "--json"))
        self.assertLess(report["perplexity"], 1.5)

    def test_text_is_spoken_with_the_tokenizer_of_the_set(self):
        texts = ["All human beings are born free", "Все люди рождаются", "人人生而自由"] * 30
        (self.folder / "docs.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        said = self.succeed("data", "import", "text", "docs.jsonl", "text.h5", "--tokenizer", str(TINY / "llama3.json"))
        self.assertNotIn("256 symbols", said)
        self.assertIn("tokenizer  ", self.succeed("data", "info", "text.h5", "--verify"))
        self.train_gpt("--set", "train.epochs=40")
        text = self.succeed("generate", "run", "--prompt", "All human", "--tokens", "60", "--temperature", "0")
        self.assertTrue(text.startswith("All human beings are born free<|end_of_text|>Все люди"), text)
        numbers = self.succeed("generate", "run", "--prompt-tokens", "65", "--tokens", "3")
        self.assertEqual(len(numbers.split()), 4)
        shown = json.loads(self.succeed("predict", "run", "text.h5", "--json", "--count", "2", "--top", "1"))
        self.assertEqual([row["predictions"][0]["token"] for row in shown], [row["label"] for row in shown])
        self.assertIn(shown[0]["label_text"], self.succeed("predict", "run", "text.h5", "--count", "1"))
        self.assertLess(json.loads(self.succeed("evaluate", "run", "text.h5", "--json"))["perplexity"], 2)
        self.succeed("checkpoint", "export", "run", "folder", "--for", "transformers")
        self.assertEqual((TINY / "llama3.json").read_bytes(), (self.folder / "folder/tokenizer.json").read_bytes())
        self.train_gpt("--set", "train.epochs=41")  # a resume
        self.succeed("checkpoint", "export", "run", "w.safetensors")
        self.succeed("checkpoint", "import", "safetensors", "w.safetensors", "again")
        self.assertTrue(self.succeed("generate", "again", "--prompt", "All human", "--tokens", "5", "--temperature", "0")
                        .startswith("All human beings"))
        other = json.loads((TINY / "llama3.json").read_text())
        other["version"] = "1.1"
        (self.folder / "other.json").write_text(json.dumps(other))
        self.succeed("data", "import", "text", "docs.jsonl", "other.h5", "--tokenizer", "other.json")
        self.fails(78, ["another tokenizer"], "evaluate", "run", "other.h5")
        self.fails(78, ["docs.jsonl", "--field", '"text"'], "data", "import", "text", "docs.jsonl", "x.h5", "--field", "body")

    def needs_sentencepiece(self):
        if "sentencepiece" not in json.loads(self.succeed("version", "--json"))["libraries"]:
            (self.folder / "text").write_text("text")
            self.fails(78, ["llama.model", "-DDISTDL_SENTENCEPIECE=ON"], "data", "import", "text", "text", "text.h5", "--tokenizer", str(TINY / "llama.model"))
            self.skipTest("distdl was built without SentencePiece")

    def test_text_is_spoken_with_a_model_of_sentencepiece(self):
        self.needs_sentencepiece()
        texts = ["All human beings are born free", "Все люди рождаются", "人人生而自由"] * 30
        (self.folder / "docs.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        words = ["data", "import", "text", "docs.jsonl"]
        self.assertIn("560 symbols", self.succeed(*words, "text.h5", "--tokenizer", str(TINY / "llama.model")))
        llama = ["--set", "model.variant=llama", "--set", "model.mlp_width=32"]
        self.train_gpt("--set", "train.epochs=40", *llama)
        text = self.succeed("generate", "run", "--prompt", "All human", "--tokens", "60", "--temperature", "0")
        self.assertTrue(text.startswith("All human beings are born free</s> "), text)
        shown = json.loads(self.succeed("predict", "run", "text.h5", "--json", "--count", "1", "--top", "1"))
        self.assertIn("All human", shown[0]["end"])
        self.assertIn(shown[0]["label_text"], self.succeed("predict", "run", "text.h5", "--count", "1"))
        report = json.loads(self.succeed("evaluate", "run", "text.h5", "--json"))
        self.assertLess(report["perplexity"], 4)
        # To a folder of Hugging Face, and back
        self.succeed("checkpoint", "export", "run", "folder", "--for", "transformers")
        self.assertEqual((TINY / "llama.model").read_bytes(), (self.folder / "folder/tokenizer.model").read_bytes())
        self.assertEqual(json.loads((self.folder / "folder/tokenizer_config.json").read_text())["tokenizer_class"], "LlamaTokenizer")
        job = self.folder / "back.toml"
        job.write_text('[run]\ndir = "back"\n[model]\nname = "gpt"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 12\nvariant = "llama"\nmlp_width = 32\n')
        said = self.succeed("checkpoint", "import", "pretrained", "folder", "back.toml", "--sample", "12")
        self.assertIn("with its tokenizer.model", said)
        self.assertEqual(text, self.succeed("generate", "back", "--prompt", "All human", "--tokens", "60", "--temperature", "0"))
        self.assertEqual(report["loss"], json.loads(self.succeed("evaluate", "back", "text.h5", "--json"))["loss"])
        # A tokenizer that does not fit, or is none, is left out, and not the weights.
        model = (TINY / "llama.model").read_bytes()
        for content, why in (model + b"\n\x03\n\x01\x7f", "has 561 tokens, but the model 560"), (model[:100], "damaged"), (b"IQ== 0\n", "tiktoken"):
            (self.folder / "folder/tokenizer.model").write_bytes(content)
            said = self.succeed("checkpoint", "import", "pretrained", "folder", "back.toml", "--sample", "12", "--set", f"run.dir=other{len(content)}")
            self.assertRegex(said, f"the tokenizer is left out: .*{why}")
        self.fails(64, ["has no tokenizer"], "generate", "other100", "--prompt", "All")
        self.fails(78, ["another tokenizer"], "evaluate", "run", self.other_set())

    def other_set(self):
        (self.folder / "other.model").write_bytes((TINY / "llama.model").read_bytes() + b"\x1a\x02\x18\x01")
        self.succeed("data", "import", "text", "docs.jsonl", "other.h5", "--tokenizer", "other.model")
        return "other.h5"

    def test_documents_are_separated_and_divided_with_sentencepiece(self):
        self.needs_sentencepiece()
        line = "All human beings are born free and equal in dignity and rights. "
        (self.folder / "text").write_text(line * 20000 + "\n")  # 1.3 MB: two pieces
        (self.folder / "whole").mkdir()
        (self.folder / "whole/text").write_text(json.dumps({"text": line * 20000 + "\n"}) + "\n")
        words = ["--tokenizer", str(TINY / "llama.model")]
        sets = set()
        for more in ("text", "--threads", "1"), ("text", "--threads", "3"), ("whole/text", "--format", "jsonl"):
            self.succeed("data", "import", "text", more[0], "text.h5", "--force", *more[1:], *words)
            sets.add((self.folder / "text.h5").read_bytes())
        self.assertEqual(len(sets), 1, "a division changes no token")
        (self.folder / "docs.jsonl").write_text(json.dumps({"text": "a"}) + "\n")
        self.succeed("data", "import", "text", "docs.jsonl", "sep.h5", "--separator", "<sep>", *words)
        self.fails(78, ["the separator", "two words"], "data", "import", "text", "docs.jsonl", "x.h5", "--separator", "two words", *words)
        (self.folder / "damaged.model").write_bytes((TINY / "llama.model").read_bytes()[:-3])
        self.fails(78, ["damaged.model", "is damaged"], "data", "import", "text", "docs.jsonl", "x.h5", "--tokenizer", "damaged.model")

    def test_what_transformers_and_llama_cpp_have_no_tokenizer_for_is_said(self):
        self.needs_sentencepiece()
        (self.folder / "docs.txt").write_text("All human beings are born free\n" * 60)
        self.succeed("data", "import", "text", "docs.txt", "text.h5", "--tokenizer", str(TINY / "unigram.model"))
        self.train_gpt("--set", "model.gelu=tanh")
        self.assertIn("tokenizer_config.json is left out", self.succeed("checkpoint", "export", "run", "folder", "--for", "transformers"))
        self.assertEqual((TINY / "unigram.model").read_bytes(), (self.folder / "folder/tokenizer.model").read_bytes())
        self.assertFalse((self.folder / "folder/tokenizer_config.json").exists())
        self.assertIn("the tokenizer is left out: llama.cpp", self.succeed("checkpoint", "export", "run", "model.gguf"))
        self.assertTrue(self.succeed("generate", "run", "--prompt", "All human", "--tokens", "5").startswith("All human"))
        self.assertTrue(self.succeed("generate", "run", "--tokens", "5").startswith("</s>"), "the model removes the line end of the prompt")

    def test_what_does_not_go_together_is_refused(self):
        self.train_text()
        self.make_set()
        self.fails(78, ["takes (12) of 256"], "evaluate", "run", "set.h5")
        self.fails(64, ["outside the vocabulary 0 to 255"], "generate", "run", "--prompt-tokens", "300")
        self.fails(3, ["nowhere"], "generate", "nowhere")
        self.succeed("checkpoint", "export", "run", "weights.safetensors")
        self.succeed("checkpoint", "import", "safetensors", "weights.safetensors", "bare", "--weights")
        self.fails(4, ['has no entry "data.', "checkpoints that a run"], "generate", "bare")


if __name__ == "__main__":
    unittest.main()
