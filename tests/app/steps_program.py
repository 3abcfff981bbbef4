#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A data-parallel program of the usual shape, of the standard library alone: ranks meet at MASTER_ADDR, each step is a sum over all ranks,
rank 0 saves now and then. Its state after so many steps does not depend on the number of ranks.
  steps_program.py FOLDER STEPS [SECONDS_OF_A_STEP [OPTION ...]]
Options: ask (it asks distdl whether to stop, else signals tell it), zero (it ends with 0 where it is stopped), done (it says when all is
done), deaf (it ignores SIGTERM), silent (no line tells the step), fail=STEP (an exception there, once), leave (a daemon outlives it)."""
import json
import os
import signal
import socket
import struct
import sys
import time

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 0
OPTIONS = dict((word.split("=") + [""])[:2] for word in sys.argv[4:])
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MICROBATCHES, SAVE_EVERY, PRIME = 12, 20, (1 << 61) - 1
asked = False


def note_signal(number, _frame):
    global asked
    asked = True


class Sum:
    """Over all ranks, by rank 0."""

    def __init__(self):
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if RANK == 0:
            server = socket.create_server(address, backlog=SIZE)  # which sets SO_REUSEADDR, as torch does
            self.others = [server.accept()[0] for _ in range(SIZE - 1)]
            return
        end = time.monotonic() + 60
        while True:
            try:
                self.others = [socket.create_connection(address)]
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    @staticmethod
    def receive(other):
        data = b""
        while len(data) < 16:
            piece = other.recv(16 - len(data))
            if not piece:
                raise RuntimeError("Connection closed by peer")  # as Gloo says
            data += piece
        return struct.unpack("QQ", data)

    def __call__(self, *mine):
        if RANK == 0:
            total = [sum(parts) % PRIME for parts in zip(mine, *(self.receive(other) for other in self.others))]
            for other in self.others:
                other.sendall(struct.pack("QQ", *total))
            return total
        self.others[0].sendall(struct.pack("QQ", *mine))
        return self.receive(self.others[0])


class Contract:
    """The lines of docs/programs.md, without a library."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["DISTDL_CONTRACT"])
        self.lines = self.socket.makefile("r")
        self.calls, self.told = 0, {}

    def send(self, **message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def read(self, wait):
        self.socket.setblocking(wait)
        try:
            while line := self.socket.recv(4096, 0 if wait else socket.MSG_DONTWAIT):
                for each in line.decode().splitlines():
                    self.told.update(json.loads(each))
                if wait:
                    return
        except BlockingIOError:
            pass
        finally:
            self.socket.setblocking(True)

    def should_stop(self):
        self.calls += 1
        self.send(asks=True, call=self.calls)
        self.read(False)
        while self.told.get("asked") and "stop_at" not in self.told:
            self.read(True)
        return "stop_at" in self.told and self.calls >= self.told["stop_at"]


def load():
    try:
        with open(f"{FOLDER}/state.json") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"step": 0, "value": 1}


def save(state):
    if RANK != 0:
        return
    with open(f"{FOLDER}/state.new", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{FOLDER}/state.new", f"{FOLDER}/state.json")


def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in OPTIONS else note_signal)
    contract = Contract() if "ask" in OPTIONS or "done" in OPTIONS else None
    os.makedirs(FOLDER, exist_ok=True)
    if "leave" in OPTIONS and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execlp("sleep", f"left-behind-{OPTIONS['leave']}", "1000")
        os._exit(0)
    state = load()
    add = Sum()
    print(f"rank {RANK} of {SIZE} begins at step {state['step']}")
    while state["step"] < STEPS:
        time.sleep(SECONDS)
        step, value = state["step"], state["value"]
        if "fail" in OPTIONS and step == int(OPTIONS["fail"]) and RANK == SIZE - 1 and not os.path.exists(f"{FOLDER}/failed"):
            open(f"{FOLDER}/failed", "w").close()
            raise ValueError(f"wrong at step {step}")
        part = sum(pow(value + step, m + 2, PRIME) for m in range(RANK, MICROBATCHES, SIZE)) % PRIME
        total, stops = add(part, int(asked))
        state = {"step": step + 1, "value": (value * 31 + total) % PRIME}
        if RANK == 0 and "silent" not in OPTIONS:
            print(f"step {state['step']}/{STEPS} loss {total / PRIME:.6f}")
        if state["step"] % SAVE_EVERY == 0:
            save(state)
        if contract and "ask" in OPTIONS:
            stops = contract.should_stop()
        if stops and "deaf" not in OPTIONS:
            save(state)
            print(f"rank {RANK} stops after step {state['step']}")
            sys.exit(0 if "zero" in OPTIONS else 75)
    save(state)
    if contract and "done" in OPTIONS:
        contract.send(finished=True)
    if RANK == 0:
        with open(f"{FOLDER}/end", "w") as file:
            print(state["value"], file=file)


main()
