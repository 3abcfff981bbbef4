# SPDX-License-Identifier: Apache-2.0
"""LeNet learns MNIST on two nodes, from the user's own two commands to a result of at least 98%."""
import os
import sys
import time
import unittest

import pocket

DATA = os.environ.get("DISTDL_TEST_DATA", os.path.join(pocket.REPOSITORY, "../shared/data"))
IMAGES, LABELS = (os.path.join(DATA, f"t10k-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1"))


class Mnist(unittest.TestCase):
    def test_lenet_reaches_98_percent_within_8_epochs(self):
        folder = pocket.work_folder()
        cluster = pocket.Cluster(2, folder)
        pocket.call(pocket.DISTDL, "data", "import", "idx", IMAGES, LABELS, f"{folder}/mnist.h5")
        run = pocket.Run(f"{folder}/run")
        began = time.monotonic()
        job = cluster.train([], "lenet.toml", "--set", f"data.train={folder}/mnist.h5", "--set", f"run.dir={run.folder}",
                            "--set", "data.holdout=1000", "--set", "train.epochs=8")
        job.wait_state("COMPLETED", 200)
        result = run.result()
        print(f"accuracy {result['accuracy']:.2%} after {time.monotonic() - began:.1f} s, {result['samples_per_s']:.0f} samples/s")
        self.assertEqual((8 * 9000 + 95) // 96, result["steps"], "9,000 samples to train, 8 epochs, batches of 96")
        self.assertGreaterEqual(result["accuracy"], 0.98)
        self.assertEqual(2, run.starts()[0]["ranks"])
        self.assertIn(f"accuracy       {result['accuracy']:.2%}", job.log(), "the job's log ends with the result")


if not os.path.exists(IMAGES):
    print(f"skipped: no {IMAGES}; set DISTDL_TEST_DATA to a folder with MNIST's test files")
    sys.exit(77)
pocket.main()
