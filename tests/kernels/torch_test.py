#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a backend with PyTorch: every layer forward and backward, and five steps of training.

usage: torch_test.py DRIVER BACKEND
Ends with 77 (skipped) where there is no PyTorch or no such backend.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn as nn
except ImportError as error:
    print(f"skipped: no PyTorch for {sys.executable} ({error}); Debian's is python3-torch")
    sys.exit(77)


def linear(out, bias=True):
    return {"kind": "linear", "out": out, "bias": bias}


def conv(out, kernel=3, stride=1, padding=0, bias=True, dilation=1, groups=1):
    return {"kind": "conv2d", "out": out, "kernel": kernel, "stride": stride, "padding": padding, "bias": bias,
            "dilation": dilation, "groups": groups}


def pool(kernel=2, stride=2, padding=0):
    return {"kind": "max_pool2d", "kernel": kernel, "stride": stride, "padding": padding}


def norm(epsilon=1e-5, kind="batch_norm"):
    return {"kind": kind, "epsilon": epsilon}


def heads(heads, kv_heads=0, causal=True, rotary_base=0.0):
    return {"kind": "attention", "heads": heads, "kv_heads": kv_heads, "causal": causal, "rotary_base": rotary_base}


RELU = {"kind": "relu"}


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


class Weighted(nn.Module):
    """A function of the input and a weight."""

    def __init__(self, function, *shape):
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.empty(shape).uniform_(0.5, 1.5)), function

    def forward(self, x):
        return self.function(x, self.weight)


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def look_up(x, table):
    """Numbers come as the floats that the driver makes them from."""
    return nn.functional.embedding((x.detach().abs() * 1000).long() % len(table), table) + 0 * x[..., None]


def turned(x, base):
    """Pairs (i, i + half) as complex numbers, turned by the place."""
    if not base:
        return x
    places, width = x.shape[-2:]
    angle = torch.outer(torch.arange(places).double(), base ** (-torch.arange(0, width, 2).double() / width))
    z = torch.complex(*x.double().chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], -1).float()


def attention(x, layer):
    heads, kv = layer["heads"], layer["kv_heads"] or layer["heads"]
    width = x.shape[2] // (heads + 2 * kv)
    q, k, v = (y.unflatten(2, (-1, width)).transpose(1, 2) for y in x.split([heads * width, kv * width, kv * width], 2))
    k, v = (y.repeat_interleave(heads // kv, 1) for y in (turned(k, layer["rotary_base"]), v))
    score = turned(q, layer["rotary_base"]) @ k.transpose(-2, -1) / width**0.5
    if layer["causal"]:
        score = score + torch.full(score.shape[-2:], float("-inf")).triu(1)
    return (score.softmax(-1) @ v).transpose(1, 2).flatten(2)


def batch_norm(layer, shape):
    module = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(shape[1], eps=layer["epsilon"])
    module.running_mean.uniform_(-1, 1)
    module.running_var.uniform_(0.5, 1.5)
    return module


def linear_module(layer, shape):
    features = shape[2] if len(shape) == 3 else shape[1:].numel()
    return nn.Sequential(nn.Flatten(1 if len(shape) != 3 else 2), nn.Linear(features, layer["out"], layer["bias"]))


MODULES = {
    "linear": linear_module,
    "conv2d": lambda l, s: nn.Conv2d(s[1], l["out"], l["kernel"], l["stride"], l["padding"], l["dilation"], l["groups"], l["bias"]),
    "max_pool2d": lambda l, s: nn.MaxPool2d(l["kernel"], l["stride"], l["padding"]),
    "average_pool2d": lambda l, s: nn.AvgPool2d(l["kernel"], l["stride"]),
    "global_average_pool": lambda l, s: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1)),
    "relu": lambda l, s: nn.ReLU(),
    "gelu": lambda l, s: nn.GELU(approximate="tanh" if l["tanh"] else "none"),
    "silu": lambda l, s: nn.SiLU(),
    "gated_silu": lambda l, s: Lambda(lambda x: nn.functional.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]),
    "batch_norm": batch_norm,
    "layer_norm": lambda l, s: nn.LayerNorm(s[-1], l["epsilon"]),
    "rms_norm": lambda l, s: Weighted(lambda x, w: rms_norm(x, w, l["epsilon"]), s[-1]),
    "embedding": lambda l, s: Weighted(look_up, l["entries"], l["width"]),
    "position_embedding": lambda l, s: Weighted(lambda x, w: x + w[:x.shape[1]], l["places"], s[2]),
    "class_token": lambda l, s: Weighted(lambda x, w: torch.cat([w.expand(x.shape[0], 1, -1), x], 1), s[2]),
    "pixels_to_sequence": lambda l, s: Lambda(lambda x: x.flatten(2).transpose(1, 2)),
    "select_place": lambda l, s: Lambda(lambda x: x[:, l["place"]]),
    "attention": lambda l, s: Lambda(lambda x: attention(x, l)),
}


def torch_layer(layer, shape):
    module = MODULES[layer["kind"]](layer, shape)
    if "norm" in layer["kind"]:  # not at the ones and zeros where they start
        for parameter in module.parameters():
            nn.init.uniform_(parameter, 0.5, 1.5)
    return module


def tensors(module):
    """A layer's parameters and statistics in distdl's order."""
    return [*module.parameters(), *(b for b in module.buffers() if b.dtype == torch.float32)]


def flat(tensor):
    return tensor.detach().flatten().tolist()


class Case:
    def __init__(self, name, layers, shape, **training):
        self.name, self.training = name, training
        self.x = torch.randn(shape, requires_grad=True)
        self.model = nn.Sequential()
        with torch.no_grad():
            out = torch.zeros(shape)
            for layer in layers:
                self.model.append(torch_layer(layer, out.shape))
                out = nn.Sequential(self.model[-1]).eval()(out)
        self.given = {"name": name, "layers": layers, "input": list(shape), "x": flat(self.x),
                      "parameters": [[flat(t) for t in tensors(m)] for m in self.model]}
        if training:
            self.labels = torch.randint(0, out.shape[1], (shape[0],))
            self.given.update(training, labels=self.labels.tolist())
        else:
            self.dy = torch.randn(out.shape)
            self.given["dy"] = flat(self.dy)

    def expected(self):
        return self.train() if self.training else self.once()

    def once(self):
        self.model.eval()
        evaluated = self.model(self.x)
        self.model.train()
        before = [[b.clone() for b in tensors(m)[2:]] for m in self.model]
        y = self.model(self.x)
        y.backward(self.dy)
        gradients = []
        for module, statistics in zip(self.model, before):
            # PyTorch keeps 0.9 of the old running value: solve for what it observed.
            observed = [(b - 0.9 * old) / 0.1 for b, old in zip(tensors(module)[2:], statistics)]
            gradients.append([flat(p.grad) for p in module.parameters()] + [flat(o) for o in observed])
        return {"y": flat(y), "dx": flat(self.x.grad), "gradients": gradients, "evaluated": flat(evaluated)}

    def train(self):
        self.model.train()
        optimizer = torch.optim.SGD(self.model.parameters(), **self.training["sgd"])
        losses = []
        for _ in range(self.training["steps"]):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(self.x), self.labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return {"losses": losses, "parameters": [[flat(t) for t in tensors(m)] for m in self.model]}


def cases():
    sgd = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-2, "nesterov": True}
    plain = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False}
    heavy = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.0, "nesterov": False}
    lenet = [conv(8, padding=1), RELU, pool(), conv(16, padding=1), RELU, pool(), linear(32), RELU, linear(10)]
    return [
        Case("linear", [linear(7)], (5, 11)),
        Case("linear of images", [linear(4)], (3, 2, 4, 5)),
        Case("conv", [conv(5, padding=1)], (2, 3, 8, 6)),
        Case("conv with stride, without bias", [conv(4, 3, 2, 1, False)], (2, 3, 9, 8)),
        Case("conv of even kernel", [conv(3, 2, 3, 1)], (1, 2, 7, 11)),
        Case("max pool", [pool()], (2, 3, 6, 9)),
        Case("overlapping max pool", [pool(3, 2)], (2, 3, 8, 9)),
        Case("relu", [RELU], (4, 13)),
        Case("batch norm of features", [norm()], (9, 5)),
        Case("batch norm of images", [norm(1e-3)], (4, 3, 5, 6)),
        Case("linear of sequences, without bias", [linear(6, False)], (3, 4, 5)),
        Case("dilated conv", [conv(5, padding=2, dilation=2)], (2, 3, 8, 7)),
        Case("conv of groups", [conv(6, stride=2, padding=1, groups=3)], (2, 9, 8, 7)),
        Case("depthwise conv", [conv(20, padding=1, groups=20, bias=False)], (2, 20, 8, 7)),
        Case("padded max pool", [pool(3, 2, 1)], (2, 3, 8, 9)),
        Case("average pool", [{"kind": "average_pool2d", "kernel": 3, "stride": 2}], (2, 3, 8, 9)),
        Case("global average pool", [{"kind": "global_average_pool"}], (2, 3, 8, 9)),
        Case("gelu", [{"kind": "gelu", "tanh": False}], (4, 13)),
        Case("gelu by tanh", [{"kind": "gelu", "tanh": True}], (4, 13)),
        Case("silu", [{"kind": "silu"}], (4, 13)),
        Case("gated silu", [{"kind": "gated_silu"}], (2, 4, 14)),
        Case("layer norm", [norm(1e-5, "layer_norm")], (3, 5, 17)),
        Case("layer norm of rows", [norm(1e-3, "layer_norm")], (6, 24)),
        Case("rms norm", [norm(1e-5, "rms_norm")], (3, 5, 17)),
        Case("embedding", [{"kind": "embedding", "entries": 7, "width": 5}], (3, 6)),
        Case("position embedding", [{"kind": "position_embedding", "places": 6}], (3, 5, 4)),
        Case("class token", [{"kind": "class_token"}], (3, 5, 4)),
        Case("pixels to sequence", [{"kind": "pixels_to_sequence"}], (2, 3, 4, 5)),
        Case("select place", [{"kind": "select_place", "place": 2}], (3, 5, 4)),
        Case("causal attention", [heads(3)], (2, 70, 3 * 3 * 8)),
        Case("attention both ways", [heads(2, causal=False)], (2, 9, 2 * 3 * 4)),
        Case("attention of groups", [heads(4, 2)], (2, 9, 8 * 6)),
        Case("rotary attention", [heads(4, 1, rotary_base=10000.0)], (2, 11, 6 * 8)),
        Case("plain sgd", lenet, (6, 1, 12, 12), sgd=plain, steps=5),
        Case("sgd with momentum", lenet, (6, 1, 12, 12), sgd=heavy, steps=5),
        Case("sgd with nesterov and weight decay", lenet, (6, 1, 12, 12), sgd=sgd, steps=5),
        Case("sgd with batch norm", [conv(6, padding=1, bias=False), norm(), RELU, linear(5), norm(), linear(4)],
             (6, 2, 5, 5), sgd=sgd, steps=5),
    ]


def differences(path, actual, expected):
    """Yields (path, largest difference, largest expected value) of each list of numbers in a result."""
    if isinstance(expected, dict):
        for key in expected:
            yield from differences(f"{path} {key}", actual[key], expected[key])
    elif expected and isinstance(expected[0], list):
        assert len(actual) == len(expected), f"{path}: {len(actual)} instead of {len(expected)} lists"
        for i, (a, e) in enumerate(zip(actual, expected)):
            yield from differences(f"{path}[{i}]", a, e)
    elif expected:
        assert len(actual) == len(expected), f"{path}: {len(actual)} instead of {len(expected)} numbers"
        yield path, max(abs(a - e) for a, e in zip(actual, expected)), max(1.0, *(abs(e) for e in expected))


def main():
    driver, backend = sys.argv[1:]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    all_cases = cases()
    with tempfile.TemporaryDirectory() as folder:
        given, results = os.path.join(folder, "cases.json"), os.path.join(folder, "results.json")
        with open(given, "w") as file:
            json.dump([case.given for case in all_cases], file)
        code = subprocess.run([driver, backend, given, results]).returncode
        if code:
            sys.exit(code)
        with open(results) as file:
            actual = json.load(file)
    failed = False
    for case, result in zip(all_cases, actual):
        path, error, size = max(differences(case.name, result, case.expected()), key=lambda d: d[1] / d[2])
        good = error <= 2e-5 * size
        failed = failed or not good
        print(f"{'ok  ' if good else 'FAIL'} {case.name}: at most {error:.1e} apart ({path}, values up to {size:.1f})")
    sys.exit(1 if failed else 0)


main()
