# SPDX-License-Identifier: Apache-2.0
"""A parameter server of PyTorch's RPC, for bench/parameter_server_two_nodes.

usage: parameter_server_torch.py RANK HOST PORT

HOST and PORT are rank 0's, which has the worker; rank 1 has the server. Rank 0 reads lines "measure BYTES SECONDS" and answers "times T1 T2 ...": seconds of
a pull of BYTES of parameters and a push of as many bytes of gradients, which the server adds, each the mean of a block. It ends with its input.
"""
import os
import sys
import time

import torch
import torch.distributed.rpc as rpc

BLOCKS = 5
parameters = None  # of the server


def begin(count):
    global parameters
    parameters = torch.zeros(count)


def pull():
    return parameters


def push(gradients):
    parameters.add_(gradients)


def block(gradients, pushes, done):
    start = time.perf_counter()
    for number in range(pushes):
        pulled = rpc.rpc_sync("1", pull)
        if pulled[-1] != done + number:
            sys.exit("the parameters do not have the gradients that were pushed")
        rpc.rpc_sync("1", push, (gradients,))
    return (time.perf_counter() - start) / pushes, done + pushes


def measure(size, seconds):
    gradients = torch.ones(int(size) // 4)
    rpc.rpc_sync("1", begin, (len(gradients),))
    _, done = block(gradients, 2, 0)
    one, done = block(gradients, 2, done)
    pushes = max(2, int(float(seconds) / BLOCKS / one))
    times = []
    for _ in range(BLOCKS):
        mean, done = block(gradients, pushes, done)
        times.append(mean)
    return times


def main():
    rank, os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = sys.argv[1:]
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, rpc_timeout=120)
    rpc.init_rpc(rank, rank=int(rank), world_size=2, rpc_backend_options=options)
    if rank == "0":
        print(f"ready PyTorch {torch.__version__}", flush=True)
        for line in sys.stdin:
            _, size, seconds = line.split()
            print("times", *measure(size, seconds), flush=True)
    rpc.shutdown()


main()
