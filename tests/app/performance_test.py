# SPDX-License-Identifier: Apache-2.0
"""What a run computes and uses: FLOPs by formula against what oneDNN multiplies, utilization, memory, collectives."""
import json
import os
import re
import unittest

from program import ProgramTest

WARM_UP = 2  # steps of "distdl bench train" before those that it times
ROWS = 64  # queries that oneDNN's attention computes at once: a causal layer leaves out the keys that none of them sees
TOKENS = {"gpt": 256}  # of a sample, where attention is causal
# Of floats distdl computes convolutions of 3x3 itself, which oneDNN does not tell of.
BY_ONEDNN = ["--precision", "bf16"]
CASES = [("lenet", BY_ONEDNN), ("mlp", []), ("resnet18", BY_ONEDNN), ("vit", []), ("gpt", []), ("gpt", ["--recompute"]), ("gpt", ["--tensor-shards", "2"])]


def sizes(text):
    return {name: int(value) for name, value in re.findall(r"([a-z]+)(\d+)", text)}


def multiplied(line):
    """FLOPs of the product that a line tells of, and whether it is attention's."""
    fields = line.split(",")
    if fields[0] == "sgemm":
        m, n, k = map(int, fields[1].split("x"))
        return 2 * m * n * k, True
    executed = re.match(r"onednn_verbose,(?:v\d+,)?(?:primitive,)?exec,\w+,(\w+)", line)  # of 3.x with more words
    primitive = executed[1] if executed else ""
    if primitive in ("matmul", "deconvolution", "rnn"):
        raise AssertionError(f"not counted: {line}")
    if primitive not in ("convolution", "inner_product"):
        return 0, False
    size = sizes(fields[-2].replace("_", ""))
    if primitive == "inner_product":
        return 2 * size["mb"] * size["oc"] * size["ic"] * size.get("ih", 1) * size.get("iw", 1), False
    outputs = size["mb"] * size["oc"] * size["oh"] * size["ow"]
    return 2 * outputs * size["ic"] // size.get("g", 1) * size["kh"] * size["kw"], False


def seen(tokens):
    """The part of the pairs of queries and keys that a causal layer computes."""
    return sum(min(ROWS, tokens - top) * min(top + ROWS, tokens) for top in range(0, tokens, ROWS)) / tokens**2


class Formula(ProgramTest):
    def counted(self, model, *words):
        """The JSON of a benchmark, and the FLOPs of a step that oneDNN has computed, as if attention had computed all pairs."""
        variables = {"ONEDNN_VERBOSE": "1", "LD_PRELOAD": os.environ["COUNT_SGEMM_LIBRARY"]}
        out = self.succeed("bench", "train", "--model", model, "--backend", "onednn", "--batch", "1", "--steps", "1", "--json",
                           *words, variables=variables)
        lines, text = out[:out.index("{\n")].splitlines(), out[out.index("{\n"):]
        text = "\n".join(line for line in text.splitlines() if not line.startswith(("onednn_verbose", "sgemm")))
        found = [multiplied(line) for line in lines]
        part = seen(TOKENS[model]) if model in TOKENS else 1
        return json.loads(text), sum(flops / (part if attention else 1) for flops, attention in found) / (1 + WARM_UP)

    @unittest.skipUnless("COUNT_SGEMM_LIBRARY" in os.environ, "oneDNN is not built")
    def test_is_what_onednn_computes(self):
        print(f"\n{'model':<20}{'formula':>16}{'counted':>16}{'error':>9}")
        for model, words in CASES:
            with self.subTest(model=model, words=words):
                bench, counted = self.counted(model, *words)
                formula = bench["hardware_flops_per_sample"]
                print(f"{' '.join([model, *words]):<20}{formula:>16.0f}{counted:>16.0f}{100 * (formula / counted - 1):>8.3f}%")
                self.assertLess(abs(formula / counted - 1), 0.01)
                self.assertEqual(formula > bench["flops_per_sample"], "--recompute" in words)


class Resources(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def distdl(self, *words, **how):
        """No calibration."""
        return super().distdl(*words, variables={"XDG_CACHE_HOME": str(self.folder / "cache")}, **how)

    def test_of_a_run_are_told(self):
        out = self.succeed(*self.run_local(2))
        self.assertNotIn("MFU", out)
        started = next(row for row in self.rows("journal.jsonl") if row["event"] == "started")
        self.assertEqual(started["flops_per_sample"], 2 * 2 * 144 * 16 + 3 * 2 * 16 * 10)  # the first layer needs no gradient of its input
        self.assertNotIn("peak_flops_per_s", started)
        last = [row for row in self.rows("journal.jsonl") if row["event"] == "resources"][-1]
        weights = 4 * (144 * 16 + 16 + 16 * 10 + 10)
        self.assertTrue(weights <= last["parameter_bytes"] <= weights + 4 * 64, last)  # tensors begin on whole lines
        self.assertEqual(last["optimizer_bytes"], last["parameter_bytes"])  # momentum
        self.assertGreater(last["gradient_bytes"], last["parameter_bytes"])
        self.assertGreater(last["activation_bytes"], 4 * 4 * 16)
        self.assertGreater(last["workspace_bytes"], 4 * 4 * 144)
        self.assertGreater(last["peak_bytes"], last["parameter_bytes"])
        sums = dict(zip(last["collectives"], last["moved_bytes"]))["all_reduce"]
        self.assertGreater(sums, len(self.rows("metrics.jsonl")) * weights * 0.9)
        status = self.succeed("status", "run", "--verbose")
        self.assertRegex(status, r"(?m)^compute +10.2 kFLOP per sample; no MFU, .*distdl bench calibrate JOB")
        self.assertRegex(status, r"(?m)^memory +rank 0: parameters [\d.]+ KiB, .* in all, its process had up to [\d.]+ MiB$")
        self.assertRegex(status, r"(?m)^collectives rank 0, up to step \d+: all_reduce \d+ times, [\d.]+ [KM]iB, [\d.]+ [KMG]iB/s")
        told = json.loads(self.succeed("status", "run", "--json"))
        self.assertIsNone(told["mfu"])
        self.assertEqual(told["resources"]["peak_bytes"], last["peak_bytes"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
