# SPDX-License-Identifier: Apache-2.0
"""Wrong input: one clear error, the documented exit code, nothing lost."""
import hashlib
import json
import socket
import unittest

from program import JOB, OTHERS_END, ProgramTest


class BadInput(ProgramTest):
    def test_missing_data_set(self):
        line = self.fails(3, ["set.h5", "No such file"], *self.run_local(3))
        self.assertNotIn("the problem does not occur on", line)
        self.assertEqual(self.log(), "", "a rank was started")

    def test_a_job_is_checked_without_being_started(self):
        check = "run", "--check", "job.toml"
        self.fails(3, ["set.h5", "No such file"], *check)
        self.make_set()
        self.assertIn("job.toml: ok; model mlp", self.succeed(*check, variables={"SLURM_JOB_ID": ""}))
        self.assertFalse((self.folder / "run").exists())
        self.fails(74, ["set.h5/run", "ENOTDIR"], *check, "--set", "run.dir=set.h5/run")
        self.fails(78, ["7 ranks", "6 microbatches"], *check, "-n", "7")
        self.fails(78, ["number of steps"], *check, "--set", f"train.steps={2**63 - 1}")

    def test_damaged_data_set(self):
        self.make_set()
        file = self.folder / "set.h5"
        whole = file.read_bytes()
        file.write_bytes(whole[:len(whole) // 2])
        self.fails(2, ["set.h5"], *self.run_local(2))
        broken = bytearray(whole)
        broken[len(whole) // 3] ^= 0xff  # a pixel
        file.write_bytes(broken)
        self.fails(2, ["set.h5"], *self.run_local(2))
        file.write_text("this is no HDF5 file\n" * 100)
        self.fails(4, ["set.h5", "not an HDF5 file"], *self.run_local(2))

    def test_text_where_images_are_wanted(self):
        (self.folder / "text").write_text("to be or not to be " * 500)
        self.succeed("data", "import", "text", "text", "set.h5")
        self.fails(78, ["mlp", "images"], *self.run_local(2), "--set", "data.holdout=2000")

    def test_validation_set_of_another_shape(self):
        self.make_set()
        self.succeed("data", "make", "shapes", "other.h5", "--samples", "100", "--size", "16")
        self.fails(78, ["(1, 16, 16)", "(1, 12, 12)"], *self.run_local(2, "--set", "data.validation=other.h5"))

    def test_images_too_small_for_the_model(self):
        self.make_set()
        self.succeed("data", "make", "shapes", "tall.h5", "--samples", "100", "--size", "8")
        small = self.folder / "small"
        for name, head in (("images", (0x803, 90, 3, 3)), ("labels", (0x801, 90))):
            data = b"".join(number.to_bytes(4, "big") for number in head)
            small.with_suffix("." + name).write_bytes(data + bytes(i % 3 for i in range(90 * (9 if name == "images" else 1))))
        self.succeed("data", "import", "idx", "small.images", "small.labels", "small.h5")
        self.fails(78, ["lenet", "4 x 4", "(1, 3, 3)"],
                   *self.run_local(2, "--set", "data.train=small.h5", "--set", "data.holdout=10", "--set", "model.name=lenet"))

    def test_unknown_key(self):
        (self.folder / "job.toml").write_text(JOB.replace("epochs", "epocs"))
        line = JOB[:JOB.index("epochs")].count("\n") + 1
        self.fails(78, [f"job.toml:{line}", "train.epocs", "did you mean \"train.epochs\""], *self.run_local(2))
        self.fails(78, ["job.toml", "train.epocs"], "config", "--check", "job.toml")
        (self.folder / "job.toml").write_text(JOB)
        self.fails(78, ["optim.momentun", "optim.momentum"], *self.run_local(2, "--set", "optim.momentun=0.5"))
        self.fails(78, ["train.epochs", "whole number"], *self.run_local(2, "--set", "train.epochs=many"))

    def test_values_out_of_range_before_any_rank_starts(self):
        for key, value in (("run.relaunches", "-1"), ("run.grace_seconds", "nan"), ("train.stop_margin_seconds", "-1"),
                           ("optim.clip_norm", "-1"), ("optim.name", "adam")):
            self.fails(78, [key], "config", "--check", "job.toml", "--set", f"{key}={value}")

        self.make_set()
        for key, value in (("checkpoint.every", "-1"), ("comm.timeout_seconds", "nan"), ("kernels.threads", "1000000"),
                           ("train.epochs", str(2**63 - 1)), ("parallel.microbatch_size", "1000000000000")):
            setting = "--set", f"{key}={value}"
            self.fails(78, [key], "config", "--check", "job.toml", *setting)
            self.fails(78, [key], *self.run_local(2, *setting))

    def test_broken_or_missing_job_file(self):
        (self.folder / "job.toml").write_text(JOB + "\nevery = = 3\n")
        self.fails(78, [f"job.toml:{JOB.count(chr(10)) + 2}"], *self.run_local(2))
        self.fails(78, ["none.toml"], "run", "--local", "none.toml")

    def test_more_ranks_than_microbatches(self):
        self.make_set()
        self.fails(78, ["7 ranks", "6 microbatches"], *self.run_local(7))

    def test_checkpoint_of_another_model_or_data_set(self):
        self.make_set()
        self.succeed(*self.run_local(2))
        before = self.digest()
        self.fails(4, ["fc1.weight", "(17, 144)", "(16, 144)"], *self.run_local(3, "--set", "model.hidden=[17]"))
        self.make_set("more.h5", "--seed", "9", "--classes", "4")
        self.fails(4, ["data.classes = 10", "has 4"], *self.run_local(2, "--set", "data.train=more.h5"))
        self.make_set("other.h5", "--seed", "9")
        self.fails(4, ["data.digest"], *self.run_local(2, "--set", "data.train=other.h5"))
        self.assertEqual(self.digest(), before)
        self.verify()

    def test_a_position_that_the_job_cannot_have_reached(self):
        self.make_set()
        self.succeed(*self.run_local(1, "--set", "train.end_at_step=20"))
        manifest = self.folder / "run" / "checkpoints" / "step-000000000020" / "MANIFEST"
        document = json.loads(manifest.read_text().rpartition("sha256 ")[0])
        self.assertEqual(document["state"]["position"], str(20 * 24))
        document["state"]["position"] = "99999999"
        body = json.dumps(document) + "\n"
        manifest.write_text(f"{body}sha256 {hashlib.sha256(body.encode()).hexdigest()}\n")
        self.fails(2, ["step 20", "position 99999999"], *self.run_local(1))

    def test_a_job_that_is_refused_leaves_a_run_as_it_was(self):
        self.make_set()
        self.succeed(*self.run_local(2))
        folder = self.folder / "run"
        told = {name: (folder / name).read_text() for name in ("job.toml", "journal.jsonl", "result.json", "metrics.jsonl")}
        state = r"(?m)^state +finished: all steps are done$"
        self.assertRegex(self.succeed("status", "run"), state)
        huge = "--set", "model.hidden=[1000000,1000000]"
        for words in ([7], [2, *huge], [2, "--set", "train.epochs=0"],
                      [4, "--set", "parallel.pipeline_ranks=3", "--set", "parallel.microbatches=1"]):
            self.assertEqual(self.distdl(*self.run_local(*words))[0], 78, words)
            self.assertEqual({name: (folder / name).read_text() for name in told}, told, words)
        # What only the ranks can see is in the journal, and changes nothing else.
        self.fails(4, ["fc1.weight"], *self.run_local(2, "--set", "model.hidden=[17]"))
        self.assertTrue(self.rows("journal.jsonl")[-1]["refused"])
        for name in ("job.toml", "result.json", "metrics.jsonl"):
            self.assertEqual((folder / name).read_text(), told[name], name)
        self.assertRegex(self.succeed("status", "run"), state)
        self.succeed(*self.run_local(2, "--set", "train.epochs=5"))

    def test_outside_of_slurm_without_local(self):
        self.make_set()
        self.fails(64, ["--local"], "run", "job.toml", variables={"SLURM_JOB_ID": ""})


class OneRankOnly(ProgramTest):
    """Ranks on different nodes: here, processes with different current folders."""

    def start_ranks(self, present, world, *more, missing_set=()):
        (self.folder / "run" / "logs").mkdir(parents=True)
        text = JOB.replace('"run"', f'"{self.folder}/run"')
        (self.folder / "job.toml").write_text(text)
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        return [self.start("worker", str(self.folder / "job.toml"), *more,
                           cwd=elsewhere if rank in missing_set else self.folder,
                           variables={"DISTDL_RANK": str(rank), "DISTDL_WORLD_SIZE": str(world),
                                      "DISTDL_RENDEZVOUS": str(self.folder), "DISTDL_LAUNCH_ID": "launch"})
                for rank in present]

    def test_data_set_missing_on_one_rank(self):
        self.make_set()
        for rank in (0, 2):
            with self.subTest(rank=rank):
                self.setUp()
                self.make_set()
                ends = [self.finish(each, OTHERS_END) for each in self.start_ranks(range(3), 3, missing_set=[rank])]
                self.assertEqual([code for code, _, _ in ends], [3, 3, 3])
                self.says_once([f"rank {rank} ({socket.gethostname()})", "set.h5", "2 of 3 ranks do not have this problem"],
                               "".join(err for _, _, err in ends))

    def test_other_values_on_one_rank(self):
        self.make_set()
        ranks = self.start_ranks([0], 2) + self.start_odd_rank()
        ends = [self.finish(each, OTHERS_END) for each in ranks]
        self.assertEqual([code for code, _, _ in ends], [78, 78])
        self.says_once(["rank 1", "same file"], "".join(err for _, _, err in ends))

    def start_odd_rank(self):
        return [self.start("worker", "job.toml", "--set", "train.seed=7",
                           variables={"DISTDL_RANK": "1", "DISTDL_WORLD_SIZE": "2",
                                      "DISTDL_RENDEZVOUS": str(self.folder), "DISTDL_LAUNCH_ID": "launch"})]

    def test_a_rank_that_never_connects(self):
        self.make_set()
        for absent in (2, 0):
            with self.subTest(absent=absent):
                self.setUp()
                self.make_set()
                present = [rank for rank in range(3) if rank != absent]
                ends = [self.finish(each, 2 + OTHERS_END)
                        for each in self.start_ranks(present, 3, "--set", "comm.connect_timeout_seconds=2")]
                self.assertEqual([code for code, _, _ in ends], [71, 71])
                self.says_once([f"rank {absent} did not arrive", "2.0 s"], "".join(err for _, _, err in ends))


if __name__ == "__main__":
    unittest.main(verbosity=2)
