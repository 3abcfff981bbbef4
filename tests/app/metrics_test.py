# SPDX-License-Identifier: Apache-2.0
"""Metrics for other programs: event files of a run that was killed and resumed, and exports, as TensorBoard, W&B and MLflow read
them. Where these are not installed, the tests that need them are skipped."""
import io
import json
import math
import os
import struct
import unittest
import zlib

from program import SLOW, ProgramTest, signal

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow 3 wants to be asked for it


def wandb_records(file):
    """LevelDB's log format, with zlib's CRC-32: newer W&B has no reader in Python."""
    data, at, whole = file.read_bytes(), 7, b""
    assert data[:7] == b":W&B\xe1\xbe\x00", data[:7]
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        checksum, size, kind = struct.unpack("<IHB", data[at:at + 7])
        piece = data[at + 7:at + 7 + size]
        assert zlib.crc32(bytes([kind]) + piece) == checksum, at
        at += 7 + size
        whole += piece
        if kind in (1, 4):  # full, last
            yield whole
            whole = b""


class Metrics(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def train(self):
        """Killed after a checkpoint, and resumed."""
        job = self.run_local(2, *SLOW, "--set", "train.epochs=12", "--set", "log.tensorboard=true", "--set", "log.tensorboard_histograms=1",
                             "--set", "log.tensorboard_samples=3", "--set", "train.evaluate_every_steps=20")
        run = self.start(*job)
        self.wait_for_checkpoint()
        for rank in self.ranks_of(run):
            os.kill(rank, signal.SIGKILL)
        self.assertNotEqual(self.finish(run)[0], 0)
        self.succeed(*job)
        starts = [row for row in self.rows("journal.jsonl") if row["event"] == "started"]
        self.assertEqual([row["start"] for row in starts], [1, 2])
        self.assertGreater(starts[1]["resumed_from"], 0)
        rows = self.rows("metrics.jsonl")  # those of a later start take the place of earlier ones
        self.steps = {row["step"]: row for row in rows if "loss" in row}
        self.evaluations = {row["step"]: row for row in rows if "validation_loss" in row}
        self.assertEqual(sorted(self.steps), list(range(1, 271)))

    def check_series(self, series, rows, field, close=lambda value: value):
        """`series`: pairs of a step and a value."""
        self.assertEqual([step for step, _ in series], sorted(rows))
        for step, value in series:
            self.assertEqual(value, close(rows[step][field]), f"{field} of step {step}")

    def check_events(self, folder):
        from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
        from tensorboard.plugins.hparams import metadata
        from tensorboard.util import tensor_util
        def single(value):
            return struct.unpack("f", struct.pack("f", value))[0]
        old = event_accumulator.EventAccumulator(str(folder), event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE)
        new = plugin_event_accumulator.EventAccumulator(str(folder), {"tensors": 0})
        old.Reload()
        new.Reload()
        for tag, rows, field in (("train/loss", self.steps, "loss"), ("train/learning_rate", self.steps, "learning_rate"),
                                 ("validation/accuracy", self.evaluations, "validation_accuracy")):
            self.check_series([(each.step, each.value) for each in old.Scalars(tag)], rows, field, single)
            self.check_series([(each.step, tensor_util.make_ndarray(each.tensor_proto).item()) for each in new.Tensors(tag)], rows, field, single)
        self.assertIn("[optim]", tensor_util.make_ndarray(new.Tensors("job")[0].tensor_proto)[0].decode())
        start = metadata.parse_session_start_info_plugin_data(new.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content)
        self.assertEqual(start.hparams["train.epochs"].number_value, 12)
        self.assertEqual(start.hparams["model.name"].string_value, "mlp")
        metadata.parse_session_end_info_plugin_data(new.SummaryMetadata(metadata.SESSION_END_INFO_TAG).plugin_data.content)

    def test_tensorboard_reads_each_step_once(self):
        try:
            import tensorboard  # noqa: F401
        except ImportError as error:
            self.skipTest(f"{error} (python3 -m pip install tensorboard)")
        self.train()
        self.assertEqual(len(list((self.folder / "run/tensorboard").iterdir())), 2)
        self.check_events(self.folder / "run/tensorboard")
        saved = {row["step"] for row in self.rows("journal.jsonl") if row["event"] == "checkpoint"}
        for steps in self.check_histograms(self.folder / "run/tensorboard"):  # those that were saved too fast are not there
            self.assertTrue(steps and saved.issuperset(steps), f"{steps} of {saved}")
            self.assertEqual(steps, sorted(set(steps)))
        self.check_images(self.folder / "run/tensorboard")
        folder = self.succeed("metrics", "export", "run", "--to", "tensorboard", "-o", "board", "--histograms", "--samples", "3").split(": ")[0]
        self.check_events(self.folder / folder)
        kept = [each["step"] for each in json.loads(self.succeed("checkpoint", "ls", "run", "--json"))]
        for steps in self.check_histograms(self.folder / folder):
            self.assertEqual(steps, kept)
        self.check_images(self.folder / folder)

    def check_images(self, folder):
        import PIL.Image  # which TensorBoard brings with it
        from tensorboard.backend.event_processing import event_accumulator
        events = event_accumulator.EventAccumulator(str(folder), event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE)
        events.Reload()
        tags = events.Tags()["images"]
        self.assertEqual([tag.split(" class ")[0] for tag in sorted(tags)], ["samples/0", "samples/1", "samples/2"])
        for tag in tags:
            image, = events.Images(tag)
            picture = PIL.Image.open(io.BytesIO(image.encoded_image_string))
            picture.load()  # checks the sums
            self.assertEqual((picture.format, picture.mode, picture.size), ("PNG", "L", (12, 12)))

    def check_histograms(self, folder):
        """Returns the steps of each parameter's histograms."""
        from tensorboard.backend.event_processing import event_accumulator
        events = event_accumulator.EventAccumulator(str(folder), event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE)
        events.Reload()
        shapes = {each["name"]: each["shape"] for each in json.loads(self.succeed("checkpoint", "show", "run", "--json"))["tensors"]}
        names = [name for name in shapes if name.startswith("parameter/")]
        self.assertEqual(sorted(events.Tags()["histograms"]), sorted(names))
        steps = []
        for name in names:
            found = events.Histograms(name)
            steps.append([each.step for each in found])
            for each in found:
                self.assertEqual(each.histogram_value.num, math.prod(shapes[name]))
                self.assertEqual(sum(each.histogram_value.bucket), math.prod(shapes[name]))
        return steps

    def test_wandb_parses_the_run(self):
        try:
            from wandb.proto import wandb_internal_pb2
        except ImportError as error:
            self.skipTest(f"{error} (python3 -m pip install wandb)")
        self.train()
        folder = self.succeed("metrics", "export", "run", "--to", "wandb").split(": ")[0]
        file, = (self.folder / folder).glob("run-*.wandb")
        records = [wandb_internal_pb2.Record.FromString(each) for each in wandb_records(file)]
        self.assertEqual([each.num for each in records], list(range(1, len(records) + 1)))
        self.assertEqual([each.WhichOneof("record_type") for each in records[:2]], ["header", "run"])
        self.assertEqual({each.key: each.value_json for each in records[1].run.config.update}["model.name"], '"mlp"')
        steps = [({item.key: float(item.value_json) for item in each.history.item}, each.history.step.num)
                 for each in records if each.WhichOneof("record_type") == "history"]
        self.check_series([(number, items["train/loss"]) for items, number in steps], self.steps, "loss")
        self.assertEqual([items["_step"] for items, _ in steps], [number for _, number in steps])
        self.assertEqual(records[-1].exit.exit_code, 0)

    def test_mlflow_opens_the_store(self):
        try:
            import mlflow
        except ImportError as error:
            self.skipTest(f"{error} (python3 -m pip install mlflow-skinny)")
        self.train()
        self.succeed("metrics", "export", "run", "--to", "mlflow")
        client = mlflow.tracking.MlflowClient(str(self.folder / "mlruns"))
        experiment = client.get_experiment_by_name("distdl")
        run, = client.search_runs([experiment.experiment_id])
        self.assertEqual((run.info.status, run.info.run_name), ("FINISHED", "run"))
        self.assertEqual(run.data.params["model.hidden"], "[256, 256]")
        self.assertEqual(run.data.metrics["validation/accuracy"], self.evaluations[270]["validation_accuracy"])
        for tag, rows, field in (("train/loss", self.steps, "loss"), ("validation/loss", self.evaluations, "validation_loss")):
            self.check_series([(each.step, each.value) for each in client.get_metric_history(run.info.run_id, tag)], rows, field)

    def test_names_beyond_16_bits_in_the_files_of_mlflow(self):
        """YAML has no pairs of surrogates."""
        self.train()
        (self.folder / "run").rename(self.folder / "run \U0001f389 é")
        self.succeed("metrics", "export", "run \U0001f389 é", "--to", "mlflow")
        texts = [file.read_text() for file in (self.folder / "mlruns").rglob("meta.yaml")]
        self.assertTrue(any('run \\U0001f389 \\u00e9"' in text for text in texts), texts)
        self.assertFalse(any("\\ud83c" in text for text in texts), texts)

    def test_an_export_is_replaced_only_if_that_is_wanted(self):
        self.fails(3, ["tells of no step yet"], "metrics", "export", self.begun(), "--to", "mlflow")
        self.succeed(*self.run_local(1))
        self.assertFalse((self.folder / "run/tensorboard").exists())
        for program in ("tensorboard", "wandb", "mlflow"):
            self.assertIn("up to step 90", self.succeed("metrics", "export", "run", "--to", program))
            self.fails(74, ["exists", "--force"], "metrics", "export", "run", "--to", program)
            self.succeed("metrics", "export", "run", "--to", program, "--force")
        self.fails(64, ["--histograms and --samples are for"], "metrics", "export", "run", "--to", "wandb", "--histograms")
        self.fails(64, ["--to"], "metrics", "export", "run", "--to", "excel")

    def begun(self):
        folder = self.folder / "begun"
        folder.mkdir()
        (folder / "journal.jsonl").write_text('{"event":"launch","time":1.7e9}\n')
        return "begun"

    def test_config_check_sees_where_metrics_cannot_be_written(self):
        for value in (".", "none/distdl.prom", "/proc/distdl.prom"):
            self.fails(78, ["log.openmetrics", value], "config", "--check", "job.toml", "--set", f"log.openmetrics={value}")
        self.fails(78, ["log.openmetrics_listen", "loud"], "config", "--check", "job.toml", "--set", "log.openmetrics_listen=loud")
        self.succeed("config", "--check", "job.toml", "--set", "log.openmetrics=distdl.prom")
        self.assertEqual(list(self.folder.glob("*.prom*")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
