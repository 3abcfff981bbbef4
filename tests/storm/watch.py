# SPDX-License-Identifier: Apache-2.0
"""Follows a run from outside: when each step and each start came."""
import json
import threading
import time


class Lines:
    """The new objects of a file of JSON lines that grows."""

    def __init__(self, path):
        self.path, self.read, self.rest = path, 0, b""

    def new(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.read)
                data = file.read()
        except OSError:
            return []
        self.read += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        rows = []
        for line in lines:
            try:
                rows.append(json.loads(line))
            except ValueError:
                pass  # torn by a kill or a full disk
        return rows


class Watch(threading.Thread):
    """Its clock is time.monotonic()."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder = folder
        self.steps = []  # (time, step) of each row
        self.starts = []  # (time, event)
        self.over = threading.Event()
        self.start()

    def run(self):
        metrics, journal = Lines(f"{self.folder}/metrics.jsonl"), Lines(f"{self.folder}/journal.jsonl")
        while not self.over.wait(0.05):
            now = time.monotonic()
            self.starts += [(now, row) for row in journal.new() if row["event"] == "started"]
            self.steps += [(now, row["step"]) for row in metrics.new() if "loss" in row]

    def stop(self):
        self.over.set()
        self.join(5)

    def step(self):
        return self.steps[-1][1] if self.steps else 0

    def steps_after(self, moment):
        return [row for row in self.steps if row[0] > moment]

    def starts_after(self, moment):
        return [event for when, event in self.starts if when > moment]

    def trains_since(self, moment):
        """Whether steps came after `moment`, and after the last start too."""
        last_start = self.starts[-1][0] if self.starts else moment
        return bool(self.steps_after(max(moment, last_start)))

    def outage(self, moment):
        """How long after `moment` it took until training went on for good; 0 if it never stood still for 2 s."""
        end = moment
        starts = [when for when, _ in self.starts if when > moment]
        rows = [when for when, _ in self.steps]
        if starts:
            end = min((when for when in rows if when >= starts[-1]), default=starts[-1])
        for before, after in zip(rows, rows[1:]):
            if after > moment and after - max(before, moment) > 2:
                end = max(end, after)
        return end - moment


