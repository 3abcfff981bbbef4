# SPDX-License-Identifier: Apache-2.0
"""What the scripts here print of the machine on which they measured."""
import os


def processor_model():
    """As /proc/cpuinfo names it."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown processor")


def processor():
    """Such as "AMD EPYC, 2 processors"."""
    return f"{processor_model()}, {os.cpu_count()} processors"
