#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX files of all models: onnxruntime's logits are those of distdl. Ends with 77 (skipped) where there is no onnxruntime.

By hand: DISTDL_BUILD_DIR=... LOGITS_DRIVER=$DISTDL_BUILD_DIR/tests/app/logits_driver python3 onnx_test.py"""
import json
import os
import subprocess
import sys
import unittest

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

from program import ProgramTest  # noqa: E402

TOLERANCE = 1e-5  # of the largest logit
SAMPLES, TOKENS, VOCABULARY = 3, 20, 101
GPT = {"name": "gpt", "layers": 2, "width": 48, "heads": 4, "context": 32, "dropout": 0.1}
LLAMA = {**GPT, "variant": "llama", "mlp_width": 80}


class Onnx(ProgramTest):
    def train(self, model, **settings):
        """A few steps, so that no value is what it began with."""
        keys = {**{f"model.{key}": value for key, value in model.items()}, "data.train": "set.h5", "data.holdout": 0, "train.epochs": 1,
                "train.steps": 3, "train.seed": 5, "optim.learning_rate": 0.05, **settings}
        (self.folder / "job.toml").write_text("[run]\ndir = \"run\"\n[parallel]\nmicrobatches = 1\nmicrobatch_size = 8\n")
        words = [word for key, value in keys.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        self.succeed(*self.run_local(1, *words))

    def own_logits(self, samples):
        samples.tofile(self.folder / "samples")
        subprocess.run([os.environ["LOGITS_DRIVER"], "run", str(len(samples)), "samples", "logits"], cwd=self.folder, check=True)
        return numpy.fromfile(self.folder / "logits", "<f4")

    def compare(self, what, found, expected):
        self.assertEqual(expected.shape, found.shape)
        apart = float(numpy.abs(found - expected).max() / numpy.abs(expected).max())
        print(f"{what}: logits up to {numpy.abs(expected).max():.2f}, at most {apart:.1e} of it apart", flush=True)
        self.assertLess(apart, TOLERANCE)

    def exported(self):
        self.succeed("checkpoint", "export", "run", "model.onnx", "--force")
        file = str(self.folder / "model.onnx")
        onnx.checker.check_model(file, full_check=True)
        model = onnx.load(file)
        self.assertEqual((8, 17), (model.ir_version, model.opset_import[0].version))
        return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])

    def images(self, model, size=12, channels=1, **settings):
        (self.folder / "set.h5").unlink(missing_ok=True)
        self.succeed("data", "make", "shapes", "set.h5", "--samples", "40", "--size", str(size), "--channels", str(channels))
        self.train(model, **settings)
        session = self.exported()
        self.assertEqual([("input", ["batch", channels, size, size])], [(each.name, each.shape) for each in session.get_inputs()])
        samples = numpy.random.default_rng(1).standard_normal((SAMPLES, channels, size, size), "float32")
        expected = self.own_logits(samples).reshape(SAMPLES, -1)
        self.compare(model["name"], session.run(["logits"], {"input": samples})[0], expected)
        self.compare("one sample", session.run(["logits"], {"input": samples[:1]})[0], expected[:1])

    def tokens(self, model, **settings):
        rng = numpy.random.default_rng(1)
        rng.integers(0, VOCABULARY, 4000).astype("<u2").tofile(self.folder / "tokens")
        self.succeed("data", "import", "tokens", "tokens", "set.h5", "--vocabulary", str(VOCABULARY))
        self.train(model, **settings)
        session = self.exported()
        self.assertEqual([("input_ids", ["batch", "sequence"], "tensor(int64)")],
                         [(each.name, each.shape, each.type) for each in session.get_inputs()])
        samples = rng.integers(0, VOCABULARY, (SAMPLES, model["context"]))
        expected = self.own_logits(samples.astype("<i4")).reshape(SAMPLES, model["context"], VOCABULARY)
        self.compare(f"gpt {model}", session.run(["logits"], {"input_ids": samples})[0], expected)
        self.compare("shorter ones", session.run(["logits"], {"input_ids": samples[:2, :TOKENS]})[0], expected[:2, :TOKENS])

    def test_mlp(self):
        self.images({"name": "mlp", "hidden": [16, 12], "batch_norm": True})

    def test_lenet(self):
        self.images({"name": "lenet", "hidden": [16], "batch_norm": True}, size=13, channels=3)

    def test_averaged_weights(self):
        self.images({"name": "lenet", "hidden": [16]}, **{"optim.ema_decay": 0.5})

    def test_resnet18(self):
        self.images({"name": "resnet18", "stem": "imagenet"}, size=64, channels=3)

    def test_resnet50(self):
        self.images({"name": "resnet50"}, size=16)

    def test_vit(self):
        self.images({"name": "vit", "layers": 2, "width": 24, "heads": 3, "patch": 4, "dropout": 0.1}, channels=3)

    def test_gpt2(self):
        self.tokens(GPT)

    def test_gpt2_with_other_layers(self):
        self.tokens({**GPT, "gelu": "erf", "tied_head": False, "mlp_width": 64})

    def test_llama(self):
        self.tokens({**LLAMA, "kv_heads": 2, "tied_head": False, "rotary_base": 500000})

    def test_qwen2(self):
        self.tokens({**LLAMA, "qkv_bias": True})


if __name__ == "__main__":
    unittest.main(verbosity=2)
