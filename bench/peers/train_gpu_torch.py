#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/gpu_vs_torch: training steps in bf16 on random input, by torch.compile, flash attention, fused
optimizers and channels-last images.

usage: train_gpu_torch.py gpt2|resnet50-224|peak [--batch N] [--steps 30] [--eager]

Prints JSON: step_ms (median), samples_per_s, terms_per_s (tokens or images); for "peak" the rate of a large product of
matrices in bf16, tflops.
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (part.view(n, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, t, c))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """124 million parameters, without dropout."""

    def __init__(self, vocabulary=50304, context=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        fits = stride == 1 and channels == out
        self.skip = nn.Identity() if fits else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False),
                                                             nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def timed(act, steps):
    """Median seconds of act(), which ends with a value on the host."""
    for _ in range(5):
        act()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def peak(steps):
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def products():
        for _ in range(10):
            c = a @ b
        c[0, 0].item()

    return 10 * 2 * size**3 / timed(products, steps) / 1e12


def case(name, batch):
    """Model, input, labels, optimizer, and terms of the loss of a sample. The input comes from the host each step."""
    if name == "gpt2":
        model = Gpt2().cuda()
        inputs, labels = (torch.randint(50257, (batch, 1024)).pin_memory() for _ in range(2))
        return model, inputs, labels, torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=True), 1024
    model = resnet50().cuda().to(memory_format=torch.channels_last)
    inputs = torch.rand(batch, 3, 224, 224).contiguous(memory_format=torch.channels_last).pin_memory()
    labels = torch.randint(1000, (batch,)).pin_memory()
    return model, inputs, labels, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True), 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("gpt2", "resnet50-224", "peak"))
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch can use")
    if args.model == "peak":
        return print(json.dumps({"tflops": peak(args.steps), "peer": f"PyTorch {torch.__version__}"}))
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    batch = args.batch or {"gpt2": 16, "resnet50-224": 256}[args.model]
    model, inputs, labels, optimizer, terms = case(args.model, batch)
    forward = model if args.eager else torch.compile(model)

    def step():
        x, y = inputs.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = forward(x)
            loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    seconds = timed(step, args.steps)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "batch": batch, "step_ms": seconds * 1e3,
                      "samples_per_s": batch / seconds, "terms_per_s": batch * terms / seconds,
                      "peak_mib": torch.cuda.max_memory_allocated() / 2**20}))


if __name__ == "__main__":
    main()
