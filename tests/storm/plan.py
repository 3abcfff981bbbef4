# SPDX-License-Identifier: Apache-2.0
"""What a storm does, and when: a pure function of its seed."""
import dataclasses
import random

KINDS = ("power", "cut", "freeze", "rank", "supervisor", "srun", "preempt", "requeue", "limit", "controller", "disk",
         "console", "rogue")
NODES = 3
COMM_TIMEOUT = 10  # comm.timeout_seconds of all runs

# Where steps are kept, besides the last one. One of them per run.
LEVELS = {
    "checkpoints": ["checkpoint.every=10"],
    "sparse": ["checkpoint.every=60"],
    "memory": ["checkpoint.every=60", "checkpoint.memory_every=2", "checkpoint.partner_every=6"],
    "parity": ["checkpoint.every=60", "checkpoint.memory_every=3", "checkpoint.parity_every=6"],
}


@dataclasses.dataclass
class Fault:
    kind: str
    early: bool  # does not wait until training goes on after the fault before
    delay: float  # seconds before it
    victim: float  # 0 .. 1: which of those that there are then
    how: dict  # what else its kind has to know

    def __str__(self):
        words = [self.kind, *(f"{key}={value}" for key, value in self.how.items()), *(["early"] if self.early else [])]
        return " ".join(words)


@dataclasses.dataclass
class RunPlan:
    number: int
    levels: str
    ranks_per_node: int
    faults: list

    def __str__(self):
        return f"run {self.number}: {self.levels}, {self.ranks_per_node} ranks a node"


def _how(kind, draw, slurmd_timeout):
    if kind == "power":  # "until": seconds until the node is on again, or when training goes on without it
        on_host = draw.random() < 0.4
        # Without its batch host a job waits until Slurm gives it up.
        rarely = on_host and slurmd_timeout > 60 and draw.random() < 0.85
        return {"node": "batch" if on_host else "any",
                "until": draw.choice((5, 20, 45) if rarely else (5, 20, 45, "resumed"))}
    if kind == "cut":
        return {"seconds": draw.choice((15, 15, 45, 45, 100))}
    if kind == "freeze":
        return {"seconds": draw.choice((1, 4, 2 * COMM_TIMEOUT))}
    if kind == "preempt":
        return {"seconds": draw.choice((1, 5))}
    if kind == "controller":
        return {"seconds": draw.choice((30, 45, 60)), "meanwhile": draw.choice(("nothing", "stop"))}
    if kind == "disk":
        return {"seconds": draw.choice((4, 12))}
    if kind == "rogue":
        return {"packets": draw.choice((1, 3))}
    return {}


def make_plan(seed, count, kinds=KINDS, slurmd_timeout=10, per_run=8, mean=None):
    """Runs with `count` faults in all. Each kind has its turn before any has the next. `mean`: seconds from when training goes on
    until the next fault, with an exponential distribution; else they follow each other closely."""
    draw = random.Random(f"{seed} {slurmd_timeout}")
    order = []
    while len(order) < count:
        order += draw.sample(kinds, len(kinds))
    faults = [Fault(kind, draw.random() < 0.15, round(draw.expovariate(1 / mean) if mean else draw.uniform(0.2, 3), 2),
                    round(draw.random(), 4),
                    _how(kind, draw, slurmd_timeout)) for kind in order[:count]]
    runs = [RunPlan(start // per_run + 1, draw.choice(sorted(LEVELS)), draw.choice((1, 1, 1, 2)),
                    faults[start:start + per_run]) for start in range(0, count, per_run)]
    for run in runs:
        for fault in run.faults:
            # docs/recovery.md: Slurm 22.05 then waits for as many nodes as there were.
            if run.ranks_per_node > 1 and fault.how.get("until") == "resumed":
                fault.how["until"] = 45
    return runs
