# SPDX-License-Identifier: Apache-2.0
"""Short runs without tensor shards end with the digests that are kept here: a change of the bytes of such runs is noticed.

The backend "reference" gives the same bytes on each processor with the same functions of the C library. The bytes of oneDNN also
depend on its version and on the processor. So a digest is kept with all of these; where none is known, the test shows what to add
and is skipped, but for the reference on Debian 12 and 13, where it fails. After a change of bytes that is meant:
  DISTDL_BUILD_DIR=build python3 tests/app/golden_bytes_test.py -v
"""
import json
import unittest

from bits import library, processor
from program import ProgramTest

MODELS = {
    "gpt": {"data.train": "text.h5", "data.holdout": 33, "model.name": "gpt", "model.layers": 2, "model.width": 16, "model.heads": 2,
            "model.context": 16, "model.dropout": 0.1, "optim.name": "adamw", "optim.learning_rate": 0.01, "optim.clip_norm": 0.5},
    "mlp": {"model.batch_norm": "true"},
    "resnet18": {"model.name": "resnet18", "parallel.microbatches": 2},
}
COMMON = {"train.steps": 5, "train.evaluate_every": 0, "checkpoint.every": 0}
DEBIAN = ("with FMA, glibc 2.36", "with FMA, glibc 2.41")
# By backend, as checkpoints name it, and by place: SHA-256 of all tensors after the last step.
GOLDEN = {
    "reference: plain loops, 1 thread; with FMA, glibc 2.36": {
        "gpt": "5c1eee67e015c6809e9fff070e7e8e176d7d30a0363464fd168712f4af1edef4",
        "mlp": "b5c644ebcacdce8e60050d40ceb76e6b0ec653c7f8eb31f390bbb5657710c634",
    },
    "reference: plain loops, 1 thread; with FMA, glibc 2.41": {
        "gpt": "5c1eee67e015c6809e9fff070e7e8e176d7d30a0363464fd168712f4af1edef4",
        "mlp": "b5c644ebcacdce8e60050d40ceb76e6b0ec653c7f8eb31f390bbb5657710c634",
    },
    "onednn: oneDNN 2.6.3 + Winograd of distdl, avx512_core_bf16, 1 thread; with FMA, glibc 2.36, AuthenticAMD 26 2": {
        "gpt": "164dc5b9de770255e067f395bcc907ca742871f23f3858f0ea618fb4271f039f",
        "mlp": "be2c2a07d6349c662fcc0215f37d037c593339b2d7e165394a5e66b2055ef72c",
        "resnet18": "2c6d9238cce60777ee67bb1b6a345c9b70a467eb64a9bd38746f9957e8d8ca1b",
    },
    "onednn: oneDNN 2.6.3 + Winograd of distdl, avx512_core_bf16, 1 thread; with FMA, glibc 2.36, AuthenticAMD 25 17": {
        "gpt": "164dc5b9de770255e067f395bcc907ca742871f23f3858f0ea618fb4271f039f",
        "mlp": "be2c2a07d6349c662fcc0215f37d037c593339b2d7e165394a5e66b2055ef72c",
        "resnet18": "2c6d9238cce60777ee67bb1b6a345c9b70a467eb64a9bd38746f9957e8d8ca1b",
    },
    "onednn: oneDNN 3.7.2 + Winograd of distdl, avx512_core_bf16, 1 thread; with FMA, glibc 2.41, AuthenticAMD 25 17": {
        "gpt": "164dc5b9de770255e067f395bcc907ca742871f23f3858f0ea618fb4271f039f",
        "mlp": "0a37193eab8f3f587feef745a838548bff0ac937ab58c7792eb16ead80521c80",
    },
}


def kind_of_processor():
    names = ("CPU implementer", "CPU part") if "CPU part" in processor() else ("vendor_id", "cpu family", "model")
    return " ".join(processor().get(name, "?") for name in names)


def entry(key, digests):
    lines = "".join(f'        "{model}": "{digest}",\n' for model, digest in digests.items())
    return f'    "{key}": {{\n{lines}    }},'


class GoldenBytes(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()
        (self.folder / "text").write_bytes(bytes(97 + i * i % 23 for i in range(4000)))
        self.succeed("data", "import", "text", "text", "text.h5")

    def train(self, backend, model, **more):
        """The backend as the checkpoint names it, and the digest."""
        keys = {**COMMON, **MODELS[model], "kernels.backend": backend, "run.dir": model, **more}
        run = self.start(*self.run_local(2, *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))))
        code, out, err = self.finish(run, within=600)  # a busy machine takes minutes for resnet18
        self.assertEqual(code, 0, out + err)
        return json.loads(self.succeed("checkpoint", "show", model, "--json"))["state"]["backend"], self.digest(model).split()[-1]

    def check(self, backend, models, place):
        runs = {model: self.train(backend, model) for model in models}
        names = {name for name, _ in runs.values()}
        self.assertEqual(len(names), 1, names)
        key = f"{names.pop()}; {place}"
        found = {model: digest for model, (_, digest) in runs.items()}
        if key in GOLDEN:
            self.assertEqual(found, GOLDEN[key], f"other bytes than before. If that is meant, put this into GOLDEN:\n{entry(key, found)}")
            return
        unknown = f"no digest is known here. If these are right, add them to GOLDEN:\n{entry(key, found)}"
        if backend == "reference" and place in DEBIAN:
            self.fail(unknown)
        self.skipTest(unknown)

    def test_reference(self):
        self.check("reference", ("gpt", "mlp"), library())

    def test_the_backend_of_this_machine(self):
        self.check("auto", ("gpt", "mlp", "resnet18"), f"{library()}, {kind_of_processor()}")

    def test_several_devices_of_a_rank_change_no_byte(self):
        one = self.train("auto", "gpt")
        self.assertEqual(self.train("auto", "gpt", **{"run.devices_per_rank": 2, "run.dir": "run"})[0], one[0])
        self.assertEqual(self.digest().split()[-1], one[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
