# SPDX-License-Identifier: Apache-2.0
"""Processes that meet in a folder, as "distdl run" starts them on one machine."""
import os
import subprocess
import tempfile


def start(folder, count, *command):
    """The ranks, which print to pipes."""
    meeting = tempfile.mkdtemp(dir=folder)
    processes = []
    for rank in range(count):
        variables = {"DISTDL_RANK": str(rank), "DISTDL_WORLD_SIZE": str(count), "DISTDL_RENDEZVOUS": meeting,
                     "DISTDL_LAUNCH_ID": os.path.basename(meeting), "UCX_NET_DEVICES": "lo"}
        processes.append(subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True, env={**os.environ, **variables}))
    return processes


def finish(processes, patience):
    """Exit codes; what rank 0 printed; the errors of all."""
    outputs = [process.communicate(timeout=patience) for process in processes]
    return [process.returncode for process in processes], outputs[0][0], "".join(errors for _, errors in outputs)


def kill(processes):
    for process in processes:
        process.kill()
