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


def linear(out):
    return {"kind": "linear", "out": out}


def conv(out, kernel=3, stride=1, padding=0, bias=True):
    return {"kind": "conv2d", "out": out, "kernel": kernel, "stride": stride, "padding": padding, "bias": bias}


def pool(kernel=2, stride=2):
    return {"kind": "max_pool2d", "kernel": kernel, "stride": stride}


def norm(epsilon=1e-5):
    return {"kind": "batch_norm", "epsilon": epsilon}


RELU = {"kind": "relu"}


def torch_layer(layer, shape):
    kind = layer["kind"]
    if kind == "linear":
        features = shape[1:].numel()
        return nn.Sequential(nn.Flatten(1), nn.Linear(features, layer["out"]))
    if kind == "conv2d":
        return nn.Conv2d(shape[1], layer["out"], layer["kernel"], layer["stride"], layer["padding"], bias=layer["bias"])
    if kind == "max_pool2d":
        return nn.MaxPool2d(layer["kernel"], layer["stride"])
    if kind == "batch_norm":
        module = nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d
        module = module(shape[1], eps=layer["epsilon"])
        nn.init.uniform_(module.weight, 0.5, 1.5)
        nn.init.uniform_(module.bias, -1, 1)
        module.running_mean.uniform_(-1, 1)
        module.running_var.uniform_(0.5, 1.5)
        return module
    return nn.ReLU()


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
