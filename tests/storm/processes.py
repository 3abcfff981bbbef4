# SPDX-License-Identifier: Apache-2.0
"""The processes of a run, on whatever machine of the pocket cluster: the host sees them all."""
import dataclasses
import os
import signal

@dataclasses.dataclass
class Process:
    pid: int
    words: list

    def parent(self):
        with open(f"/proc/{self.pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])

    def variable(self, name):
        with open(f"/proc/{self.pid}/environ") as file:
            found = [entry for entry in file.read().split("\0") if entry.startswith(f"{name}=")]
        return found[0].split("=", 1)[1] if found else ""

    def signal(self, number):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def listens_on(self):
        """(address, port) of each of its listening sockets."""
        own = set()
        for descriptor in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                own.add(os.readlink(f"/proc/{self.pid}/fd/{descriptor}"))
            except OSError:
                pass  # closed
        found = []
        with open(f"/proc/{self.pid}/net/tcp") as file:
            for line in list(file)[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == "0A" and f"socket:[{inode}]" in own:
                    address, port = local.split(":")
                    found.append((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
        return found

def with_text(text):
    """All that have `text` in their command line, but for this one and its ancestors."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                line = file.read()
        except OSError:
            continue  # ended
        if text in line and pid not in (os.getpid(), os.getppid()):
            found.append(Process(pid, line.split("\0")[:-1]))
    return found

def _of_run(folder, condition):
    return [one for one in with_text(f"run.dir={folder}") if len(one.words) > 1 and condition(one.words)]

def ranks(folder):
    """In the order of their numbers."""
    found = _of_run(folder, lambda words: words[0].endswith("/distdl") and words[1] == "worker")
    return sorted(found, key=lambda one: (len(number := rank_of(one)), number))

def rank_of(one):
    try:
        return one.variable("SLURM_PROCID")
    except OSError:
        return ""  # ended

def supervisors(folder):
    return _of_run(folder, lambda words: words[0].endswith("distdl") and words[1] == "run")

def sruns(folder):
    """Those that the supervisors started; each has a child of the same name that cleans up after it."""
    above = {one.pid for one in supervisors(folder)}
    return [one for one in _of_run(folder, lambda words: words[0] == "srun") if one.parent() in above]

def of_cluster(name):
    """Daemons of the cluster in use."""
    found = []
    for one in with_text(name):
        try:
            if one.words[0] == name and one.variable("SLURM_CONF") == os.environ["SLURM_CONF"]:
                found.append(one)
        except OSError:
            pass  # ended
    return found


KILL, STOP, CONTINUE, END, STOP_RUN = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM, signal.SIGUSR1
