# SPDX-License-Identifier: Apache-2.0
"""What a run that is over must not leave behind."""
import os
import re

import pocket
import processes

IN_RUN = re.compile(r"\.(stage|trash)|quarantine")
ON_NODE = re.compile(r"distdl|^\.?ucx", re.IGNORECASE)
SNAPSHOT = re.compile(r"distdl\.slot-")

LIST = """ls -A /dev/shm /tmp; ipcs -m | awk 'NR > 3 && NF { print "ucx-sysv-" $2 }'"""


def left(storm):
    """Lines for people; none where nothing is left, but for snapshots on nodes that the job had to leave."""
    found = [f"process {one.pid}: {' '.join(one.words)}" for one in processes.with_text(storm.run.folder)]
    found += [f"reader {one.pid}" for one in processes.with_text(storm.console)]
    for folder, _, _ in os.walk(storm.run.folder):
        if IN_RUN.match(os.path.basename(folder)):
            found.append(f"folder {folder}")
    others = nodes_left(storm)
    for node in storm.nodes:
        found += [f"{node}: {name}" for name in on_node(node) if not (node in others and SNAPSHOT.match(name))]
    return found


def nodes_left(storm):
    """Those that the job had no more when it ended: whoever starts there removes what it had in their memory."""
    return set(storm.nodes) - set(pocket.call("scontrol", "show", "hostnames", storm.job.field("NodeList")).split())


def on_node(node):
    names = pocket.call(pocket.TOOL, "exec", node, "bash", "-c", LIST)
    return [name for name in names.split() if ON_NODE.search(name)]
