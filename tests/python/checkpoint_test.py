# SPDX-License-Identifier: Apache-2.0
"""distdl.Checkpoint and distdl.read with NumPy."""
import contextlib
import pathlib
import subprocess
import unittest.mock

import environment

environment.need("numpy")
import numpy as np  # noqa: E402

import distdl  # noqa: E402
from distdl import arrays  # noqa: E402


def example(scale=1):
    return {"weights": np.arange(12.0).reshape(3, 4) * scale, "flags": np.array([True, False]), "i8": np.arange(3, dtype="i1"),
            "i16": np.arange(4, dtype="i2"), "c64": np.array([1 + 2j], "c8"), "c128": np.ones((2, 2)) * 1j, "u16": np.arange(3, dtype="u2"),
            "step": 7, "rate": 0.1, "name": "ä/b", "none": None, "raw": b"\0\1", "pair": (1, [2, "x"]),
            "deep": {"x/y": np.float32(3), 7: np.zeros((0, 3)), "": np.arange(2), "..": {"z": np.array(5)}}}


class Checkpoint(environment.Case):
    def assert_same(self, expected, got):
        self.assertEqual(type(expected), type(got))
        if isinstance(expected, dict):
            self.assertEqual(list(expected), list(got))
            for key in expected:
                self.assert_same(expected[key], got[key])
        elif isinstance(expected, np.ndarray):
            self.assertEqual(expected.dtype, got.dtype)
            np.testing.assert_array_equal(expected, got)
        else:
            self.assertEqual(expected, got)

    def test_a_state_comes_back(self):
        folder = self.folder / "ck"
        with distdl.Checkpoint(folder, options={"keep": 2}) as checkpoint:
            self.assertIsNone(checkpoint.load())
            for step in (1, 2, 3):
                self.assertTrue(checkpoint.save(step, example(step), how="now"))
            self.assertEqual([2, 3], checkpoint.steps()[-2:])  # older ones are removed beside the program
        expected = example(3)
        expected["deep"]["x/y"] = np.array(3, "f4")  # scalars of NumPy become arrays
        with distdl.Checkpoint(folder) as checkpoint:
            self.assert_same(expected, checkpoint.load())
            self.assertEqual(3, checkpoint.step)
            self.assert_same(example(2)["weights"], checkpoint.load(before=3)["weights"])
        with distdl.Load.open(folder, 2) as load:
            self.assertIn("deep/x%2Fy", load.names())
            kinds = {name: np.dtype(arrays.NAME_OF_TYPE[load.shape_of(name)[0]]) for name in ("flags", "i8", "i16", "c64", "c128")}
            self.assertEqual({name: expected[name].dtype for name in kinds}, kinds)
            self.assertEqual((0, 3), load.shape_of("deep/7")[1])

    def test_a_save_that_was_prepared_for(self):
        state = {"values": np.arange(3000.0), "step": 5}
        with distdl.Checkpoint(self.folder) as checkpoint:
            checkpoint.prepare(state)
            self.assertEqual([], checkpoint.steps())
            checkpoint.save(5, state, "now")
        with distdl.Checkpoint(self.folder) as checkpoint:
            loaded = checkpoint.load()
            self.assertEqual((5, 3000), (loaded["step"], len(loaded["values"])))
            checkpoint.prepare(loaded)

    def test_arrays_that_older_versions_saved_as_bytes(self):
        folder, state = self.folder / "ck", {"flags": np.array([True, False, True]), "z": np.array([[1 + 2j]], "c8")}
        once = {"bool": (None, 1), "complex64": (None, 8)}
        with distdl.Checkpoint(folder) as checkpoint, unittest.mock.patch.dict(arrays.ELEMENTS, once):
            checkpoint.save(1, state, how="now")
        with distdl.Checkpoint(folder) as checkpoint:
            self.assert_same(state, checkpoint.load())
            filled = {"flags": np.zeros(3, bool), "z": np.zeros((1, 1), "c8")}
            checkpoint.load(filled)
            self.assert_same(state, filled)

    def test_arrays_are_filled_in_place(self):
        folder, weights = self.folder / "ck", np.zeros((3, 4))
        with distdl.Checkpoint(folder) as checkpoint:
            checkpoint.save(1, example(), how="now")
            state = {"weights": weights, "step": 0}
            self.assertIs(state, checkpoint.load(state))
            self.assertEqual((7, 11), (state["step"], weights[2, 3]))
            for wrong, text in (({"weights": np.zeros((4, 3))}, "f.*32|float64 of shape .3, 4. in the checkpoint"),
                                ({"weights": np.zeros((3, 4), "f4")}, "float32 of shape .3, 4. here"),
                                ({"deep": {"other": 1}}, "the checkpoint has no deep/other")):
                with self.assertRaisesRegex(distdl.Incompatible, text):
                    checkpoint.load(wrong)

    def test_what_cannot_be_saved_is_named(self):
        with distdl.Checkpoint(self.folder / "ck") as checkpoint:
            for wrong, text in (({"a": {"b": object()}}, "a/b: a object can be saved neither"), ({(1, 2): 3}, "the state has keys"),
                                ({"1": np.zeros(2), 1: np.zeros(2)}, "two keys give the name '1'"),
                                ({"a": np.zeros(2, "U3")}, "<U3")):
                with self.assertRaisesRegex((TypeError, ValueError), text):
                    checkpoint.save(1, wrong)
            self.assertEqual([], checkpoint.steps())

    def test_a_damaged_checkpoint_is_told(self):
        folder = self.folder / "ck"
        with distdl.Checkpoint(folder) as checkpoint:
            checkpoint.save(1, {"x": np.full(10000, 7.0)}, how="now")
        for path in pathlib.Path(folder).glob("step-*/*.h5"):
            data = bytearray(path.read_bytes())
            place = data.find(np.full(8, 7.0).tobytes())
            if place > 0:
                data[place + 5] ^= 1
                path.write_bytes(data)
        with contextlib.closing(distdl.Load.open(folder)) as load, self.assertRaises(distdl.Corrupt):
            load.state()

    def test_ranks_save_boxes_that_others_load(self):
        program = """
            import distdl, numpy as np, sys
            rank, size = distdl.run.rank(), distdl.run.world_size()
            cut = [12 * each // size for each in range(size + 1)]
            whole = np.arange(36).reshape(12, 3)
            mine = np.zeros((cut[rank + 1] - cut[rank], 3), int)
            checkpoint = distdl.Checkpoint(sys.argv[1])
            box = distdl.Box(mine, whole.shape, (cut[rank], 0))
            state = {"rows": box, "same": np.arange(5.0), "step": 0, **({"of": {str(rank): rank}} if sys.argv[2] == "save" else {})}
            if sys.argv[2] == "save":
                mine[:] = whole[cut[rank]:cut[rank + 1]]
                checkpoint.save(4, state)
            else:
                checkpoint.load(state)
                assert (mine == whole[cut[rank]:cut[rank + 1]]).all(), mine
                assert state["of"] == {"0": 0, "1": 1, "2": 2}, state
            checkpoint.close()
            distdl.run.finished()
            """
        self.ranks(3, program, self.folder / "ck", "save")
        self.assertEqual([4], [row["step"] for row in self.rows("journal.jsonl") if row.get("event") in ("saved", "checkpoint")])
        self.ranks(2, program, self.folder / "ck", "load", run="other")
        with distdl.Load.open(self.folder / "ck") as load:
            self.assertEqual((12, 3), load.state()["rows"].shape)
        self.assertIn("ok", subprocess.run([environment.DISTDL, "checkpoint", "verify", self.folder / "ck"], capture_output=True,
                                           text=True, check=True).stdout)


if __name__ == "__main__":
    environment.main()
