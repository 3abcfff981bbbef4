# SPDX-License-Identifier: Apache-2.0
"""A network of NumPy arrays learns handwritten digits (MNIST's test images): data parallel, and stopped and resumed as one likes.

    distdl run --local -n 2 -- python3 train.py
"""
import gzip
import os
import pathlib

import numpy as np

import distdl

BATCH, STEPS, RATE = 60, 600, 0.2  # samples of a step, which the ranks divide; steps; learning rate
FOLDER = pathlib.Path(os.environ.get("DISTDL_TEST_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data"))


def read(name, header):
    return np.frombuffer(gzip.decompress((FOLDER / name).read_bytes())[header:], np.uint8)


def outputs(net, images):
    hidden = np.maximum(images @ net["w1"] + net["b1"], 0)
    return hidden, hidden @ net["w2"] + net["b2"]


def gradients(net, images, labels):
    """Of the sum of the losses, and that sum."""
    hidden, logits = outputs(net, images)
    logits -= logits.max(axis=1, keepdims=True)
    error = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    loss = -np.log(error[np.arange(len(labels)), labels]).sum()
    error[np.arange(len(labels)), labels] -= 1
    back = (error @ net["w2"].T) * (hidden > 0)
    return {"w1": images.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ error, "b2": error.sum(axis=0), "loss": np.array([loss])}


images, labels = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255, read("t10k-labels-idx1-ubyte.gz", 8)
chance = np.random.default_rng(1)
net = {"w1": chance.normal(0, 0.05, (784, 64)), "b1": np.zeros(64), "w2": chance.normal(0, 0.1, (64, 10)), "b2": np.zeros(10)}
comm, state = distdl.Communicator(), {"net": net, "step": 0}
with distdl.Checkpoint(comm=comm) as checkpoint:
    checkpoint.load(state)  # the newest one, if there is any
    for step in range(state["step"], STEPS):
        batch = np.random.default_rng(step).choice(9000, BATCH)[comm.rank::comm.size]
        sums = gradients(net, images[batch], labels[batch])
        for each in sums.values():
            comm.all_reduce(each)
        for name, array in net.items():
            array -= RATE / BATCH * sums[name]
        distdl.metrics.log(loss=sums["loss"][0] / BATCH)
        distdl.run.progress(step + 1, STEPS)
        state["step"] = step + 1
        stop = distdl.run.should_stop()  # the same answer on all ranks
        if stop or (step + 1) % 100 == 0:
            checkpoint.save(step + 1, state, "now" if stop else "beside")
        if stop:
            distdl.run.requeue()
if comm.rank == 0:
    print(f"accuracy {(outputs(net, images[9000:])[1].argmax(axis=1) == labels[9000:]).mean():.3f}")
