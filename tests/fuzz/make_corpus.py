# SPDX-License-Identifier: Apache-2.0
"""make_corpus.py DIR DISTDL: writes the first inputs of the fuzzers to DIR/TARGET/. Small ones, made by hand in the shape of real files,
or by the program."""
import gzip
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "app"))
import torch_file  # noqa: E402


def box(at, extent, offset, blocks=1, file=0):
    return {"at": at, "extent": extent, "file": file, "offset": offset, "crc32c": [7] * blocks}


def document(files, tensors, state, **more):
    return {"format": 1, "step": 2, "written_at": 1700000000, "world": 1, "files": files, "tensors": tensors,
            "state": state, **more}


def file(size, name="node0000.h5"):
    return {"name": name, "bytes": size, "rest": 1}


WEIGHT = {"name": "parameter/conv1.weight", "dtype": "f32", "shape": [2, 3], "boxes": [box([0, 0], [2, 3], 8)]}
CUT = {"name": "rng", "dtype": "i64", "shape": [4],
       "boxes": [box([0], [2], 32), box([2], [2], 48)]}
SCALAR = {"name": "scale", "dtype": "bf16", "shape": [], "boxes": [box([], [], 64)]}
EMPTY = {"name": "void", "dtype": "u8", "shape": [0, 4], "boxes": []}
# A frame of zstd: magic, 80 bytes follow, the last block, in which one byte stands 80 times.
FRAME = bytes.fromhex("28b52ffd2050830200" "07")
CHUNKS = {"name": "packed", "dtype": "u8", "shape": [80],
          "boxes": [{"at": [0], "extent": [80], "file": 0, "crc32c": [7], "compression": "shuffle+zstd",
                     "chunks": [[0, len(FRAME), 7]]}]}
DOCUMENTS = {
    "one": document([file(80)], [WEIGHT], {}),
    "several": document([file(80)], [WEIGHT, CUT, SCALAR, EMPTY], {"config": "[train]\n", "raw": {"hex": "ff00"}}),
    "two-files": document([file(80), file(40, "node0001.h5")],
                          [{"name": "a", "dtype": "f64", "shape": [2], "boxes": [box([0], [1], 0), box([1], [1], 0, 1, 1)]}],
                          {}),
    "empty": document([], [], {}),
    "chunks": document([file(80)], [CHUNKS], {}, format=2),
    "newer": document([], [], {}, format=3),
}




def text(data):
    return struct.pack("<H", len(data)) + data


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def checkpoints():
    for name, content in DOCUMENTS.items():
        manifest = json.dumps(content, separators=(",", ":")).encode()
        data = FRAME + bytes(range(len(FRAME), 80)) if name == "chunks" else bytes(range(80))
        yield "manifest", name, b"\1" + manifest
        yield "folder", name, b"\1" + text(manifest) + data
    yield "manifest", "raw", b"\0" + b"{}\nsha256 " + b"0" * 64 + b"\n"


def safetensors():
    header = {"__metadata__": {"format": "pt", "distdl.step": "12"},
              "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
              "b.weight": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]},
              "none": {"dtype": "U8", "shape": [0, 9], "data_offsets": [22, 22]},
              "one": {"dtype": "I64", "shape": [], "data_offsets": [22, 30]}}
    whole = json.dumps(header, separators=(",", ":")).encode()
    yield "safetensors", "several", b"\1" + whole + bytes(30)
    yield "safetensors", "raw", b"\0" + struct.pack("<Q", len(whole)) + whole + bytes(30)
    yield "safetensors", "empty", b"\1{}"


def idx(*shape):
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


def imports():
    images, labels = idx(5, 2, 2) + bytes(range(20)), idx(5) + bytes([0, 1, 2, 0, 1])
    yield "idx", "plain", text(labels) + images
    yield "idx", "gzip", text(gzip.compress(labels, mtime=0)) + gzip.compress(images, mtime=0)
    yield "idx", "huge", text(labels) + idx(5, 32768, 32768)
    numbers = struct.pack("<6H", 1, 2, 300, 4, 5, 299)
    header = struct.pack("<256i", 20240520, 1, 6, *[0] * 253)
    yield "table", "plain", b"\0a,kind,\"b, c\"\n1.5,rose,2\n\n2,lily,-1e3\n"
    yield "table", "tabs", b"\1a\ty\r\n1\t10\r\n2\t9\r\n"
    array, archive, packed = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(array, np.arange(12, dtype="<f4").reshape(3, 4))
    with zipfile.ZipFile(archive, "w") as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as deflated:
        for out in plain, deflated:
            out.writestr(zipfile.ZipInfo("x.npy"), array.getvalue(), out.compression)
            out.writestr(zipfile.ZipInfo("readme.txt"), "no array")
    yield "arrays", "npy", array.getvalue()
    yield "arrays", "npz", archive.getvalue()
    yield "arrays", "npz-deflated", packed.getvalue()
    yield "arrays", "huge", array.getvalue().replace(b"(3, 4), }" + 9 * b" ", b"(3333333333, 4), }")
    yield "tokens", "plain", struct.pack("<H", 301) + numbers
    yield "tokens", "header", struct.pack("<H", 301) + gzip.compress(header + numbers, mtime=0)
    records = {0: b'{"text": "to be"}\n\n{"text": "or \\u00e9", "n": [1]}', 1: b'n,text\n1,"a ""b"",\n c"\n2,d', 2: b"text\tn\na\t1\n",
               3: b"to be or not to be"}
    for kind, content in records.items():
        yield "text_records", str(kind), bytes([kind]) + content
    yield "text_records", "gzip", b"\3" + gzip.compress(b"to be or not to be", mtime=0)
    yield "encode", "plain", "The theory isn't 12345, caf\u00e9 e\u0301.\r\n\n  <|x|>\u1100\u1161 aaaaaaa".encode() + b"\xff\xe4\xb8"
    letters = [chr(byte) if 0x20 < byte < 0x7F or byte > 0xA0 and byte != 0xAD else "" for byte in range(256)]
    others = iter(range(0x100, 0x200))
    letters = [letter or chr(next(others)) for letter in letters]
    tokenizer = {"added_tokens": [{"id": 258, "content": "<|x|>", "lstrip": True, "special": True}],
                 "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                 "decoder": {"type": "ByteLevel"},
                 "model": {"type": "BPE", "vocab": {each: number for number, each in enumerate([*letters, "he", "The"])},
                           "merges": ["h e", ["T", "he"]]}}
    yield "encode_pieces", "plain", "The theory isn't  12345, caf\u00e9.\n\n  the <|x|>\u2581aaaaaaa</s>".encode() + b"\xff\xe4\xb8"
    for name, algorithm in ("unigram", 1), ("bpe", 2):
        yield "sentencepiece", name, sentencepiece_model(algorithm)
    yield "tokenizer", "small", json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode()


def field(number, value):
    """Of protobuf: a message or a text, or a number below 128."""
    if isinstance(value, int):
        return bytes([number << 3, value]) if number < 16 else bytes([number << 3 & 0x7F | 0x80, number >> 4, value])
    length = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 0x7F | 0x80, len(value) >> 7])
    return bytes([number << 3 | 2]) + length + value


def sentencepiece_model(algorithm):
    """With a rule: "b" becomes "aa"."""
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<|x|>", 4), ("\u2581", 1), ("a", 1), ("aa", 1), ("\u2581a", 1), ("e", 1), ("he", 1), ("h", 5)]
    units = [0x80000000] * 512  # a double-array trie: the first leads to 256, "b" there to a result
    units[0], units[256 + ord("b")], units[ord("b") ^ 32] = 256 << 10, ord("b") | 1 << 8 | (256 ^ 32) << 10, 0x80000000
    rules = struct.pack("<I", 4 * len(units)) + struct.pack("<512I", *units) + b"aa\0"
    return b"".join(field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", -number) + field(3, kind)) for number, (text, kind) in enumerate(pieces)) \
        + field(2, field(3, algorithm)) + field(3, field(2, rules) + field(4, 0))


def data_sets(distdl):
    with tempfile.TemporaryDirectory() as folder:
        def made(kind, *files, options=()):
            names = []
            for number, content in enumerate(files):
                names.append(f"{folder}/{number}")
                pathlib.Path(names[-1]).write_bytes(content)
            subprocess.run([distdl, "data", "import", kind, *names, f"{folder}/out.h5", "--force", *options], check=True,
                           stdout=subprocess.DEVNULL)
            return pathlib.Path(f"{folder}/out.h5").read_bytes()
        images = made("idx", idx(5, 2, 2) + bytes(range(20)), idx(5) + bytes([0, 1, 2, 0, 1]))
        tokens = made("tokens", struct.pack("<6H", 1, 2, 300, 4, 5, 299), options=("--vocabulary", "301"))
        letters = made("text", b"to be or not to be")
    for name, content, kind, count in ("images", images, 0, 5), ("tokens", tokens, 1, 6), ("text", letters, 0, 18):
        yield "data_set", name, bytes([0, 0, 0]) + content
        yield "data_set", name + "-sealed", bytes([1, 0, 0]) + content
        yield "data_set", name + "-parts", bytes([3, kind, count - 1]) + content


def unallocated():
    """A data set that announces 2^50 tokens and has none. Nothing without h5py."""
    try:
        import h5py
    except ImportError:
        return
    samples = 2**50
    about = [b"distdl-data", 1, b"tokens", b"h5py", samples, 256, np.float32(0), np.float32(1)]
    crc = crc32c(b"".join(each + b"\0" if isinstance(each, bytes) else each.tobytes() if isinstance(each, np.float32)
                          else struct.pack("<q", each) for each in about))
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(f"{folder}/a.h5", "w", libver="latest") as out:
            names = "format", "version", "kind", "origin", "samples", "classes", "mean", "deviation", "description_crc32c"
            for name, value in zip(names, (*about, crc)):
                out.attrs[name] = np.int64(value) if isinstance(value, int) else value if isinstance(value, np.float32) else np.bytes_(value)
            out.create_dataset("tokens", (samples,), "u1", chunks=(65536,))
            out.create_dataset("tokens_crc32c", (samples // 65536,), "<u4").attrs["crc32c"] = np.int64(0)
        yield "data_set", "unallocated", bytes(3) + pathlib.Path(f"{folder}/a.h5").read_bytes()


def snapshot_buffer(state, slices, world=2):
    """slices: name, dtype, shape, bytes"""
    tensors, data, sums = [], b"", []
    for name, dtype, shape, content in slices:
        data += bytes(-len(data) % 64)
        tensors.append({"name": name, "dtype": dtype, "shape": shape,
                        "boxes": [{"at": [0] * len(shape), "extent": shape, "file": 0, "offset": len(data),
                                   "crc32c": [crc32c(content)]}]})
        data += content
        sums.append(crc32c(content))
    manifest = json.dumps(document([file(len(data))], tensors, state), separators=(",", ":")).encode() + b"\n"
    manifest += b"sha256 " + b"0" * 64 + b"\n"
    sums_at = (4096 + len(manifest) + 63) // 64 * 64
    data_at = (sums_at + 4 * len(sums) + 4095) // 4096 * 4096
    header = struct.pack("<8sIiiIqQQQQQQI64sI", b"distdlsl", 2, 0, world, 7, 2, 1, 1, data_at + len(data), len(manifest),
                         sums_at, len(sums), 0, b"run", 0)
    return b"\1" + text(header) + text(manifest) + text(struct.pack(f"<{len(sums)}I", *sums)) + data


def snapshot_buffers():
    yield "snapshot_buffer", "snapshot", snapshot_buffer({"step": "2"}, [("a", "f32", [2, 3], bytes(range(24))), ("b", "u8", [5], b"abcde")])
    yield "snapshot_buffer", "parity", snapshot_buffer({"distdl.parity": "[[0,1,2],[100,90,8]]"}, [("parity", "u8", [50], bytes(50))], world=3)
    yield "snapshot_buffer", "short-parity", snapshot_buffer({"distdl.parity": "[[0,1],[100,90]]"}, [("parity", "u8", [50], bytes(50))])
    one = ["run", 0, 2, 7, 3, 0, "n1", "slot-0", 99, "", [], [], 1, 5]
    other = ["run", 1, 2, 7, 3, 1, "n2", "slot-1", 99, "disk", [], [], 1, 5]
    parity = ["run", 1, 2, 7, 3, 1, "n2", "slot-2", 99, "", [0, 1], [99, 99], 1, 5]
    for name, items in ("two", [one, other]), ("parity", [one, parity]), ("none", []):
        yield "inventory", name, text(b"n1") + json.dumps(items, separators=(",", ":")).encode()


def messages():
    hello = b"distdlh" + struct.pack("<iiI", 1, 0, 0) + bytes(16)
    proof = b"distdlp" + struct.pack("<iiI", 1, 0, 0) + bytes(48)
    yield "handshake", "both", text(hello) + text(proof) + text(hello)
    for kind in "s?w":
        yield "control_message", {"s": "stopped", "?": "ask", "w": "waiting"}[kind], kind.encode() + struct.pack("<iii", 1, 2, 69) + b"why"
    fields = b"".join(struct.pack("<I", len(field)) + field
                      for field in (b"s" * 32, b"host", b"memory", b"space", b"net", b"full", b"segment"))
    yield "peer_address", "one", b"\1\x40distdl-card-3" + struct.pack("<Ii", 0, 77) + fields
    yield "cost_table", "one", b"distdl-costs\2" + struct.pack("<15d", *range(1, 16))
    names = ("within_latency within_overhead within_bandwidth between_latency between_overhead between_bandwidth signal step reduce"
             " copy share memory cache processors turn").split()
    costs = {"version": 2, "hosts": ["a"], "costs": {name: {"value": 1.5} for name in names}}
    yield "cost_file", "one", json.dumps(costs, separators=(",", ":")).encode()


    yield "envelope", "one", struct.pack("<QiI", 7, 3, 2) + b"header"
    yield "rendezvous", "one", b"\1distdl-rendezvous 1 2\ncard"


def run_folder():
    for name in ("step-000000001200", ".stage-1200.0123abcd", ".trash-0123abcd", ".trash-step-000000001200.0123abcd",
                 "step-000000001200.0123abcd", ".OWNER.0123abcd", "HISTORY", "node0003.h5", "parameter/conv1.weight", "best-so_far.1",
                 "distdl.slot-0-run-1-2-3-4-5-6-0123abcd"):
        yield "name", name.replace("/", "_").lstrip("."), name.encode()
    yield "tag", "one", text(b"best") + b"step-000000001200\n"
    lines = lambda *rows: b"".join(b"\n" + json.dumps(row, separators=(",", ":")).encode() for row in rows)
    yield "owner", "one", lines({"job": "17", "restart": 1, "generation": 2, "nonce": "ab", "lineage": "cd", "start": 3, "keep": 2,
                                 "keep_every": 100, "snapshots_since": 1})[1:] + b"\n"
    yield "history", "all", lines({"time": 1700000000, "event": "taken", "reason": "job 17", "keep": 2, "keep_every": 0},
                                  {"time": 1700000001, "event": "saved", "step": 5}, {"time": 1, "event": "quarantined", "step": 5})
    yield "lock", "one", (b"host=a\nboot=b\npid_space=pid:[1]\npid=17\nstarted=99\ncluster=c\njob=17\nrestart=1\n"
                          b"since=1700000000\nnonce=ab\n")
    yield "record", "journal", b"\x07" + lines({"event": "started", "time": 1.7e9, "interrupted": True, "steps_repeated": 3, "resumed_from": 2},
                                              {"event": "stopped", "time": 1.7e9, "step": 5, "reason": "SIGTERM"})[1:]
    yield "record", "metrics", b"\xff" + lines({"step": 4, "loss": 0.5, "samples_per_s": 151.5}, {"step": 5, "validation_loss": 1})[1:] + b"\n{\"st"
    yield "result", "one", lines({"status": "finished", "steps": 100, "loss": 0.25, "accuracy": None, "samples_per_s": 151.5,
                                  "interruptions": 1, "steps_repeated": 2, "failed_saves": 0, "skipped_saves": 0, "ranks": 2,
                                  "backend": "reference"})


def slurm():
    yield "slurm_answer", "job", (b"JobId=17 JobName=x JobState=RUNNING Restarts=3 TimeLimit=01:00:00 EndTime=2030-03-01T12:00:00 "
                                  b"Comment=\n")
    yield "slurm_answer", "far-end", b"TimeLimit=1 EndTime=9999-12-31T23:59:59"
    yield "slurm_answer", "squeue", b'{"jobs": [{"tres_req_str": "cpu=1,mem=8G,node=2,billing=1"}]}'
    yield "slurm_answer", "steps", b"17.batch\n17.0\n"
    yield "slurm_answer", "partition", b"PartitionName=batch\n   GraceTime=10 MaxTime=1-00:00:00 PreemptMode=GANG,SUSPEND PriorityTier=1\n   State=UP\n"
    yield "slurm_answer", "config", b"KillWait   = 30 sec\nAuthInfo = socket=/s,cred_expire=5\nPreemptType = preempt/qos\nPreemptMode = CANCEL\n"
    yield "slurm_answer", "array", b"JobId=20 ArrayJobId=17 ArrayTaskId=2\n   JobState=RUNNING\n\nJobId=17 ArrayJobId=17\n   JobState=PENDING NumNodes=2-3\n"
    yield "slurm_text", "script", b"#!/bin/sh\n#SBATCH --signal=B:USR1@60\ntrue\n"
    yield "slurm_text", "signal", b"B:USR1@60"
    yield "slurm_text", "duration", b"1-02:03:04"
    yield "slurm_text", "time", b"2026-03-01T12:00:00"
    yield "slurm_hosts", "list", b"b,n[2,1,007-009],rack[0-1]-n[1-2]ib"
    yield "slurm_hosts", "many", b"n[0-65535],m"
    yield "slurm_hosts", "deep", b"[1-2]" * 40
    yield "slurm_variables", "all", b"17\0002\0003\08\0006\0004\0n[1-3]\0core.leaf3.n17\0switch.switch.node\0"
    yield "slurm_variables", "too-many-tasks", b"17\0\00065536\0\0\00065536\0"


def jobs(distdl):
    defaults = subprocess.run([distdl, "config", "--defaults"], check=True, capture_output=True).stdout
    plain = b"\n".join(line for line in defaults.splitlines() if line and not line.startswith(b"#"))
    yield "job_file", "defaults", plain
    yield "job_file", "overrides", b"train.epochs=3\0run.dir=a b\0model.hidden=[1,2]\0[optim]\nlearning_rate = 1e-3 # why\n"
    yield "job_file", "dotted", b"train.epochs = 2\ncheckpoint = { every = 'auto' }\nrun.dir = \"\\u0007\\n\"\n"
    yield "job_file", "nested", b"model.hidden = " + b"[" * 300
    yield "job_file", "nameless-heading", b"[[ = 1\n"


def pickles():
    one = torch_file.dense(bytes(24), [2, 3], "0")
    turned = torch_file.Tensor(("0", bytes(24)), (3, 2), (1, 3))
    for protocol in (2, 4):
        yield "pickle", f"state-dict-{protocol}", torch_file.pickled({"a.weight": one, "a.bias": turned}, protocol)[0]
        yield "pickle", f"checkpoint-{protocol}", torch_file.pickled({"step": 70000, "model": {"a": one}, "rate": 0.5, "on": True,
                                                                      "more": [None, -3, (1, 2, 3, 4), {5}]}, protocol)[0]


def main(folder, distdl):
    for makes in (checkpoints(), safetensors(), pickles(), imports(), data_sets(distdl), unallocated(), snapshot_buffers(), messages(), run_folder(), slurm(), jobs(distdl)):
        for target, name, content in makes:
            path = pathlib.Path(folder) / target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


main(*sys.argv[1:])
