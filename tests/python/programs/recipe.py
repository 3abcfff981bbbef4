# SPDX-License-Identifier: Apache-2.0
"""A recipe of examples/pytorch as it is, but with another number of steps, of samples in each, and of seconds that each step takes at least.

usage: recipe.py RECIPE STEPS [SECONDS [BATCH]]
"""
import pathlib
import runpy
import sys
import time

RECIPES = pathlib.Path(__file__).resolve().parents[3] / "examples/pytorch"
sys.path.insert(0, str(RECIPES))
import digits  # noqa: E402

name, digits.STEPS = sys.argv[1], int(sys.argv[2])
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
digits.BATCH = int(sys.argv[4]) if len(sys.argv) > 4 else digits.BATCH
make_network = digits.network


def wait(*_):
    """A hook before the forward pass."""
    time.sleep(seconds)


def network():
    network = make_network()
    network.register_forward_pre_hook(wait)
    return network


digits.network = network
sys.argv[1:] = []
runpy.run_path(str(RECIPES / f"{name}.py"), run_name="__main__")
