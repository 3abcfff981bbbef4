# SPDX-License-Identifier: Apache-2.0
"""The build folder under test, and what cmake --install makes of it."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "structure"))
import project  # noqa: E402

BUILD = pathlib.Path(os.environ.get("DISTDL_BUILD_DIR", project.ROOT / "build"))


def cache(name, build=BUILD):
    """The value of a CMake cache entry; "" if there is none."""
    match = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return match.group(1) if match else ""


def run(*command, expect=0, **options):
    """Standard output of a command, which must end with the code `expect` (None: any but 0)."""
    command = [str(part) for part in command]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", **options)
    wanted = result.returncode != 0 if expect is None else result.returncode == expect
    if not wanted:
        raise AssertionError(f"{' '.join(command)}\nexit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout if expect == 0 else result.stdout + result.stderr


def install(prefix):
    run(cache("CMAKE_COMMAND"), "--install", BUILD, "--prefix", prefix)
    return pathlib.Path(prefix)


def components(prefix):
    """The libraries that were installed, lowest floor first."""
    config = (next(pathlib.Path(prefix).glob("lib*/**/distdl-config.cmake"))).read_text()
    return re.search(r"^set\(distdl_components (.*)\)$", config, re.MULTILINE).group(1).split(";")


def lib_dir(prefix):
    return next(pathlib.Path(prefix).glob("lib*/**/libdistdl_base.*")).parent


def needs_plain_build():
    if cache("DISTDL_SANITIZE"):
        raise unittest.SkipTest("a build with sanitizers is not for installing")
