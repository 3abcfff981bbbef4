#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a library holds machine code for each wanted GPU; reads the fat binaries itself, where cuobjdump is missing.

usage: architectures_test.py LIBRARY 80 90
"""
import struct
import sys

FATBIN_MAGIC = 0xBA55ED50
MACHINE_CODE = 2  # kind of an entry; 1 is PTX


def entries(data):
    """(kind, compute capability) of every image: a fat binary is a header (magic, version, header size, size) and images,
    each with a header of its own (kind, header size, size, ..., capability at byte 28)."""
    start = data.find(struct.pack("<I", FATBIN_MAGIC))
    while start >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, start)
        at, end = start + header, start + header + size
        while at < end:
            kind, _, image_header, image_size = struct.unpack_from("<HHIQ", data, at)
            yield kind, struct.unpack_from("<I", data, at + 28)[0]
            at += image_header + image_size
        start = data.find(struct.pack("<I", FATBIN_MAGIC), end)


def main():
    with open(sys.argv[1], "rb") as file:
        found = list(entries(file.read()))
    wanted = {int(number) for number in sys.argv[2:]}
    for capability in sorted(wanted):
        images = sum(1 for kind, number in found if kind == MACHINE_CODE and number == capability)
        print(f"sm_{capability}: {images} images of machine code")
    missing = wanted - {number for kind, number in found if kind == MACHINE_CODE}
    if missing:
        sys.exit(f"{sys.argv[1]} holds no machine code for {sorted(missing)}; it holds {sorted(set(found))}")


if __name__ == "__main__":
    main()
