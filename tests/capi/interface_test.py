# SPDX-License-Identifier: Apache-2.0
"""libdistdl.so exports the functions of distdl.h and nothing else; the Fortran module has the same functions and constants; and
the interface is that of src/capi/libdistdl.abi, or more. After new functions: interface_test.py --record."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPI = ROOT / "src/capi"
RECORD = CAPI / "libdistdl.abi"
WRITE = ["--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", "--no-elf-needed", "--no-architecture", "--no-parameter-names",
         "--type-id-style", "hash"]
INCOMPATIBLE = 1 | 2 | 8  # bits of abidiff's exit code; 4: changes, such as new functions


def library():
    return pathlib.Path(os.environ["DISTDL_BUILD_DIR"]).resolve() / "lib/libdistdl.so"


def header():
    return re.sub(r"/\*.*?\*/", "", (CAPI / "distdl.h").read_text(), flags=re.DOTALL)


def module():
    return re.sub(r"!.*|&\n", "", (CAPI / "fortran/distdl.f90").read_text())


def functions():
    return sorted(re.findall(r"DISTDL_API[^;(]*?\b(distdl_\w+)\(", header()))


def stand_in(folder, text):
    """A library with the functions that a header declares: the libraries that are built lack the types in their debug information."""
    source = pathlib.Path(folder, "stand_in.c")
    source.write_text('#define DISTDL_API\n' + re.sub(r"(DISTDL_API[^;(]*\([^)]*\));", r"\1 { return 0; }", text))
    result = source.with_name("libdistdl.so")
    subprocess.run(["cc", "-g", "-w", "-shared", "-fPIC", source, "-o", result, f"-Wl,--version-script={CAPI}/distdl.map",
                    "-Wl,-soname,libdistdl.so.0.2"], check=True)
    return result


def difference(folder, text):
    """abidiff's exit code and report for the record and the functions that a header declares."""
    result = subprocess.run(["abidiff", "--no-architecture", RECORD, stand_in(folder, text)], text=True, capture_output=True)
    return result.returncode, result.stdout + result.stderr


def record():
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run(["abidw", *WRITE, stand_in(folder, header())], text=True, capture_output=True, check=True).stdout
    text = text.replace(f"{folder}/", "")  # the same record on every machine
    RECORD.write_text(text.replace("\n", "\n  <!-- SPDX-License-Identifier: Apache-2.0 -->\n", 1))


class Interface(unittest.TestCase):
    def test_library_exports_the_functions_of_the_header(self):
        if not shutil.which("nm"):
            self.skipTest("nm is not installed")
        lines = subprocess.run(["nm", "-D", "--defined-only", library()], text=True, capture_output=True, check=True).stdout.splitlines()
        exported = sorted(line.split()[-1] for line in lines if line.split()[-2] != "A")
        self.assertEqual([name + "@@DISTDL_0.2" for name in functions()], exported)
        self.assertGreater(len(exported), 60)

    def test_fortran_has_the_same_functions_and_constants(self):
        self.assertEqual(functions(), sorted(re.findall(r"function (distdl_\w+)\([^)]*\) bind\(c\)", module())))
        constants = re.compile(r"\b(DISTDL_[A-Z0-9_]+) = (\d+)")
        self.assertEqual(sorted(constants.findall(header())), sorted(constants.findall(module())))
        self.assertGreater(len(constants.findall(header())), 25)

    def arguments(self, text, function, comma):
        found = re.search(rf"\b{function}\(([^)]*)\)", text)[1].strip()
        return [] if found in ("", "void") else [re.search(r"(\w+)$", one.strip())[1] for one in found.split(comma)]

    def test_fortran_names_the_arguments_alike(self):
        for function in functions():
            self.assertEqual(self.arguments(header(), function, ","), self.arguments(module(), function, ","), function)

    def needs_abidiff(self):
        for tool in ("abidiff", "cc"):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is not installed (abigail-tools, gcc)")

    def test_interface_is_the_recorded_one_or_more(self):
        self.needs_abidiff()
        recorded = set(re.findall(r"<elf-symbol name='(\w+)'", RECORD.read_text()))
        self.assertEqual(recorded, set(functions()), "record new functions: interface_test.py --record")
        with tempfile.TemporaryDirectory() as folder:
            code, report = difference(folder, header())
        self.assertEqual(0, code & INCOMPATIBLE, report)

    def test_incompatible_changes_are_found(self):
        self.needs_abidiff()
        for before, after in (("int64_t step;", "int step;"), ("distdl_wait(distdl_request** request, double seconds)", "distdl_wait(distdl_request** request)"),
                              ("DISTDL_API int distdl_finished(void);", "")):
            changed = header().replace(before, after)
            self.assertNotEqual(header(), changed)
            with tempfile.TemporaryDirectory() as folder:
                code, report = difference(folder, changed)
            self.assertNotEqual(0, code, report)


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        unittest.main(verbosity=2)
