#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares optimizers with torch.optim over many steps of given gradients.

usage: torch_test.py DRIVER
Ends with 77 (skipped) where there is no PyTorch.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as error:
    print(f"skipped: no PyTorch for {sys.executable} ({error}); Debian's is python3-torch")
    sys.exit(77)

SHAPES = [[5, 3, 3], [5], [17, 45], [17], [1, 1]]
STEPS = 25


def flat(tensors):
    return [tensor.detach().flatten().tolist() for tensor in tensors]


class Case:
    def __init__(self, name, rate, options, make):
        self.name, self.rate, self.options, self.make = name, rate, options, make
        self.start = [torch.randn(shape) for shape in SHAPES]
        self.gradients = [[torch.randn(shape) * 10 ** torch.randint(-4, 1, ()) for shape in SHAPES] for _ in range(STEPS)]

    def given(self):
        return {"rate": self.rate, "options": self.options, "shapes": SHAPES, "start": flat(self.start),
                "gradients": [flat(step) for step in self.gradients]}

    def expected(self):
        parameters = [torch.nn.Parameter(tensor.clone()) for tensor in self.start]
        optimizer = self.make(parameters, self.rate)
        for step in self.gradients:
            for parameter, gradient in zip(parameters, step):
                parameter.grad = gradient.clone()
            if "clip_norm" in self.options:
                torch.nn.utils.clip_grad_norm_(parameters, self.options["clip_norm"])
            optimizer.step()
        return flat(parameters)


def sgd(**options):
    return lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, **options)


def adamw(decay=0.0, everywhere=False, **options):
    def make(parameters, rate):
        groups = [{"params": [p for p in parameters if p.dim() > 1 or everywhere], "weight_decay": decay},
                  {"params": [p for p in parameters if p.dim() <= 1 and not everywhere], "weight_decay": 0.0}]
        return torch.optim.AdamW([group for group in groups if group["params"]], lr=rate, **options)
    return make


def cases():
    return [
        Case("sgd", 0.1, {"momentum": 0.0}, sgd()),
        Case("sgd with momentum", 0.05, {"momentum": 0.9}, sgd(momentum=0.9)),
        Case("sgd with nesterov and weight decay", 0.05, {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
             sgd(momentum=0.9, nesterov=True, weight_decay=1e-2)),
        Case("sgd, clipped", 0.05, {"momentum": 0.9, "clip_norm": 2.0}, sgd(momentum=0.9)),
        Case("adamw without decay", 1e-2, {"name": "adamw"}, adamw()),
        Case("adamw", 1e-2, {"name": "adamw", "weight_decay": 0.1}, adamw(0.1)),
        Case("adamw that decays all", 1e-2, {"name": "adamw", "weight_decay": 0.1, "decay_one_dimensional": True},
             adamw(0.1, everywhere=True)),
        Case("adamw as for gpt, clipped", 6e-4,
             {"name": "adamw", "beta2": 0.95, "weight_decay": 0.1, "clip_norm": 1.0, "epsilon": 1e-6},
             adamw(0.1, betas=(0.9, 0.95), eps=1e-6)),
    ]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    all_cases = cases()
    with tempfile.TemporaryDirectory() as folder:
        given, results = os.path.join(folder, "cases.json"), os.path.join(folder, "results.json")
        with open(given, "w") as file:
            json.dump([case.given() for case in all_cases], file)
        subprocess.run([sys.argv[1], given, results], check=True)
        with open(results) as file:
            actual = json.load(file)
    failed = len(actual) != len(all_cases)
    for case, result in zip(all_cases, actual):
        pairs = [(a, e) for ours, theirs in zip(result, case.expected(), strict=True)
                 for a, e in zip(ours, theirs, strict=True)]
        error = max(abs(a - e) / max(1.0, abs(e)) for a, e in pairs)
        moved = max(abs(e - s) for (_, e), s in zip(pairs, sum(flat(case.start), [])))
        good = error <= 2e-6 and moved > 1e-3
        failed = failed or not good
        print(f"{'ok  ' if good else 'FAIL'} {case.name}: at most {error:.1e} apart, of {moved:.1e} that it moved")
    sys.exit(1 if failed else 0)


main()
