# SPDX-License-Identifier: Apache-2.0
"""What the scripts here print of the machine on which they measured."""
import os
import re


def processor_model():
    """As /proc/cpuinfo names it: x86 has a name, Arm the numbers of maker and model."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        fields = dict(re.split(r"\s*:\s*", line.strip(), maxsplit=1) for line in file if ":" in line)
    arm = f"Arm implementer {fields.get('CPU implementer')} part {fields['CPU part']}" if "CPU part" in fields else "unknown processor"
    return fields.get("model name", arm)


def processor():
    """Such as "AMD EPYC, 2 processors"."""
    return f"{processor_model()}, {os.cpu_count()} processors"
