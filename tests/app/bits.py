# SPDX-License-Identifier: Apache-2.0
"""What the bits of a run on the backend "reference" depend on, beside the run."""
import os
import platform


def processor():
    with open("/proc/cpuinfo") as file:
        first = file.read().split("\n\n")[0]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


def library():
    """What the functions of the C library depend on."""
    fma = "with" if "fma" in processor().get("flags", "").split() else "without"
    return f"{platform.machine()} {fma} FMA, {os.confstr('CS_GNU_LIBC_VERSION')}"
