#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Weights that PyTorch has written, in the layouts that are found in the world, give the logits here that they give there.
Ends with 77 (skipped) where there is no PyTorch."""
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "model"))
from torch_test import Gpt, ResNet, Vit, numpy, torch  # ends with 77 where there is no PyTorch  # noqa: E402

from program import ProgramTest  # noqa: E402

TOLERANCE = 1e-4
GPT = {"name": "gpt", "layers": 2, "width": 48, "heads": 3, "context": 20}
VIT = {"name": "vit", "layers": 2, "width": 48, "heads": 3, "patch": 8}
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.uint8: "U8"}
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def write_safetensors(path, tensors):
    """https://huggingface.co/docs/safetensors"""
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, value in tensors.items():
        raw = value.contiguous().view(torch.uint8).numpy().tobytes() if value.dim() else value.numpy().tobytes()
        header[name] = {"dtype": TYPES[value.dtype], "shape": list(value.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def made(module, sample, classes, options):
    """A model whose numbers are all unlike those that it begins with: norms and running statistics too."""
    torch.manual_seed(5)
    model = module({"sample": sample, "classes": classes, "model": options}).eval()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith("running_var"):
                value.uniform_(0.5, 2)
            elif value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.1)
            elif name.startswith(("wte", "wpe")):
                value.normal_(0, 0.3)
    return model


def hugging_face(model, prefix="transformer."):
    """GPT-2's as that library writes it: Conv1D, which is (in, out), and the masks of attention."""
    tensors = {}
    for name, value in model.state_dict().items():
        tensors[prefix + name] = value.t() if name.endswith(CONV1D) else value
    for layer in range(GPT["layers"]):
        tensors[f"{prefix}h.{layer}.attn.bias"] = torch.tril(torch.ones(20, 20, dtype=torch.uint8)).view(1, 1, 20, 20)
        tensors[f"{prefix}h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors.pop(f"{prefix}lm_head.weight")
    return tensors


def first_token(seed, epoch, context):
    """Where the windows of an epoch begin: the first word of Philox4x32-10 (Salmon et al. 2011), scaled."""
    counter, key = [epoch, 0, 0, 0], [(seed ^ 0x77696E646F7773) & 0xFFFFFFFF, 0x77696E646F7773 >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [second >> 32 ^ counter[1] ^ key[0], second & 0xFFFFFFFF, first >> 32 ^ counter[3] ^ key[1], first & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter[0] * context >> 32


class Pretrained(ProgramTest):
    def write_job(self, model, **sections):
        lines = []
        for name, keys in {"run": {"dir": "run", "relaunches": 0}, "model": model, **sections}.items():
            lines += [f"[{name}]"] + [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        (self.folder / "job.toml").write_text("\n".join(lines) + "\n")

    def write_model(self, tensors):
        """As a cache of downloads has it: the name is a link."""
        write_safetensors(self.folder / "blob", tensors)
        (self.folder / "model.safetensors").unlink(missing_ok=True)
        (self.folder / "model.safetensors").symlink_to("blob")

    def bring(self, tensors, *more):
        self.write_model(tensors)
        return self.succeed("checkpoint", "import", "pretrained", "model.safetensors", "job.toml", *more)

    def refused(self, code, about, tensors, *more):
        self.write_model(tensors)
        line = self.fails(code, about, "checkpoint", "import", "pretrained", "model.safetensors", "job.toml", *more)
        self.assertFalse((self.folder / "run").exists())
        return line

    def same_logits(self, model, samples, tolerance=TOLERANCE, least=0.1):
        samples.numpy().astype("<i4" if samples.dtype == torch.int64 else "<f4").tofile(self.folder / "samples")
        subprocess.run([os.environ["LOGITS_DRIVER"], "run", str(len(samples)), "samples", "logits"], cwd=self.folder, check=True)
        with torch.no_grad():
            expected = model(samples).numpy()
        self.assertGreater(float(expected.std()), least)
        found = numpy.fromfile(self.folder / "logits", "<f4").reshape(expected.shape)
        apart = float(numpy.abs(found - expected).max())
        print(f"{self.id().split('.')[-1]}: logits of {expected.std():.2f} (deviation) at most {apart:.1e} apart", flush=True)
        self.assertLess(apart, tolerance)
        return expected

    def test_gpt2_as_hugging_face_has_it(self):
        model = made(Gpt, [20], 101, GPT)
        self.write_job(GPT)
        self.assertIn("of model gpt", self.bring(hugging_face(model), "--sample", "20"))
        tokens = torch.randint(0, 101, (3, 20))
        self.same_logits(model, tokens)
        prompt = tokens[0, :7].tolist()
        with torch.no_grad():
            following = int(model(torch.tensor([prompt]))[0, -1].argmax())
        words = self.succeed("generate", "run", "--prompt-tokens", ",".join(map(str, prompt)), "--tokens", "1", "--temperature", "0")
        self.assertEqual(list(map(int, words.split())), [*prompt, following])

    def test_gpt2_in_other_layouts(self):
        model = made(Gpt, [20], 101, GPT)
        shared_once = {name: value for name, value in hugging_face(model).items() if name != "transformer.wte.weight"}
        for name, tensors in {"as GPT2Model": hugging_face(model, ""), "shared once": shared_once,
                              "nanoGPT": {f"_orig_mod.transformer.{name}": value for name, value in model.state_dict().items()}}.items():
            with self.subTest(name):
                self.write_job(GPT)
                self.bring(tensors, "--sample", "20")
                self.same_logits(model, torch.randint(0, 101, (2, 20)))
                subprocess.run(["rm", "-r", self.folder / "run"], check=True)

    def test_a_longer_context_is_cut(self):
        model = made(Gpt, [20], 101, GPT)
        self.write_job({**GPT, "context": 9})
        self.assertIn("wpe.weight: the first 9 of 20 rows", self.bring(hugging_face(model), "--sample", "9"))
        self.same_logits(model, torch.randint(0, 101, (2, 9)))

    def test_gpt2_is_trained_on(self):
        model = made(Gpt, [20], 101, GPT)
        numpy.random.default_rng(1).integers(0, 101, 4001).astype("<u2").tofile(self.folder / "tokens.bin")
        self.succeed("data", "import", "tokens", "tokens.bin", "set.h5", "--vocabulary", "101")
        self.write_job(GPT, data={"train": "set.h5"}, train={"epochs": 1}, optim={"learning_rate": 1e-9},
                       parallel={"microbatches": 2, "microbatch_size": 5})
        self.bring(hugging_face(model))
        before = json.loads(self.succeed("evaluate", "run", "set.h5", "--json"))["loss"]
        stream = torch.from_numpy(numpy.fromfile(self.folder / "tokens.bin", "<u2").astype(numpy.int64))
        with torch.no_grad():
            expected = torch.nn.functional.cross_entropy(model(stream[:-1].view(-1, 20)).flatten(0, 1), stream[1:]).item()
        self.assertAlmostEqual(before, expected, delta=TOLERANCE)
        self.fails(4, ["momentum/", "--partial"], *self.run_local(2))
        self.succeed(*self.run_local(2, "--partial"))
        losses = [row["loss"] for row in self.rows("metrics.jsonl") if "loss" in row]
        self.assertAlmostEqual(sum(losses) / len(losses), before, delta=0.02)  # other windows of the same tokens

    def test_a_product_of_ranks_has_the_losses_of_one_process(self):
        """20 steps of 2 stages of 2 tensor ranks each: a step has all 8 windows of its epoch, in whatever order."""
        options, seed, rate = {**GPT, "heads": 4}, 3, 0.1
        model = made(Gpt, [20], 101, options).train()
        stream = numpy.random.default_rng(1).integers(0, 101, 9 * 20)
        stream.astype("<u2").tofile(self.folder / "tokens.bin")
        self.succeed("data", "import", "tokens", "tokens.bin", "set.h5", "--vocabulary", "101")
        self.write_job(options, data={"train": "set.h5"}, train={"epochs": 20, "seed": seed},
                       optim={"name": "sgd", "learning_rate": rate, "momentum": 0.9, "schedule": "constant"},
                       parallel={"microbatches": 4, "microbatch_size": 2, "tensor_shards": 2, "tensor_ranks": 2, "pipeline_ranks": 2})
        self.bring(hugging_face(model))
        self.succeed(*self.run_local(4, "--partial"))
        losses = [row["loss"] for row in self.rows("metrics.jsonl") if "loss" in row]
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        expected = []
        for epoch in range(20):
            windows = torch.from_numpy(stream[first_token(seed, epoch, 20):])
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(windows[:160].view(8, 20)).flatten(0, 1), windows[1:161])
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
        apart = max(abs(a - e) / e for a, e in zip(losses, expected, strict=True))
        print(f"loss {expected[0]:.4f} to {expected[-1]:.4f} in 20 steps, at most {apart:.1e} of it apart", flush=True)
        self.assertLess(apart, TOLERANCE)

    def test_resnet18_as_torchvision_has_it(self):
        model = made(ResNet, [3, 72, 80], 10, {"name": "resnet18", "stem": "auto"})
        self.write_job({"name": "resnet18"})
        self.assertIn("num_batches_tracked", "".join(model.state_dict()))
        self.bring(model.state_dict(), "--sample", "3,72,80")
        self.same_logits(model, torch.randn(4, 3, 72, 80))

    def exported(self, *more):
        """What PyTorch reads from what distdl writes."""
        self.succeed("checkpoint", "export", "run", "weights.safetensors", "--force", *more)
        raw = (self.folder / "weights.safetensors").read_bytes()
        length, = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8:8 + length])
        header.pop("__metadata__")
        types = {name: dtype for dtype, name in TYPES.items()}
        return {name: torch.frombuffer(bytearray(raw[8 + length + at["data_offsets"][0]:8 + length + at["data_offsets"][1]]),
                                       dtype=types[at["dtype"]]).reshape(at["shape"]) for name, at in header.items()}

    def loads(self, fresh, model, tensors):
        """Into a module that was not trained, as a user does it."""
        fresh.load_state_dict(tensors, strict=True)
        for name, value in model.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                self.assertTrue(torch.equal(fresh.state_dict()[name], value), name)

    def test_resnet18_goes_back_to_torchvision(self):
        case = {"sample": [3, 72, 80], "classes": 10, "model": {"name": "resnet18", "stem": "auto"}}
        model = made(ResNet, case["sample"], 10, case["model"])
        self.write_job({"name": "resnet18"})
        self.bring(model.state_dict(), "--sample", "3,72,80")
        self.loads(ResNet(case), model, self.exported("--names", "pytorch"))

    def test_gpt_goes_back_to_nanogpt_and_hugging_face(self):
        def module(gpt):
            whole = torch.nn.Module()
            whole.lm_head, whole.transformer = gpt.lm_head, gpt
            del gpt.lm_head
            return whole
        model = made(Gpt, [20], 101, GPT)
        conv1d = {name: value for name, value in hugging_face(model).items() if not name.endswith((".attn.bias", "masked_bias"))}
        self.write_job(GPT)
        self.bring(hugging_face(model), "--sample", "20")
        self.loads(module(Gpt({"sample": [20], "classes": 101, "model": GPT})), module(model), self.exported("--names", "pytorch"))
        found = self.exported("--names", "huggingface")
        self.assertEqual(set(found), set(conv1d))
        for name, value in found.items():
            self.assertTrue(torch.equal(value, conv1d[name]), name)

    def test_vit_goes_back_to_timm(self):
        model = made(Vit, [3, 32, 32], 10, VIT)
        self.write_job(VIT)
        self.bring(model.state_dict(), "--sample", "3,32,32")
        fresh = Vit({"sample": [3, 32, 32], "classes": 10, "model": VIT})
        for name in ("cls_token", "pos_embed"):  # timm's have three dimensions
            for each in (fresh, model):
                value = getattr(each, name)
                setattr(each, name, torch.nn.Parameter(value.data.reshape(1, -1, value.shape[-1])))
        self.loads(fresh, model, self.exported("--names", "pytorch"))

    def test_a_trained_lenet_goes_to_pytorch(self):
        self.make_set()
        self.write_job({"name": "lenet", "hidden": [32], "batch_norm": True}, data={"train": "set.h5"}, train={"steps": 2})
        self.succeed(*self.run_local(1))
        nn = torch.nn
        modules = {"conv1": nn.Conv2d(1, 32, 3, padding=1), "conv1_norm": nn.BatchNorm2d(32), "conv2": nn.Conv2d(32, 64, 3, padding=1),
                   "conv2_norm": nn.BatchNorm2d(64), "fc1": nn.Linear(64 * 3 * 3, 32), "fc1_norm": nn.BatchNorm1d(32), "fc2": nn.Linear(32, 10)}
        net = nn.ModuleDict(modules).eval()
        net.load_state_dict(self.exported("--names", "pytorch"), strict=True)
        pool, relu = nn.functional.max_pool2d, nn.functional.relu
        samples = torch.randn(5, 1, 12, 12)

        def forward(x):
            for name in ("conv1", "conv2"):
                x = relu(pool(net[name + "_norm"](net[name](x)), 2))
            return net["fc2"](relu(net["fc1_norm"](net["fc1"](x.flatten(1)))))
        self.same_logits(forward, samples, least=0.01)
        self.fails(64, ["--names pytorch writes the weights of the model"], "checkpoint", "export", "run", "view.h5", "--names", "pytorch")

    def test_halves_are_widened(self):
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype):
                model = made(ResNet, [3, 16, 16], 10, {"name": "resnet18", "stem": "cifar"}).to(dtype).float()
                self.write_job({"name": "resnet18"})
                self.bring({name: value.to(dtype) if value.is_floating_point() else value
                            for name, value in model.state_dict().items()}, "--sample", "3,16,16")
                self.same_logits(model, torch.randn(4, 3, 16, 16))
                subprocess.run(["rm", "-r", self.folder / "run"], check=True)

    def test_resnet_learns_other_classes(self):
        self.make_set("set.h5", "--classes", "4")
        model = made(ResNet, [3, 40, 40], 1000, {"name": "resnet18", "stem": "cifar"})
        tensors = {f"module.{name}": value for name, value in model.state_dict().items()}
        tensors["module.conv1.weight"] = tensors["module.conv1.weight"].sum(1, keepdim=True)  # the set is grey
        self.write_job({"name": "resnet18"}, data={"train": "set.h5"}, train={"epochs": 1})
        line = self.refused(4, ['"module.fc.weight" is f32 (1000, 512)', "f32 (4, 512)", "module.fc.bias", "--without"], tensors)
        self.assertNotIn("conv1", line)
        self.assertIn("left out: fc.bias, fc.weight", self.bring(tensors, "--without", "fc.*"))
        shown = self.succeed("checkpoint", "show", "run")
        self.assertIn("parameter/bn1.running_var", shown)
        self.assertNotIn("parameter/fc", shown)
        code, _, err = self.distdl(*self.run_local(2, "--partial"))
        self.assertEqual(code, 0, err)
        self.assertIn("parameter/fc.weight", err)

    def test_vit_as_timm_has_it(self):
        model = made(Vit, [3, 32, 32], 10, VIT)
        tensors = dict(model.state_dict())
        for name in ("cls_token", "pos_embed"):
            tensors[name] = tensors[name].view(1, -1, VIT["width"])
        self.write_job(VIT)
        self.bring(tensors, "--sample", "3,32,32")
        self.same_logits(model, torch.randn(4, 3, 32, 32))

    def test_vit_of_another_image_size_gets_interpolated_positions(self):
        model, larger = made(Vit, [3, 32, 32], 10, VIT), made(Vit, [3, 48, 40], 10, VIT)
        tensors = dict(model.state_dict())
        positions = torch.randn(1, 17, VIT["width"])
        grid = torch.nn.functional.interpolate(positions[:, 1:].view(1, 4, 4, -1).permute(0, 3, 1, 2), size=(6, 5), mode="bicubic", antialias=True)
        resampled = torch.cat([positions[:, :1], grid.permute(0, 2, 3, 1).reshape(1, 30, -1)], 1)
        if importlib.util.find_spec("timm"):
            from timm.layers.pos_embed import resample_abs_pos_embed
            self.assertTrue(torch.equal(resampled, resample_abs_pos_embed(positions, [6, 5])))
        larger.load_state_dict({**tensors, "pos_embed": resampled.view(larger.state_dict()["pos_embed"].shape)})
        self.write_job(VIT)
        self.refused(4, ['"pos_embed" is f32 (1, 16, 48)'], {**tensors, "pos_embed": positions[:, 1:]}, "--sample", "3,48,40")
        said = self.bring({**tensors, "pos_embed": positions}, "--sample", "3,48,40")
        self.assertIn("pos_embed.weight: 6 x 5 positions interpolated from 4 x 4", said)
        self.same_logits(larger, torch.randn(4, 3, 48, 40))

    def test_what_does_not_fit_is_named(self):
        model = made(Gpt, [20], 101, GPT)
        tensors = hugging_face(model)
        self.write_job(GPT)
        less = {name: value for name, value in tensors.items() if "h.1.ln_2" not in name}
        self.refused(4, ["lacks h.1.ln_2.weight, h.1.ln_2.bias"], less, "--sample", "20")
        self.refused(4, ['has score.weight, which the model does not have'], {**tensors, "score.weight": torch.zeros(2, 48)},
                     "--sample", "20")
        self.refused(4, ["has ", "h.1.", "which the model does not have"], tensors, "--sample", "20", "--set", "model.layers=1")
        self.refused(4, ["transformer.h.0.attn.c_attn.weight", "f32 (48, 144)", "f32 (192, 64)", "more have other shapes"], tensors,
                     "--sample", "20", "--set", "model.width=64", "--set", "model.heads=4")
        self.refused(4, ["lm_head.weight", "transformer.wte.weight", "tied_head"],
                     {**tensors, "lm_head.weight": torch.randn(101, 48)}, "--sample", "20")
        self.refused(4, ["h.0.ln_1.bias\" is i64"], {**tensors, "transformer.h.0.ln_1.bias": torch.zeros(48, dtype=torch.int64)},
                     "--sample", "20")
        self.refused(4, ["lacks fc.bias"], tensors, "--sample", "3,16,16", "--set", "model.name=resnet18")
        self.refused(64, ['--without "nothing*"'], tensors, "--sample", "20", "--without", "nothing*")
        self.refused(64, ["data.train", "--sample"], tensors)
        self.bring({**tensors, "score.weight": torch.zeros(2, 48)}, "--sample", "20", "--without", "score.*")
        self.fails(64, ["already belongs to a run"], "checkpoint", "import", "pretrained", "model.safetensors", "job.toml", "--sample", "20",
                   "--without", "score.*")


if __name__ == "__main__":
    unittest.main(verbosity=2)
