# SPDX-License-Identifier: Apache-2.0
"""make_corpus.py DIR: writes the first inputs of both fuzzers to DIR/manifest and DIR/folder. Small ones, made by hand in
the shape of real checkpoints."""
import json
import pathlib
import struct
import sys


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


def main(folder):
    root = pathlib.Path(folder)
    for name in ("manifest", "folder"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, content in DOCUMENTS.items():
        text = json.dumps(content, separators=(",", ":")).encode()
        (root / "manifest" / name).write_bytes(b"\1" + text)
        data = FRAME + bytes(range(len(FRAME), 80)) if name == "chunks" else bytes(range(80))
        (root / "folder" / name).write_bytes(b"\1" + struct.pack("<H", len(text)) + text + data)
    (root / "manifest" / "raw").write_bytes(b"\0" + b"{}\nsha256 " + b"0" * 64 + b"\n")


main(sys.argv[1])
