# SPDX-License-Identifier: Apache-2.0
"""How each kind of fault is done to a run, and undone. Each function returns when it is undone, or the run is to go on without
what it lost; what it returns is the victim, for people."""
import os
import time

import pocket
import processes

# For UCX over TCP: the magic number of a connection, then the header of a message that is said to be 4 GiB long.
ROGUE_PACKET = bytes.fromhex("78563412bebafeca") + b"\x1f" + b"\xff\xff\xff\xff"

# These end the launch that is under way; after others it may go on.
ENDS_THE_LAUNCH = {"power", "rank", "supervisor", "srun", "preempt", "requeue", "limit"}


class NoVictim(Exception):
    """There is nobody to whom it could be done."""


def pick(fault, victims):
    if not victims:
        raise NoVictim(f"no victim for {fault}")
    return victims[min(int(fault.victim * len(victims)), len(victims) - 1)]


def a_rank(storm, fault):
    one = pick(fault, processes.ranks(storm.run.folder))
    try:
        return one, f"rank {processes.rank_of(one)} on {one.variable('SLURMD_NODENAME')}"
    except OSError:
        raise NoVictim("the rank just ended")


def a_node(storm, fault):
    """Of the job: its batch host, or any."""
    if storm.job.state() != "RUNNING":
        raise NoVictim("the job has no nodes just now")
    if fault.how.get("node") == "batch":
        return storm.job.field("BatchHost")
    return pick(fault, pocket.call("scontrol", "show", "hostnames", storm.job.field("NodeList")).split())


def power(storm, fault):
    node = a_node(storm, fault)
    if storm.args.slurmd_timeout > 60 and node == storm.job.field("BatchHost"):
        # docs/recovery.md: Slurm notices a batch host that is back at once only later than 20 s after the last launch.
        storm.pause(25)
    began = time.monotonic()
    storm.cluster.tool("kill", node)
    if fault.how["until"] == "resumed":
        storm.wait_to_go_on(began, a_new_start=True)
    else:
        storm.pause(fault.how["until"])
    storm.repair(node)
    return node


def cut(storm, fault):
    node = a_node(storm, fault)
    storm.cluster.tool("cut", node)
    storm.pause(fault.how["seconds"])
    storm.repair(node)
    return node


def freeze(storm, fault):
    one, name = a_rank(storm, fault)
    one.signal(processes.STOP)
    storm.pause(fault.how["seconds"])
    one.signal(processes.CONTINUE)
    return name


def rank(storm, fault):
    one, name = a_rank(storm, fault)
    one.signal(processes.KILL)
    return name


def supervisor(storm, fault):
    pick(fault, processes.supervisors(storm.run.folder)).signal(processes.KILL)
    return "the supervisor"


def srun(storm, fault):
    pick(fault, processes.sruns(storm.run.folder)).signal(processes.KILL)
    return "srun"


def preempt(storm, fault):
    nodes = storm.usable_nodes()
    urgent = storm.cluster.submit("--partition=urgent", "--exclusive", f"--nodes={nodes}", "--wrap",
                                  f"sleep {fault.how['seconds']}")
    pocket.wait_for("the urgent job to end", lambda: urgent.state() == "COMPLETED", 240, urgent.story)
    return f"all {nodes} nodes"


def requeue(storm, fault):
    if pocket.finished("scontrol", "requeue", storm.job.number).returncode != 0:
        raise NoVictim(f"the job is {storm.job.state()}")
    return "the job"


def set_limit(storm, minutes):
    changed = pocket.finished("scontrol", "update", f"JobId={storm.job.number}", f"TimeLimit={minutes}")
    if changed.returncode != 0 and storm.run.finished():
        raise NoVictim("the job just ended")
    # job_post_resize_acctg() of Slurm 22.05 takes the job's index in the database away, which only slurmdbd gives back.
    if changed.returncode != 0 and storm.job.field("ResizeTime"):
        raise NoVictim("without slurmdbd Slurm changes no job that it has made smaller")
    assert changed.returncode == 0, changed.stderr


def limit(storm, fault):
    """Slurm looks at time limits every 30 s: what is left is more, but less than the script's --signal asks for."""
    began = time.monotonic()
    minutes, seconds = storm.job.field("RunTime").split(":")[-2:]
    set_limit(storm, int(minutes) + 1 + (int(seconds) > 25))
    storm.wait_to_go_on(began, a_new_start=True)
    set_limit(storm, 60)
    return "the job"


def controller(storm, fault):
    # Without a chance to save its state, slurmctld forgets what began within the last seconds, and ends it when it is back.
    for one in processes.of_cluster("slurmctld"):
        one.signal(processes.END)
    pocket.wait_for("slurmctld to end", lambda: not processes.of_cluster("slurmctld"), 30)
    if fault.how["meanwhile"] == "stop":
        storm.pause(2)
        for one in processes.supervisors(storm.run.folder):
            one.signal(processes.STOP_RUN)
    storm.pause(fault.how["seconds"])
    storm.cluster.tool("restart", "ctl")
    return "slurmctld"


def disk(storm, fault):
    path = f"{storm.disk}/filling"
    with open(path, "wb") as file:
        space = os.fstatvfs(file.fileno())
        try:
            os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize)
            while True:
                os.write(file.fileno(), bytes(4096))
        except OSError:
            pass  # it is full
    storm.pause(fault.how["seconds"])
    os.remove(path)
    return "the run's file system"


def console(storm, fault):
    for reader in processes.with_text(storm.console):
        reader.signal(processes.KILL)
    storm.pause(1)
    return "the reader of the job's output"


def rogue(storm, fault):
    one, name = a_rank(storm, fault)
    node = one.variable("SLURMD_NODENAME")
    sender = next(other for other in ("n1", "n2", "n3") if other != node)
    program = ("import socket, sys\n"
               "for word in sys.argv[2:]:\n"
               "    address, port = word.split(':')\n"
               "    try:\n"
               "        with socket.create_connection((address, int(port)), timeout=2) as one:\n"
               "            one.sendall(bytes.fromhex(sys.argv[1]))\n"
               "            one.settimeout(0.2)\n"
               "            one.recv(64)\n"
               "    except OSError:\n"
               "        pass\n")
    ports = [f"{node if address == '0.0.0.0' else address}:{port}" for address, port in one.listens_on()]
    if not ports:
        raise NoVictim(f"{name} listens on no port")
    for _ in range(fault.how["packets"]):
        pocket.finished(pocket.TOOL, "exec", sender, "python3", "-c", program, ROGUE_PACKET.hex(), *ports)
    return f"{len(ports)} ports of {name}"


HOW = {function.__name__: function for function in
       (power, cut, freeze, rank, supervisor, srun, preempt, requeue, limit, controller, disk, console, rogue)}
