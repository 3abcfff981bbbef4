# SPDX-License-Identifier: Apache-2.0
"""What the bits of a run on the backend "reference" depend on, beside the run."""
import os
import struct

from program import DISTDL


def processor():
    with open("/proc/cpuinfo") as file:
        first = file.read().split("\n\n")[0]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


def is_of_arm():
    """Whether the program is compiled for aarch64, whose processors all have FMA: e_machine of its ELF header is EM_AARCH64."""
    with open(DISTDL, "rb") as file:
        return struct.unpack_from("<H", file.read(20), 18)[0] == 183


def library():
    """What the functions of the C library depend on. x86 and Arm have the same bits; qemu may run a program of Arm."""
    fma = "with" if is_of_arm() or "fma" in processor().get("flags", "").split() else "without"
    return f"{fma} FMA, {os.confstr('CS_GNU_LIBC_VERSION')}"
