# SPDX-License-Identifier: Apache-2.0
"""What a soak says about its runs: how much of their time was of use, and what their processes gained."""
import collections
import dataclasses
import os
import statistics

import processes

USEFUL = ("training", "save stall")  # buckets of the ledger that a run without faults has as well


@dataclasses.dataclass
class Run:
    ledger: dict  # of "distdl status --goodput --json"
    faults: list  # rows of the storm
    seconds: float  # from its first step to its last

    def useful(self):
        return sum(self.ledger["seconds"][name] for name in USEFUL)

    def as_json(self):
        return {"seconds": self.ledger["seconds"], "from_first_to_last_step": self.seconds, "faults": len(self.faults)}


def costs_of(runs):
    """Seconds that a fault of each kind costs in the mean: without training, and with steps done twice."""
    seconds = collections.defaultdict(list)
    for run in runs:
        lost_work = run.ledger["seconds"]["lost work"]
        repeated = sum(row["repeated"] for row in run.faults)
        for row in run.faults:
            seconds[row["kind"]].append(row["seconds"] + (lost_work * row["repeated"] / repeated if repeated else 0))
    return {kind: statistics.mean(values) for kind, values in seconds.items()}


def report(runs):
    """The model: useful time, and for each fault what its kind has cost in the first half of the runs."""
    half = len(runs) // 2
    if half == 0:
        return "fewer than two runs: no goodput to foretell"
    costs, later = costs_of(runs[:half]), runs[half:]
    faults = [row for run in later for row in run.faults]
    known = statistics.mean(costs.values()) if costs else 0
    useful, seconds = sum(run.useful() for run in later), sum(run.seconds for run in later)
    foretold = 1 - sum(costs.get(row["kind"], known) for row in faults) / seconds
    rows = [f"{kind} {cost:.1f} s" for kind, cost in sorted(costs.items())]
    return (f"goodput of the last {len(later)} of {len(runs)} runs: {useful / seconds:.3f} measured, {foretold:.3f} by the costs of the "
            f"first {half}; {len(faults)} faults in {seconds:.0f} s\nseconds per fault there: {', '.join(rows)}")


class Growth:
    """Memory and descriptors of agents and supervisors, which live through many faults."""

    def __init__(self):
        self.first, self.last = {}, {}

    def look(self, folder):
        for one in processes.with_text(f"run.dir={folder}"):
            if len(one.words) < 2 or one.words[1] not in ("agent", "run"):
                continue
            try:
                with open(f"/proc/{one.pid}/statm") as file:
                    kib = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
                found = (one.words[1], kib, len(os.listdir(f"/proc/{one.pid}/fd")))
            except OSError:
                continue  # ended
            first, count, _ = self.first.setdefault(one.pid, (found, 0, None))
            self.first[one.pid] = (first, count + 1, None)
            self.last[one.pid] = found

    def report(self):
        rows = []
        for verb in ("agent", "run"):
            lived = [(count, self.last[pid][1] - first[1], self.last[pid][2] - first[2])
                     for pid, (first, count, _) in self.first.items() if first[0] == verb and count > 1]
            if lived:
                rows.append(f"distdl {verb}: of {len(lived)} processes that lived through several faults (up to {max(lived)[0]}), the most "
                            f"gained was {max(kib for _, kib, _ in lived)} KiB and {max(files for *_, files in lived)} descriptors")
        return "\n".join(rows) or "no process lived through several faults"
