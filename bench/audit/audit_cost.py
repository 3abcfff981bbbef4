# SPDX-License-Identifier: Apache-2.0
"""What audits cost: steps with an audit before them and steps without one take turns in the same runs.
python3 bench/audit/audit_cost.py build/bin/distdl STEPS RUNS model.name=lenet [KEY=VALUE ...]"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

EVERY = 4  # steps from one audit to the next


def times_of(rows):
    """Seconds of the steps with and without an audit."""
    audited, others = [], []
    for before, row in zip(rows, rows[1:]):
        (audited if before["step"] % EVERY == 0 else others).append(row["time"] - before["time"])
    return audited, others


def main(program, steps, runs, *keys):
    program = pathlib.Path(program).resolve()
    words = [word for key in (*keys, f"train.steps={steps}", f"train.audit_every={EVERY}") for word in ("--set", key)]
    with tempfile.TemporaryDirectory() as folder:
        def distdl(*command):
            subprocess.run([program, *command], cwd=folder, check=True, capture_output=True)
        distdl("data", "make", "shapes", "set.h5", "--samples", "4000", "--size", "28")
        (pathlib.Path(folder) / "job.toml").write_text('[data]\ntrain = "set.h5"\n[checkpoint]\nevery = 0\n')
        audited, others = [], []
        for run in range(int(runs)):
            distdl("run", "--local", "-n", "2", "job.toml", "--set", f"run.dir=run{run}", *words)
            lines = (pathlib.Path(folder) / f"run{run}/metrics.jsonl").read_text().splitlines()
            for all_, new in zip((audited, others), times_of([row for row in map(json.loads, lines) if "loss" in row])):
                all_ += new
    with_one, without = statistics.median(audited), statistics.median(others)
    print(f"{len(audited)} audits: a step {1000 * without:.2f} ms, with an audit {1000 * with_one:.2f} ms; "
          f"train.audit_every = 100 costs {(with_one - without) / without:.2f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
