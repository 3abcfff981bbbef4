# SPDX-License-Identifier: Apache-2.0
"""What the scripts here print of the machine on which they measured."""
import os


def processor():
    """Such as "AMD EPYC, 2 processors": the model's name in /proc/cpuinfo, and how many there are."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown processor")
    return f"{name}, {os.cpu_count()} processors"
