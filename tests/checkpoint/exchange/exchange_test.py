# SPDX-License-Identifier: Apache-2.0
"""What `distdl checkpoint export` writes is what numpy, h5py and a reader of the safetensors layout see: the numbers that
were saved. Arguments: a program that writes a sample, and distdl."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
import ending  # noqa: E402

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error} (apt-get install python3-numpy python3-h5py)")
    sys.exit(77)

WRITE_SAMPLE, DISTDL = map(os.path.abspath, sys.argv[1:3])
NUMPY = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "i32": "<i4", "i64": "<i8", "u8": "u1"}
SAFE = {"F32": "f32", "F64": "f64", "F16": "f16", "BF16": "bf16", "I32": "i32", "I64": "i64", "U8": "u8"}
SIZE = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i32": 4, "i64": 8, "u8": 1}


def numbers(raw, dtype, shape):
    if dtype == "bf16":  # the upper half of a float
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    return np.frombuffer(raw, NUMPY[dtype]).reshape(shape)


def read_safetensors(path):
    """{name: (dtype, shape, bytes)} and the metadata, by the published layout alone."""
    blob = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", blob[:8])
    assert length % 8 == 0 and blob[8:9] == b"{"
    header = json.loads(blob[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data, tensors, covered = blob[8 + length:], {}, []
    for name, about in header.items():
        begin, end = about["data_offsets"]
        dtype = SAFE[about["dtype"]]
        assert (8 + length + begin) % SIZE[dtype] == 0, f"{name} is not aligned"
        tensors[name] = (dtype, about["shape"], data[begin:end])
        covered.append((begin, end))
    at = 0
    for begin, end in sorted(covered):
        assert begin == at, "a hole"
        at = end
    assert at == len(data), "bytes that belong to no tensor"
    return tensors, metadata


def write_safetensors(path, tensors):
    """{name: (dtype, array)}"""
    header, at, body = {}, 0, b""
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        at, body = at + len(raw), body + raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


class Exchange(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="distdl-exchange-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        subprocess.run([WRITE_SAMPLE, cls.root], check=True)
        manifest = json.loads(pathlib.Path(cls.root, "step-000000000005/MANIFEST").read_text().splitlines()[0])
        cls.truth = {}
        for i, tensor in enumerate(manifest["tensors"]):
            cls.truth[tensor["name"]] = (tensor["dtype"], tensor["shape"],
                                         pathlib.Path(cls.root, f"{i}.raw").read_bytes())

    def distdl(self, *words, code=0, cwd=None):
        done = subprocess.run([DISTDL, "checkpoint", *words], capture_output=True, text=True, cwd=cwd)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def same(self, found, name):
        dtype, shape, raw = self.truth[name]
        expected = numbers(raw, dtype, shape)
        self.assertEqual(list(found.shape), shape, name)
        found = np.asarray(found)
        if expected.dtype.kind == "f":  # random bits: signalling NaNs may become quiet ones on the way
            self.assertTrue((np.isnan(found) == np.isnan(expected)).all(), name)
            found, expected = np.nan_to_num(found), np.nan_to_num(expected)
        self.assertTrue((found == expected).all(), name)

    def test_safetensors_has_the_same_bytes(self):
        file = f"{self.root}/all.safetensors"
        told = json.loads(self.distdl("export", self.root, file, "--json"))
        self.assertEqual((told["step"], told["tensors"], told["bytes"]), (5, len(self.truth), os.path.getsize(file)))
        tensors, metadata = read_safetensors(file)
        self.assertEqual(tensors, self.truth)
        self.assertEqual(metadata["distdl.step"], "5")
        self.assertEqual(metadata["distdl.state.data.cursor"], "1234")

    def test_safetensors_by_its_own_library(self):
        try:
            from safetensors.numpy import load_file
        except ImportError as error:
            self.skipTest(f"{error} (python3 -m pip install safetensors)")
        file = f"{self.root}/own.safetensors"
        self.distdl("export", self.root, file, "--tensors", "parameter/conv1.*", "--tensors", "rng")
        found = load_file(file)
        self.assertEqual(set(found), {"parameter/conv1.bias", "parameter/conv1.weight", "rng"})
        for name, array in found.items():
            self.same(array, name)

    def test_numpy_opens_npz_stored_and_deflated(self):
        for options in ([], ["--deflate"]):
            file = f"{self.root}/all{len(options)}.npz"
            self.distdl("export", self.root, file, "--format", "npz", *options)
            with np.load(file) as archive:
                self.assertEqual(set(archive.files), set(self.truth))
                for name in archive.files:
                    self.same(archive[name], name)
            with zipfile.ZipFile(file) as archive:
                self.assertIsNone(archive.testzip())
                kinds = {info.compress_type for info in archive.infolist()}
                self.assertEqual(kinds, {zipfile.ZIP_DEFLATED if options else zipfile.ZIP_STORED})

    def test_some_tensors_only(self):
        file = f"{self.root}/some.npz"
        self.distdl("export", self.root, file, "--format", "npz", "--tensors", "momentum/*")
        with np.load(file) as archive:
            self.assertEqual(archive.files, ["momentum/conv1.weight"])
        self.distdl("export", self.root, file + "2", "--format", "npz", "--tensors", "nothing", code=64)
        self.assertFalse(os.path.exists(file + "2"))

    def see_view(self, path):
        with h5py.File(path, "r") as view:
            names = []
            view["t"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            self.assertEqual(set(names), set(self.truth))
            for name in names:
                self.same(view["t"][name][()], name)
            self.assertEqual(bytes(view["state/config"][()]), b"[train]\nepochs = 8\n")
            self.assertEqual(list(view.attrs["step"]), [5])
            self.assertTrue(view["t/parameter/embedding"].is_virtual)

    def test_a_view_shows_whole_tensors_and_can_be_moved_with_its_checkpoint(self):
        where = f"{self.root}/moving"
        os.mkdir(where)
        shutil.copytree(f"{self.root}/step-000000000005", f"{where}/step-000000000005")
        self.distdl("export", "step-000000000005", "view.h5", "--format", "view", cwd=where)
        self.assertLess(os.path.getsize(f"{where}/view.h5"), 200_000)
        self.see_view(f"{where}/view.h5")
        os.rename(where, where + "2")
        self.see_view(f"{where}2/view.h5")

    def test_import_makes_a_checkpoint_of_foreign_weights(self):
        file, made = f"{self.root}/foreign.safetensors", f"{self.root}/made/checkpoints"
        weight = np.arange(12, dtype="<f4").reshape(3, 4)
        write_safetensors(file, {"fc1.weight": ("F32", weight), "ids": ("I64", np.arange(3)),
                                 "momentum/fc1.weight": ("F32", weight * 2)})
        os.symlink(file, f"{self.root}/link.safetensors")
        self.distdl("import", "safetensors", f"{self.root}/link.safetensors", made)
        self.assertIn("ok", self.distdl("verify", "--deep", made))
        shown = json.loads(self.distdl("show", "--json", made))
        self.assertEqual([tensor["name"] for tensor in shown["tensors"]],
                         ["momentum/fc1.weight", "parameter/fc1.weight", "parameter/ids"])
        self.distdl("export", f"{self.root}/made", f"{self.root}/back.npz", "--format", "npz")
        with np.load(f"{self.root}/back.npz") as archive:
            self.assertTrue((archive["parameter/fc1.weight"] == weight).all())

    def test_weights_are_what_no_optimizer_keeps(self):
        file, value = f"{self.root}/whole.safetensors", ("F32", np.arange(3, dtype="<f4"))
        kept = [f"{kind}/fc1.bias" for kind in ("average", "first_moment", "momentum", "second_moment", "velocity")]
        write_safetensors(file, {name: value for name in [*kept, "fc1.bias"]})
        for where, more, names in (("whole", [], [*kept, "parameter/fc1.bias"]), ("weights", ["--weights"], ["parameter/fc1.bias"])):
            self.distdl("import", "safetensors", file, f"{self.root}/{where}", *more)
            shown = json.loads(self.distdl("show", "--json", f"{self.root}/{where}"))
            self.assertEqual(sorted(tensor["name"] for tensor in shown["tensors"]), sorted(names))

    @unittest.skipIf("".join(sys.argv[3:]), "a sanitizer needs memory of its own")
    def test_exports_need_little_memory(self):
        """8 MiB pieces, whatever the size: half of the largest tensor's bytes would show."""
        name, big = f"{self.root}/big.safetensors", np.zeros((64 << 20) // 4, "<f4")
        write_safetensors(name, {"parameter/big": ("F32", np.concatenate([big, big, big, big]))})
        self.distdl("import", "safetensors", name, f"{self.root}/big")
        for form in ("safetensors", "npz"):
            script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
                      "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            done = subprocess.run([sys.executable, "-c", script, DISTDL, "checkpoint", "export", f"{self.root}/big",
                                   f"{self.root}/big.{form}.out", "--format", form], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            kibibytes = int(done.stdout.split()[-1])
            self.assertLess(kibibytes, 128 << 10, form)


if __name__ == "__main__":
    ending.watch()
    unittest.main(argv=sys.argv[:1], verbosity=2)
