#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training curves with PyTorch's: 20 steps of each model from the same weights and on the same batches must have the
same losses, to 1e-4 of them. The models below are written as their authors' are, with the same names of parameters.

usage: torch_test.py DRIVER BACKEND [CASE ...]
Ends with 77 (skipped) where there is no PyTorch or no such backend.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: no PyTorch for {sys.executable} ({error}); Debian's is python3-torch")
    sys.exit(77)

TOLERANCE = 1e-4


class LeNet(nn.Module):
    def __init__(self, case):
        super().__init__()
        channels, height, width = case["sample"]
        self.conv1, self.conv2 = nn.Conv2d(channels, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 128)
        self.fc2 = nn.Linear(128, case["classes"])

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Mlp(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.fc1 = nn.Linear(int(numpy.prod(case["sample"])), 128)
        self.fc2 = nn.Linear(128, case["classes"])

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class ResidualBlock(nn.Module):
    def __init__(self, channels, width, stride, expansion):
        super().__init__()
        out = width * expansion
        kernels = [1, 3, 1] if expansion > 1 else [3, 3]
        widths = [channels, width, width, out] if expansion > 1 else [channels, width, width]
        strides = [1, stride, 1] if expansion > 1 else [stride, 1]
        self.count = len(kernels)
        for i, kernel in enumerate(kernels):
            conv = nn.Conv2d(widths[i], widths[i + 1], kernel, strides[i], kernel // 2, bias=False)
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(widths[i + 1]))
        if stride > 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = F.relu(y)
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    def __init__(self, case):
        super().__init__()
        name, self.small = case["model"]["name"], case["model"]["stem"] == "cifar"
        blocks, expansion = {"resnet18": ([2, 2, 2, 2], 1), "resnet34": ([3, 4, 6, 3], 1), "resnet50": ([3, 4, 6, 3], 4)}[name]
        stem = (3, 64, 3, 1, 1) if self.small else (3, 64, 7, 2, 3)
        self.conv1, self.bn1 = nn.Conv2d(*stem, bias=False), nn.BatchNorm2d(64)
        channels = 64
        for stage, count in enumerate(blocks):
            layer = nn.Sequential()
            for i in range(count):
                layer.append(ResidualBlock(channels, 64 << stage, 2 if stage and not i else 1, expansion))
                channels = (64 << stage) * expansion
            setattr(self, f"layer{stage + 1}", layer)
        self.fc = nn.Linear(channels, case["classes"])

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def attention(qkv, heads, kv_heads, causal, turn=lambda x: x):
    n, t, _ = qkv.shape
    width = qkv.shape[2] // (heads + 2 * kv_heads)
    q, k, v = (y.view(n, t, -1, width).transpose(1, 2) for y in qkv.split([heads * width, kv_heads * width, kv_heads * width], 2))
    k, v = (y.repeat_interleave(heads // kv_heads, 1) for y in (turn(k), v))
    score = turn(q) @ k.transpose(-2, -1) / width**0.5
    if causal:
        score = score.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
    return (score.softmax(-1) @ v).transpose(1, 2).reshape(n, t, heads * width)


def rotary(x):
    """Llama's: the halves of a head as real and imaginary part, turned by the place."""
    t, width = x.shape[-2:]
    angle = torch.outer(torch.arange(t).float(), 10000.0 ** (-torch.arange(0, width, 2).float() / width))
    turned = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class GptBlock(nn.Module):
    def __init__(self, options):
        super().__init__()
        width, self.heads = options["width"], options["heads"]
        self.kv_heads, self.llama = options.get("kv_heads", self.heads), options.get("variant") == "llama"
        self.gelu = options.get("gelu", "tanh")
        norm, bias = (RmsNorm, False) if self.llama else (nn.LayerNorm, True)
        hidden = -(-(8 * width // 3) // 256) * 256 if self.llama else 4 * width
        self.ln_1, self.ln_2 = norm(width), norm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn = nn.Linear(width, width // self.heads * (self.heads + 2 * self.kv_heads), bias)
        self.attn.c_proj = nn.Linear(width, width, bias)
        self.mlp.c_fc = nn.Linear(width, 2 * hidden if self.llama else hidden, bias)
        self.mlp.c_proj = nn.Linear(hidden, width, bias)

    def activation(self, x):
        if self.llama:
            gate, value = x.chunk(2, -1)
            return F.silu(gate) * value
        return F.gelu(x, approximate="tanh" if self.gelu == "tanh" else "none")

    def forward(self, x):
        turn = rotary if self.llama else (lambda y: y)
        x = x + self.attn.c_proj(attention(self.attn.c_attn(self.ln_1(x)), self.heads, self.kv_heads, True, turn))
        return x + self.mlp.c_proj(self.activation(self.mlp.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, case):
        super().__init__()
        options, vocabulary = case["model"], case["classes"]
        llama = options.get("variant") == "llama"
        self.wte = nn.Embedding(vocabulary, options["width"])
        if not llama:
            self.wpe = nn.Embedding(options["context"], options["width"])
        self.h = nn.Sequential(*[GptBlock(options) for _ in range(options["layers"])])
        self.ln_f = RmsNorm(options["width"]) if llama else nn.LayerNorm(options["width"])
        self.lm_head = nn.Linear(options["width"], vocabulary, bias=False)
        if options.get("tied_head", True):
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens)
        if hasattr(self, "wpe"):
            x = x + self.wpe.weight[: tokens.shape[1]]
        return self.lm_head(self.ln_f(self.h(x)))


class VitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.qkv, self.attn.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn.proj(attention(self.attn.qkv(self.norm1(x)), self.heads, self.heads, False))
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, case):
        super().__init__()
        options, (channels, height, width) = case["model"], case["sample"]
        patch, features = options["patch"], options["width"]
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(channels, features, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(features))
        self.pos_embed = nn.Parameter(torch.zeros(1 + height // patch * (width // patch), features))
        self.blocks = nn.Sequential(*[VitBlock(features, options["heads"]) for _ in range(options["layers"])])
        self.norm, self.head = nn.LayerNorm(features, 1e-6), nn.Linear(features, case["classes"])

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], 1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def case(title, module, sample, classes, batch=8, learning_rate=0.02, steps=20, squared_error=False, tensor_shards=1, **model):
    return {"name": title, "module": module, "sample": sample, "classes": classes, "batch": batch, "steps": steps,
            "learning_rate": learning_rate, "momentum": 0.9, "squared_error": squared_error, "tensor_shards": tensor_shards,
            "model": model}


def cases():
    gpt = {"name": "gpt", "layers": 3, "width": 64, "heads": 4, "context": 48}
    return [
        case("mlp", Mlp, [1, 12, 12], 10, name="mlp"),
        case("mlp_regression", Mlp, [1, 12, 12], 10, squared_error=True, name="mlp"),
        case("mlp_smoothed", Mlp, [1, 12, 12], 10, name="mlp", label_smoothing=0.1),
        case("lenet", LeNet, [1, 28, 28], 10, batch=16, name="lenet"),
        # Deep networks of ReLU and batch norm are chaotic: PyTorch in floats is soon as far from PyTorch in doubles.
        case("resnet18_cifar", ResNet, [3, 16, 16], 10, batch=16, learning_rate=1e-3, name="resnet18", stem="cifar"),
        case("resnet34_imagenet", ResNet, [3, 40, 40], 10, learning_rate=2e-4, name="resnet34", stem="imagenet"),
        case("resnet50_imagenet", ResNet, [3, 40, 40], 10, learning_rate=1e-4, name="resnet50", stem="imagenet"),
        case("gpt2", Gpt, [40], 65, learning_rate=0.1, **gpt),
        case("gpt_untied_erf", Gpt, [48], 65, learning_rate=0.1, **gpt, gelu="erf", tied_head=False),
        case("gpt_llama", Gpt, [48], 65, learning_rate=0.1, **gpt, variant="llama", kv_heads=2),
        case("vit", Vit, [3, 32, 32], 10, learning_rate=0.1, name="vit", layers=3, width=64, heads=4, patch=8),
        case("gpt2_divided", Gpt, [40], 65, learning_rate=0.1, tensor_shards=4, **gpt),
        case("gpt_llama_divided", Gpt, [48], 65, learning_rate=0.1, tensor_shards=2, **gpt, variant="llama", kv_heads=2),
        case("vit_divided", Vit, [3, 32, 32], 10, learning_rate=0.1, tensor_shards=2, name="vit", layers=3, width=64, heads=4, patch=8),
    ]


def load(model, tensors, arena):
    """Every tensor must have its place, and every place its tensor."""
    state = model.state_dict()
    ours = {}
    for tensor in tensors:
        name = tensor["name"]
        name = name if name in state else name.removesuffix(".weight")
        count = int(numpy.prod(tensor["shape"]))
        ours[name] = torch.from_numpy(arena[tensor["offset"]:tensor["offset"] + count].copy()).view(tensor["shape"])
    if case_is_tied(model):
        ours["lm_head.weight"] = ours["wte.weight"]
    for name in state:
        if name.endswith("num_batches_tracked"):
            ours[name] = state[name]
    model.load_state_dict(ours, strict=True)


def case_is_tied(model):
    return hasattr(model, "wte") and model.lm_head.weight is model.wte.weight


def loss_of(case, predictions, targets):
    if case["squared_error"]:
        return F.mse_loss(predictions, targets.view(predictions.shape))
    return F.cross_entropy(predictions.flatten(0, -2), targets, label_smoothing=case["model"].get("label_smoothing", 0.0))


def train(case, folder, ours):
    model = case["module"](case)
    load(model, ours["tensors"], numpy.fromfile(folder / f"{case['name']}.weights", numpy.float32))
    optimizer = torch.optim.SGD(model.parameters(), lr=case["learning_rate"], momentum=case["momentum"])
    words = numpy.fromfile(folder / f"{case['name']}.batches", numpy.int32).reshape(case["steps"], -1)
    count, tokens = case["batch"] * int(numpy.prod(case["sample"])), len(case["sample"]) == 1
    losses = []
    for batch in words:
        samples, targets = batch[:count], batch[count:]
        x = torch.from_numpy(samples if tokens else samples.view(numpy.float32)).view(case["batch"], *case["sample"])
        y = torch.from_numpy(targets.view(numpy.float32) if case["squared_error"] else targets.astype(numpy.int64))
        optimizer.zero_grad()
        loss = loss_of(case, model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    driver, backend, *wanted = sys.argv[1:]
    torch.set_num_threads(1)
    chosen = [case for case in cases() if not wanted or case["name"] in wanted]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "cases.json").write_text(json.dumps([{**case, "module": None} for case in chosen]))
        code = subprocess.run([driver, backend, folder]).returncode
        if code:
            sys.exit(code)
        for case in chosen:
            ours = json.loads((folder / f"{case['name']}.json").read_text())
            expected = train(case, folder, ours)
            apart = [abs(a - e) / abs(e) for a, e in zip(ours["losses"], expected, strict=True)]
            good = max(apart) <= TOLERANCE
            failed = failed or not good
            print(f"{'ok  ' if good else 'FAIL'} {case['name']}: loss {expected[0]:.4f} to {expected[-1]:.4f} in {case['steps']} "
                  f"steps, at most {max(apart):.1e} of it apart (step {apart.index(max(apart)) + 1})", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
