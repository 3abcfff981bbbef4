#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers come in and go back: logits as there, and the same bits after the way back. Ends with 77 (skipped) where there is
no transformers."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

try:
    import numpy
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

from program import ProgramTest  # noqa: E402

TOKENIZERS = pathlib.Path(__file__).resolve().parents[1] / "tokenizer/tiny"
TOLERANCE = 1e-5  # of the largest logit
SMALL = {"vocab_size": 101, "bos_token_id": None, "eos_token_id": None}
LLAMA = {**SMALL, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 80,
         "max_position_embeddings": 20}
KEYS = {"name": "gpt", "layers": 2, "width": 48, "heads": 4, "kv_heads": 2, "mlp_width": 80, "context": 20, "variant": "llama"}
GPT2 = {**SMALL, "n_embd": 48, "n_layer": 2, "n_head": 3, "n_positions": 20}


class Transformers(ProgramTest):
    def there_and_back(self, config, keys):
        torch.manual_seed(3)
        kind = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for value in kind.parameters():
                value.add_(torch.randn_like(value) * 0.2)
        kind.save_pretrained(self.folder / "there", max_shard_size="30KB")
        self.assertTrue(len(list((self.folder / "there").glob("*.safetensors"))) > 1)
        lines = ["[run]", 'dir = "run"', "[model]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
        (self.folder / "job.toml").write_text("\n".join(lines) + "\n")
        self.succeed("checkpoint", "import", "pretrained", "there", "job.toml", "--sample", "20")
        tokens = torch.randint(0, 101, (3, 20))
        with torch.no_grad():
            expected = kind(tokens).logits.numpy()
        tokens.numpy().astype("<i4").tofile(self.folder / "samples")
        subprocess.run([os.environ["LOGITS_DRIVER"], "run", "3", "samples", "logits"], cwd=self.folder, check=True)
        found = numpy.fromfile(self.folder / "logits", "<f4").reshape(expected.shape)
        apart = float(numpy.abs(found - expected).max() / numpy.abs(expected).max())
        print(f"{type(kind).__name__}: logits up to {numpy.abs(expected).max():.1f}, at most {apart:.1e} of it apart", flush=True)
        self.assertLess(apart, TOLERANCE)

        torch.save({"model": kind.state_dict(), "step": 3}, self.folder / "saved.pt")
        self.succeed("checkpoint", "import", "pretrained", "saved.pt", "job.toml", "--sample", "20", "--set", "run.dir=saved")
        self.assertEqual(*(self.succeed("checkpoint", "digest", f"{run}/checkpoints").split()[0] for run in ("run", "saved")))

        self.succeed("checkpoint", "export", "run", "back", "--for", "transformers")
        back = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "back").eval()
        for (name, value), (again, other) in zip(kind.state_dict().items(), back.state_dict().items(), strict=True):
            self.assertEqual((name, True), (again, torch.equal(value, other)))
        with torch.no_grad():
            self.assertTrue(torch.equal(back(tokens).logits, kind(tokens).logits))

    def test_gpt2(self):
        keys = {"name": "gpt", "layers": 2, "width": 48, "heads": 3, "context": 20}
        self.there_and_back(transformers.GPT2Config(**GPT2), keys)

    def test_gpt2_with_other_sizes(self):
        keys = {"name": "gpt", "layers": 2, "width": 48, "heads": 3, "context": 20, "mlp_width": 64, "gelu": "erf", "norm_epsilon": 1e-3}
        self.there_and_back(transformers.GPT2Config(**GPT2, n_inner=64, activation_function="gelu", layer_norm_epsilon=1e-3), keys)

    def test_llama(self):
        parameters = {"rope_theta": 500000.0, "rope_type": "default"}
        self.there_and_back(transformers.LlamaConfig(**LLAMA, rope_parameters=parameters),
                            {**KEYS, "tied_head": False, "rotary_base": 500000, "norm_epsilon": 1e-6})

    def test_mistral(self):
        self.there_and_back(transformers.MistralConfig(**LLAMA, sliding_window=20),
                            {**KEYS, "tied_head": False, "norm_epsilon": 1e-6})

    def test_qwen2_with_a_shared_table(self):
        self.there_and_back(transformers.Qwen2Config(**LLAMA, tie_word_embeddings=True), {**KEYS, "qkv_bias": True, "norm_epsilon": 1e-6})


    def test_tokenizer_of_llama(self):
        if "sentencepiece" not in json.loads(self.succeed("version", "--json"))["libraries"]:
            self.skipTest("distdl was built without SentencePiece")
        (self.folder / "there").mkdir()
        shutil.copy(TOKENIZERS / "llama.model", self.folder / "there/tokenizer.model")
        parameters = {"rope_theta": 500000.0, "rope_type": "default"}
        self.there_and_back(transformers.LlamaConfig(**{**LLAMA, "vocab_size": 560}, rope_parameters=parameters),
                            {**KEYS, "tied_head": False, "rotary_base": 500000, "norm_epsilon": 1e-6})
        theirs = transformers.AutoTokenizer.from_pretrained(self.folder / "back")
        expected = json.loads((TOKENIZERS / "expected_sentencepiece.json").read_text())
        for text, numbers in zip(expected["texts"], expected["llama"]["tokens"]):
            if "<" not in text and not text.startswith(" "):  # it finds its special tokens in texts, and puts no space before one
                self.assertEqual(numbers, theirs(text)["input_ids"], text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
