# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits (MNIST's test images), a small network for them, and its accuracy. Shared by the recipes beside this file.

Folder with t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz: $DISTDL_TEST_DATA, or shared/data beside the project.
"""
import gzip
import os
import pathlib

import torch

BATCH, STEPS = 50, 60  # samples of a rank and step; steps


def folder():
    beside = pathlib.Path(__file__).resolve().parents[3] / "shared/data"
    return pathlib.Path(os.environ.get("DISTDL_TEST_DATA", beside))


def load():
    """Training images (9000, 784) in 0 .. 1 and labels (9000), then 1000 of each for validation."""
    def read(name, header):
        return torch.frombuffer(bytearray(gzip.decompress((folder() / name).read_bytes())[header:]), dtype=torch.uint8)

    images = read("t10k-images-idx3-ubyte.gz", 16).view(-1, 784).float() / 255
    labels = read("t10k-labels-idx1-ubyte.gz", 8).long()
    return images[:9000], labels[:9000], images[9000:], labels[9000:]


def network():
    return torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()
