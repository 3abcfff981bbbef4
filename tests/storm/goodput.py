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


def goodput_of(runs):
    """Share of useful time, and the other seconds per fault. Faults that overlap cost once what they cost together."""
    useful, seconds = sum(run.useful() for run in runs), sum(run.seconds for run in runs)
    return useful / seconds, (seconds - useful) / max(1, sum(len(run.faults) for run in runs))


def report(runs):
    """The model: each fault costs what one has cost on the average in the first half of the runs."""
    half = len(runs) // 2
    if half == 0:
        return "fewer than two runs: no goodput to foretell"
    later = runs[half:]
    faults, seconds = sum(len(run.faults) for run in later), sum(run.seconds for run in later)
    measured, (_, cost) = goodput_of(later)[0], goodput_of(runs[:half])
    rows = [f"{kind} {seconds:.1f} s" for kind, seconds in sorted(costs_of(runs).items())]
    return (f"goodput of the last {len(later)} of {len(runs)} runs: {measured:.3f} measured, {1 - faults * cost / seconds:.3f} by the {cost:.1f} s "
            f"that a fault cost in the first {half}; {faults} faults in {seconds:.0f} s\nseconds until training went on, and of steps done twice, with "
            f"faults that overlap: {', '.join(rows)}")


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
