# SPDX-License-Identifier: Apache-2.0
"""Reads the set that write_small_images() makes, checks every number and every checksum of docs/data-format.md."""
import struct
import sys

import h5py
import numpy as np


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def main():
    with h5py.File(sys.argv[1], "r") as file:
        a = file.attrs
        assert (a["format"], a["version"], a["kind"], a["origin"]) == (b"distdl-data", 1, b"images", b"test"), dict(a)
        n = int(a["samples"])
        assert (n, list(a["shape"]), a["classes"]) == (1300, [3, 5, 7], 4), dict(a)
        images, labels = file["images"], file["labels"]
        assert images.dtype == np.uint8 and images.shape == (n, 3, 5, 7) and images.chunks[1:] == (3, 5, 7)
        sample, place = np.arange(n)[:, None], np.arange(105)[None, :]
        wanted = ((sample * 31 + place * 7 + sample * place) % 256).astype(np.uint8)
        assert np.array_equal(images[:].reshape(n, 105), wanted)
        assert labels.dtype == np.int32 and np.array_equal(labels[:], np.arange(n) % 4)
        pixels = wanted.astype(np.float64) / 255
        assert abs(pixels.mean() - a["mean"]) < 1e-6 and abs(pixels.std() - a["deviation"]) < 1e-6
        for data in images, labels:
            table, rows = file[data.name + "_crc32c"], data.chunks[0]
            assert [crc32c(data[i:i + rows].tobytes()) for i in range(0, n, rows)] == list(table[:]), data.name
            assert crc32c(table[:].tobytes()) == table.attrs["crc32c"], data.name
        text = b"distdl-data\0" + struct.pack("<q", 1) + b"images\0test\0"
        text += struct.pack("<qqqqq", n, 3, 5, 7, 4) + struct.pack("<ff", a["mean"], a["deviation"])
        assert crc32c(text) == a["description_crc32c"]
    print("all as expected")


main()
