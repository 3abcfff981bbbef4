#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GGUF files: gguf reads them, and transformers makes the logits of distdl of them. Ends with 77 (skipped) where there is no gguf.

By hand: as onnx_test.py."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

try:
    import gguf
    import numpy
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)
try:
    import accelerate  # noqa: F401  # transformers needs it for GGUF
    import torch
    import transformers
except ImportError as error:
    torch, MISSING = None, str(error)
else:
    MISSING = None

from program import ProgramTest  # noqa: E402

TOLERANCE = 1e-5  # of the largest logit
SAMPLES, CONTEXT = 3, 20
GPT = {"name": "gpt", "layers": 2, "width": 48, "heads": 4, "context": CONTEXT}
LLAMA = {**GPT, "variant": "llama", "mlp_width": 80, "kv_heads": 2}
TOKENIZERS = pathlib.Path(__file__).resolve().parents[1] / "tokenizer/tiny"
ENGLISH = "Documents of words, numbers like 3 and 1234, and  spaces.\n" * 60


class Gguf(ProgramTest):
    def train(self, model, tokenizer):
        """A few steps, so that no value is what it began with."""
        (self.folder / "text").write_text(ENGLISH)
        self.succeed("data", "import", "text", "text", "set.h5", "--tokenizer", str(TOKENIZERS / tokenizer))
        keys = {**{f"model.{key}": value for key, value in model.items()}, "data.train": "set.h5", "data.holdout": 0, "train.epochs": 1,
                "train.steps": 3, "optim.learning_rate": 0.05}
        (self.folder / "job.toml").write_text("[run]\ndir = \"run\"\n[parallel]\nmicrobatches = 1\nmicrobatch_size = 2\n")
        words = [word for key, value in keys.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        self.succeed(*self.run_local(1, *words))

    def own_logits(self, samples):
        samples.astype("<i4").tofile(self.folder / "samples")
        subprocess.run([os.environ["LOGITS_DRIVER"], "run", str(len(samples)), "samples", "logits"], cwd=self.folder, check=True)
        return numpy.fromfile(self.folder / "logits", "<f4").reshape(*samples.shape, -1)

    def read(self, architecture):
        """The fields of the file and its tensors."""
        self.succeed("checkpoint", "export", "run", "model.gguf", "--force")
        reader = gguf.GGUFReader(self.folder / "model.gguf")
        fields = {name: field.contents() for name, field in reader.fields.items()}
        self.assertEqual(architecture, fields["general.architecture"])
        known = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture.upper()), 2)
        tensors = {tensor.name: tensor for tensor in reader.tensors}
        for name in tensors:
            self.assertEqual(name, known.get_name(name, (".weight", ".bias")))
        return fields, tensors

    def tokenizer_is_that_of_the_set(self, fields, tokenizer, pre):
        document = json.loads((TOKENIZERS / tokenizer).read_text())
        tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
        self.assertEqual(("gpt2", pre, False), tuple(fields[f"tokenizer.ggml.{key}"] for key in ("model", "pre", "add_bos_token")))
        for token, number in document["model"]["vocab"].items():
            self.assertEqual(token, tokens[number])
        for added in document["added_tokens"]:
            self.assertEqual((added["content"], 3 if added["special"] else 4), (tokens[added["id"]], kinds[added["id"]]))
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in document["model"]["merges"]]
        self.assertEqual(merges, fields["tokenizer.ggml.merges"])

    def same_in_transformers(self, config=None):
        if torch is None:
            self.skipTest(MISSING)
        rows = self.rows_of_table
        samples = numpy.random.default_rng(1).integers(0, rows, (SAMPLES, CONTEXT))
        expected = self.own_logits(samples)
        kind = transformers.AutoModelForCausalLM.from_pretrained(self.folder, gguf_file="model.gguf", dtype=torch.float32, config=config)
        with torch.no_grad():
            found = kind.eval()(torch.from_numpy(samples)).logits.numpy()
        apart = float(numpy.abs(found - expected).max() / numpy.abs(expected).max())
        print(f"{type(kind).__name__}: logits up to {numpy.abs(expected).max():.1f}, at most {apart:.1e} of it apart", flush=True)
        self.assertLess(apart, TOLERANCE)

    def test_gpt2(self):
        self.train(GPT, "gpt2.json")
        fields, tensors = self.read("gpt2")
        self.tokenizer_is_that_of_the_set(fields, "gpt2.json", "gpt-2")
        self.rows_of_table = len(fields["tokenizer.ggml.tokens"])
        self.assertEqual([self.rows_of_table, 48], list(reversed(tensors["token_embd.weight"].shape)))
        config = torch and transformers.GPT2Config(n_embd=48, n_layer=2, n_head=4, n_positions=CONTEXT, vocab_size=self.rows_of_table)
        self.same_in_transformers(config)

    def test_llama(self):
        self.train({**LLAMA, "tied_head": False, "rotary_base": 500000}, "llama3.json")
        fields, tensors = self.read("llama")
        self.tokenizer_is_that_of_the_set(fields, "llama3.json", "llama-bpe")
        self.rows_of_table = len(fields["tokenizer.ggml.tokens"])
        self.assertIn("output.weight", tensors)
        self.same_in_transformers()

    def test_llama_with_a_model_of_sentencepiece(self):
        if "sentencepiece" not in json.loads(self.succeed("version", "--json"))["libraries"]:
            self.skipTest("distdl was built without SentencePiece")
        self.train({**LLAMA, "tied_head": False}, "llama.model")
        fields, _ = self.read("llama")
        tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
        self.assertEqual(("llama", True, False), tuple(fields[f"tokenizer.ggml.{key}"] for key in ("model", "add_space_prefix", "add_bos_token")))
        self.assertEqual(["<unk>", "<s>", "</s>"], tokens[:3])
        self.assertEqual([2, 3, 3, 3, 4], kinds[:5])
        self.assertEqual((0, 1, 2), tuple(fields[f"tokenizer.ggml.{key}_token_id"] for key in ("unknown", "bos", "eos")))
        self.assertEqual(6, kinds[tokens.index("<0x0A>")])
        scores = fields["tokenizer.ggml.scores"]
        self.assertEqual((560, 560), (len(tokens), len(scores)))
        self.rows_of_table = len(tokens)
        self.same_in_transformers()
        theirs = transformers.AutoTokenizer.from_pretrained(self.folder, gguf_file="model.gguf")
        expected = json.loads((TOKENIZERS / "expected_sentencepiece.json").read_text())
        for text, numbers in zip(expected["texts"], expected["llama"]["tokens"]):
            if "<" not in text and not text.startswith(" "):  # its special tokens are found in texts
                self.assertEqual(numbers, theirs(text, add_special_tokens=False)["input_ids"], text)

    def test_qwen2_and_rounded_matrices(self):
        self.train({**LLAMA, "qkv_bias": True}, "qwen.json")
        fields, tensors = self.read("qwen2")
        self.tokenizer_is_that_of_the_set(fields, "qwen.json", "qwen2")
        self.rows_of_table = len(fields["tokenizer.ggml.tokens"])
        self.assertNotIn("output.weight", tensors)
        self.same_in_transformers()
        for name, kind, most in (("bf16", gguf.GGMLQuantizationType.BF16, 2**-8), ("f16", gguf.GGMLQuantizationType.F16, 2**-11)):
            self.succeed("checkpoint", "export", "run", "half.gguf", "--for", "gguf", "--type", name, "--force")
            for tensor in gguf.GGUFReader(self.folder / "half.gguf").tensors:
                exact = gguf.dequantize(tensors[tensor.name].data, tensors[tensor.name].tensor_type)
                found = gguf.dequantize(tensor.data, tensor.tensor_type)
                if len(tensor.shape) == 1 or tensor.name == "position_embd.weight":
                    self.assertTrue(numpy.array_equal(exact, found))
                    continue
                self.assertEqual(kind, tensor.tensor_type)
                self.assertTrue(numpy.all(numpy.abs(found - exact) <= most * numpy.abs(exact) + 1e-7))

    def test_what_llama_cpp_does_not_have_is_refused(self):
        self.train({**GPT, "gelu": "erf"}, "gpt2.json")
        self.fails(64, ["h.*.mlp.act", "model.gelu"], "checkpoint", "export", "run", "model.gguf")


if __name__ == "__main__":
    unittest.main(verbosity=2)
