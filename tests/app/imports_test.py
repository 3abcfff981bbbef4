# SPDX-License-Identifier: Apache-2.0
"""What others' programs write, as users bring it: taken for what it is, or refused by name; and nothing that is read is replaced."""
import collections
import itertools
import json
import math
import os
import struct
import unittest
import zipfile

import torch_file
from program import ProgramTest

GPT = ("model.name=gpt", "model.layers=1", "model.width=8", "model.heads=2", "model.context=4")


def safetensors(tensors, metadata=...):
    """{name: (type, shape, bytes)}"""
    header, data = {} if metadata is ... else {"__metadata__": metadata}, b""
    for name, (kind, shape, values) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def floats(*shape, value=0.01):
    return "F32", list(shape), struct.pack("<f", value) * math.prod(shape)


def gpt2(vocabulary, width=8, context=4, prefix="transformer."):
    """A GPT-2 of one layer under Hugging Face's names."""
    block = {"ln_1.weight": [width], "ln_1.bias": [width], "attn.c_attn.weight": [width, 3 * width], "attn.c_attn.bias": [3 * width],
             "attn.c_proj.weight": [width, width], "attn.c_proj.bias": [width], "ln_2.weight": [width], "ln_2.bias": [width],
             "mlp.c_fc.weight": [width, 4 * width], "mlp.c_fc.bias": [4 * width], "mlp.c_proj.weight": [4 * width, width],
             "mlp.c_proj.bias": [width]}
    shapes = {"wte.weight": [vocabulary, width], "wpe.weight": [context, width], **{f"h.0.{name}": shape for name, shape in block.items()},
              "ln_f.weight": [width], "ln_f.bias": [width]}
    return {prefix + name: floats(*shape) for name, shape in shapes.items()}


class Imports(ProgramTest):
    def tensors_of_gguf(self, file):
        """The names in their order, and {name: (shape, bytes)}, by the published layout alone; all are of float32."""
        data = (self.folder / file).read_bytes()
        self.assertEqual((b"GGUF", 3), struct.unpack_from("<4sI", data))
        count, keys = struct.unpack_from("<QQ", data, 8)
        at = 24

        def text():
            nonlocal at
            size, = struct.unpack_from("<Q", data, at)
            at += 8 + size
            return data[at - size:at].decode()
        for _ in range(keys):
            text()
            kind, = struct.unpack_from("<I", data, at)
            at += 4
            text() if kind == 8 else self.assertIn(kind, (4, 6, 7))
            at += {4: 4, 6: 4, 7: 1, 8: 0}[kind]
        places = {}
        for _ in range(count):
            name = text()
            size, = struct.unpack_from("<I", data, at)
            *shape, kind, place = struct.unpack_from(f"<{size}QIQ", data, at + 4)
            self.assertEqual((0, 0), (kind, place % 32))
            places[name] = (shape[::-1], place)
            at += 16 + 8 * size
        begin = (at + 31) // 32 * 32
        return list(places), {name: (shape, data[begin + place:begin + place + 4 * math.prod(shape)]) for name, (shape, place) in places.items()}

    def settings(self, *pairs):
        return [word for pair in (*GPT, *pairs) for word in ("--set", pair)]

    def bring(self, file, *words, settings=()):
        return ("checkpoint", "import", "pretrained", file, "job.toml", *words, *self.settings(*settings))

    def text_set(self):
        (self.folder / "text").write_bytes(bytes(i * 7 % 251 for i in range(2000)))
        self.succeed("data", "import", "text", "text", "text.h5")

    def test_nothing_that_is_read_is_replaced(self):
        self.make_set()
        self.succeed(*self.run_local(1))
        os.link(self.folder / "set.h5", self.folder / "other-name.h5")
        checkpoint = next((self.folder / "run/checkpoints").glob("step-*/*.h5"))
        (self.folder / "text").write_text("some text")
        kept = {file: file.read_bytes() for file in self.folder.rglob("*") if file.is_file() and "state" not in file.parts}
        for words in (("data", "import", "text", "text", "text"), ("data", "import", "text", "text", "./text"),
                      ("data", "import", "idx", "set.h5", "text", "text"), ("init", "set.h5", "-o", "set.h5"),
                      ("init", "set.h5", "-o", "other-name.h5"), ("init", "set.h5", "--validation", "text", "-o", "text"),
                      ("checkpoint", "export", "run", str(checkpoint), "--format", "npz"),
                      ("checkpoint", "export", "run", "run/checkpoints/OWNER", "--format", "safetensors")):
            self.fails(64, ["what is read; write to another file"], *words, "--force")
        for file in ("run/metrics.jsonl", "job.toml"):
            self.fails(64, ["is no report"], "report", "run", "-o", file)
        self.assertEqual(kept, {file: file.read_bytes() for file in kept})
        self.succeed("report", "run", "-o", "page.html")
        self.succeed("report", "run", "-o", "page.html")

    def llama(self, folder, config=(), without=()):
        """A folder as transformers writes it, with values that are all unlike."""
        width, keys, hidden = 8, 4, 24
        block = {"self_attn.q_proj.weight": [width, width], "self_attn.k_proj.weight": [keys, width], "self_attn.v_proj.weight": [keys, width],
                 "self_attn.o_proj.weight": [width, width], "mlp.gate_proj.weight": [hidden, width], "mlp.up_proj.weight": [hidden, width],
                 "mlp.down_proj.weight": [width, hidden], "input_layernorm.weight": [width], "post_attention_layernorm.weight": [width]}
        shapes = {"model.embed_tokens.weight": [30, width], **{f"model.layers.0.{name}": shape for name, shape in block.items()},
                  "model.norm.weight": [width], "lm_head.weight": [30, width]}
        values = itertools.count(1)
        tensors = {name: ("F32", shape, struct.pack(f"<{math.prod(shape)}f", *(next(values) / 4096 for _ in range(math.prod(shape)))))
                   for name, shape in shapes.items() if name not in without}
        (self.folder / folder).mkdir(exist_ok=True)
        (self.folder / folder / "model.safetensors").write_bytes(safetensors(tensors))
        said = {"model_type": "llama", "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
                "intermediate_size": hidden, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
                "max_position_embeddings": 4, **dict(config)}
        (self.folder / folder / "config.json").write_text(json.dumps(said))
        return tensors

    def test_llama_comes_from_transformers_and_goes_back(self):
        keys = ("model.variant=llama", "model.kv_heads=1", "model.mlp_width=24", "model.rotary_base=500000", "model.tied_head=false")
        tensors = self.llama("hub")
        self.fails(4, ["describes another model than the job", "num_key_value_heads is 1 (model.kv_heads is 2)", "rope_theta is 500000.0",
                       'set model.variant = "llama"', "model.kv_heads = 1", "model.mlp_width = 24", "model.rotary_base = 500000",
                       "model.tied_head = false"], *self.bring("hub", "--sample", "4"))
        self.succeed(*self.bring("hub", "--sample", "4", settings=keys))
        self.assertIn("parameter/h.0.attn.c_attn.weight", self.succeed("checkpoint", "show", "run"))
        self.succeed("checkpoint", "export", "run", "back", "--for", "transformers")
        self.assertEqual(self.tensors_of("back/model.safetensors"), tensors)
        self.succeed(*self.bring("back", "--sample", "4", settings=[*keys, "run.dir=again"]))
        for words in (("--for", "torchvision"), ("--for", "timm")):
            self.fails(64, ['the model is "gpt"', "--for transformers"], "checkpoint", "export", "run", "x.safetensors", *words)
        self.fails(64, ["config.json", "exists"], "checkpoint", "export", "run", "back", "--for", "transformers")
        self.fails(64, ["--for transformers writes a folder"], "checkpoint", "export", "run", "job.toml", "--for", "transformers")

        self.succeed("checkpoint", "export", "run", "model.gguf")
        names, found = self.tensors_of_gguf("model.gguf")
        self.assertEqual(["token_embd.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight",
                          "blk.0.attn_output.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
                          "blk.0.ffn_down.weight", "output_norm.weight", "output.weight"], names)
        self.assertEqual(found["blk.0.attn_v.weight"], tensors["model.layers.0.self_attn.v_proj.weight"][1:])
        rows = struct.unpack("<64f", tensors["model.layers.0.self_attn.q_proj.weight"][2])
        order = [head + half + pair for head in (0, 4) for pair in range(2) for half in (0, 2)]  # as convert_hf_to_gguf.py has pairs
        self.assertEqual(([8, 8], tuple(value for row in order for value in rows[8 * row:8 * row + 8])),
                         (found["blk.0.attn_q.weight"][0], struct.unpack("<64f", found["blk.0.attn_q.weight"][1])))
        for about, words in ((["--for onnx writes onnx"], ("x.npz", "--for", "onnx", "--format", "npz")),
                             (["leave out --names"], ("x", "--for", "onnx", "--names", "pytorch")),
                             (["onnx has names of its own"], ("x.onnx", "--names", "pytorch")),
                             (["gguf has names of its own"], ("x.gguf", "--tensors", "*")),
                             (["--type is for GGUF"], ("x.onnx", "--type", "f16")), (["exists"], ("model.gguf",))):
            self.fails(64, about, "checkpoint", "export", "run", *words)

        def refused(about, config=(), without=(), settings=()):
            self.llama("other", config, without)
            self.fails(4, about, *self.bring("other", "--sample", "4", settings=[*keys, "run.dir=other-run", *settings]))
        part = "model.layers.0.self_attn.k_proj.weight"
        refused(['of "h.0.attn.c_attn.weight" it has 2 of 3 parts'], without=[part])
        for member, value in (("sliding_window", 2), ("head_dim", 8), ("hidden_act", "gelu"), ("attention_bias", True), ("mlp_bias", True),
                              ("rope_scaling", {"rope_type": "llama3", "factor": 8.0})):
            refused([f"{member} is {json.dumps(value, separators=(',', ':'))}, which no model here has"],
                    {"model_type": "mistral" if member == "sliding_window" else "llama", member: value})
        refused(["model_type is \"gemma\"", "known are gpt2, llama"], {"model_type": "gemma"})
        refused(["it knows 2 places (model.context is 4)"], {"max_position_embeddings": 2})
        refused(["model.layers.0.self_attn.v_proj.weight", "3 parts have 16 rows"], {"num_key_value_heads": 2},
                settings=["model.kv_heads=2"])

    def tensors_of(self, file):
        """As safetensors() takes them."""
        raw = (self.folder / file).read_bytes()
        length, = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8:8 + length])
        return {name: (at["dtype"], at["shape"], raw[8 + length + at["data_offsets"][0]:8 + length + at["data_offsets"][1]])
                for name, at in header.items() if name != "__metadata__"}

    def test_files_of_torch_save(self):
        """As nanoGPT writes them: a dictionary with the state_dict as one of its members. Nothing in them is executed."""
        tensors = gpt2(30, prefix="_orig_mod.transformer.")
        dense = {name: torch_file.dense(raw, shape, str(i)) for i, (name, (_, shape, raw)) in enumerate(tensors.items())}
        square = "_orig_mod.transformer.h.0.attn.c_proj.weight"
        values = struct.pack("<80f", *(i / 64 for i in range(80)))
        dense[square] = torch_file.Tensor(("view", values), (8, 8), (1, 8), 16)  # the transposed of a part of another one
        checkpoint = {"step": 12, "args": {"layers": 1, "rate": 0.1}, "model": collections.OrderedDict(dense), "none": None}
        for protocol in (2, 4):
            torch_file.save(checkpoint, self.folder / f"{protocol}.pt", protocol)
            self.succeed(*self.bring(f"{protocol}.pt", "--sample", "4", settings=[f"run.dir=run{protocol}"]))
            self.succeed("checkpoint", "export", f"run{protocol}", f"{protocol}.safetensors", "--names", "pytorch")
            found = self.tensors_of(f"{protocol}.safetensors")
            twice_turned = struct.pack("<64f", *((16 + i) / 64 for i in range(64)))  # GPT-2's matrices are (in, out) there
            self.assertEqual(("F32", [8, 8], twice_turned), found["transformer.h.0.attn.c_proj.weight"])
            self.assertEqual(tensors["_orig_mod.transformer.wpe.weight"], found["transformer.wpe.weight"])
        (self.folder / "hub").mkdir()
        (self.folder / "2.pt").rename(self.folder / "hub/pytorch_model.bin")
        self.succeed(*self.bring("hub", "--sample", "4", settings=["run.dir=hub-run"]))

        marker = self.folder / "executed"

        class Hostile:
            def __reduce__(self):
                return os.system, (f"touch {marker}",)

        def refused(code, about, value, **how):
            torch_file.save(value, self.folder / "other.pt", **how)
            self.fails(code, about, *self.bring("other.pt", "--sample", "4", settings=["run.dir=other"]))
        torch_file.save({**checkpoint, "hook": Hostile()}, self.folder / "hostile.pt")
        self.succeed(*self.bring("hostile.pt", "--sample", "4", settings=["run.dir=hostile"]))
        refused(4, ["an object of the class", "system", "save model.state_dict()"], Hostile())
        self.assertFalse(marker.exists())
        refused(4, ["no dictionary of tensors", "weights_of_mine, step"], {"weights_of_mine": checkpoint, "step": 1})
        refused(4, ["no dictionary of tensors; save model.state_dict()"], [1, 2])
        short = dict(dense)
        short[square] = torch_file.Tensor(("view", values), (8, 8), (1, 8), 17)
        refused(4, ["a tensor beyond its storage"], short)
        refused(4, ["h.0.attn.c_proj.weight", "is of type ComplexFloatStorage"],
                {**dense, square: torch_file.Tensor(("view", values), (8, 8), (1, 8), 0, "ComplexFloatStorage")})
        with zipfile.ZipFile(self.folder / "plain.pt", "w") as archive:
            archive.writestr("a/b", "text")
        self.fails(4, ["without data.pkl"], *self.bring("plain.pt", "--sample", "4"))
        (self.folder / "old.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(100))
        self.fails(4, ["the format before torch 1.6"], *self.bring("old.pt", "--sample", "4"))
        whole = (self.folder / "4.pt").read_bytes()
        for size in (len(whole) // 2, len(whole) - 30):
            (self.folder / "cut.pt").write_bytes(whole[:size])
            self.fails(2, ["cut.pt", "as a zip archive"], *self.bring("cut.pt", "--sample", "4", settings=["run.dir=cut"]))

    def test_weights_as_hugging_face_has_them(self):
        """Masks of any type, null for metadata, shards; one value that is not finite."""
        masks = {"transformer.h.0.attn.bias": ("BOOL", [1, 1, 4, 4], bytes(16)), "transformer.h.0.attn.masked_bias": ("F16", [], bytes(2))}
        tensors = gpt2(300)
        (self.folder / "masks.safetensors").write_bytes(safetensors({**tensors, **masks}, None))
        self.succeed(*self.bring("masks.safetensors", "--sample", "4"))
        (self.folder / "flag.safetensors").write_bytes(safetensors({**tensors, "flag": masks["transformer.h.0.attn.bias"]}))
        self.fails(4, ["has flag, which the model does not have"], *self.bring("flag.safetensors", "--sample", "4", "--take"))
        self.succeed(*self.bring("flag.safetensors", "--sample", "4", "--without", "flag", settings=["run.dir=flag"]))

        (self.folder / "hub").mkdir()
        self.fails(3, ["neither model.safetensors nor pytorch_model.bin, nor their shards"], *self.bring("hub", "--sample", "4"))
        names = list(tensors)
        places = {name: f"part-{place % 2}.safetensors" for place, name in enumerate(names)}
        index = self.folder / "hub/model.safetensors.index.json"
        for part in set(places.values()):
            (self.folder / "hub" / part).write_bytes(safetensors({name: tensors[name] for name in names if places[name] == part}))
        for wrong in ("[]", "{", '{"weight_map": {"a": "../masks.safetensors"}}', '{"weight_map": {"a": 1}}', '{"weight_map": {}}'):
            index.write_text(wrong)
            self.fails(2, ["model.safetensors.index.json"], *self.bring("hub", "--sample", "4", settings=["run.dir=hubs"]))
        index.write_text(json.dumps({"weight_map": places}))
        self.succeed(*self.bring("hub", "--sample", "4", settings=["run.dir=hubs"]))
        self.assertTrue(json.loads(self.succeed("checkpoint", "diff", "run", "hubs", "--json"))["same"])

        (self.folder / "nan.safetensors").write_bytes(safetensors({**tensors, "transformer.ln_f.bias": floats(8, value=math.nan)}))
        self.fails(4, ["transformer.ln_f.bias", "not finite"], *self.bring("nan.safetensors", "--sample", "4", settings=["run.dir=nan"]))

    def test_a_model_without_its_last_layer(self):
        without = {name: value for name, value in gpt2(300).items() if "wte" not in name}
        (self.folder / "x.safetensors").write_bytes(safetensors(without))
        self.fails(4, ["lacks ", "--classes", "--without"], *self.bring("x.safetensors", "--sample", "4"))
        self.fails(64, ["--classes is for --sample"], *self.bring("x.safetensors", "--classes", "3"))
        self.succeed(*self.bring("x.safetensors", "--sample", "4", "--classes", "7", "--without", "wte.*"))

    def test_a_vocabulary_padded_above_that_of_the_set(self):
        self.text_set()
        (self.folder / "gpt.safetensors").write_bytes(safetensors(gpt2(300)))
        padded = ["model.vocabulary=300", "data.train=text.h5", "train.epochs=1", "train.steps=2", "data.holdout=0"]
        self.succeed(*self.bring("gpt.safetensors", "--sample", "4", settings=padded))
        self.assertGreater(json.loads(self.succeed("evaluate", "run", "text.h5", "--json"))["loss"], 0)
        code, _, err = self.distdl(*self.run_local(1, "--partial", *self.settings(*padded)))
        self.assertEqual(0, code, err)
        self.assertNotIn("older distdl", err)
        self.succeed("evaluate", "run", "text.h5")

    def test_names_of_any_bytes(self):
        self.text_set()
        name = os.fsdecode(b"caf\xe9.h5")
        os.rename(self.folder / "text.h5", self.folder / name)
        self.assertEqual(2000, json.loads(self.succeed("data", "info", name, "--json"))["samples"])
        self.fails(78, ["not UTF-8"], *self.run_local(1, "--set", f"data.train={name}"))
        self.assertFalse((self.folder / "run").exists())

    def test_numbers_and_values_are_what_was_said(self):
        for words, problem in ((("--samples", "99999999999999999999"), "too large"), (("--samples", ""), "not a whole number"),
                               (("--samples", " 3"), "not a whole number"), (("--noise", "nan"), "not a number"),
                               (("--seed", "-1"), "not a whole number")):
            self.fails(64, [problem, words[0]], "data", "make", "shapes", "x.h5", *words)
        self.fails(64, ["not a whole number"], "generate", "run", "--prompt-tokens", "")
        self.fails(64, ["not a number"], "generate", "run", "--temperature", "nan")
        self.fails(78, ["run.dir is empty"], *self.run_local(1, "--set", "run.dir="))
        self.fails(78, ["expected one key"], *self.run_local(1, "--set", "train.epochs=2\nfoo=3"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
