# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's files are plain HDF5: h5py puts the boxes together and sees the numbers that were saved."""
import glob
import json
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error} (apt-get install python3-h5py)")
    sys.exit(77)

TYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "i32": "<i4", "i64": "<i8", "u8": "u1"}


def from_raw(raw, dtype, shape):
    if dtype == "bf16":  # the upper half of a float
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    return np.frombuffer(raw, TYPES[dtype]).reshape(shape)


def from_files(files, name, dtype, shape):
    whole = np.zeros(shape, "<f4" if dtype == "bf16" else TYPES[dtype])
    seen = np.zeros(shape, int)
    for file in files:
        for box in file.get(f"/t/{name}", {}).values():
            assert list(box.attrs["shape"]) == shape, (name, list(box.attrs["shape"]))
            where = tuple(slice(o, o + e) for o, e in zip(box.attrs["offset"], box.shape))
            whole[where] = box[()]
            seen[where] += 1
    assert (seen == 1).all(), f"{name}: some elements are missing or twice"
    return whole


with tempfile.TemporaryDirectory() as root:
    subprocess.run([sys.argv[1], root], check=True)
    folder = f"{root}/step-000000000005"
    manifest = json.loads(open(f"{folder}/MANIFEST").readline())
    files = [h5py.File(path, "r") for path in sorted(glob.glob(f"{folder}/*.h5"))]
    assert len(files) == 3 and all(list(f.attrs["step"]) == [5] for f in files)
    for i, tensor in enumerate(manifest["tensors"]):
        name, dtype, shape = tensor["name"], tensor["dtype"], tensor["shape"]
        raw = from_raw(open(f"{root}/{i}.raw", "rb").read(), dtype, shape)
        found = from_files(files, name, dtype, shape)
        if raw.dtype.kind == "f":  # random bits: signalling NaNs may become quiet ones on the way
            assert (np.isnan(found) == np.isnan(raw)).all(), name
            found, raw = np.nan_to_num(found), np.nan_to_num(raw)
        assert (found == raw).all(), name
    state = {key: bytes(value[()]) for key, value in files[0]["state"].items()}
    assert state == {"config": b"[train]\nepochs = 8\n", "data.cursor": b"1234", "raw": b"\xff\0\x80"}, state
    large = [box["offset"] for t in manifest["tensors"] if t["name"] == "parameter/embedding" for box in t["boxes"]]
    assert all(offset % (1 << 20) == 0 for offset in large), large
    print(f"{len(manifest['tensors'])} tensors agree")
