# SPDX-License-Identifier: Apache-2.0
"""Colour images from a folder into a set and through training: the same bytes on any ranks; and the pixels are Pillow's and torchvision's,
where these are installed."""
import importlib.util
import os
import pathlib
import struct
import unittest
import zlib

from program import ProgramTest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
COMPARED = ("PIL", "numpy", "h5py")
MISSING = [name for name in COMPARED if not importlib.util.find_spec(name)]


def png(width, height, seed):
    """Colours that change with the seed."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((x * 7 * (c + seed % 3 + 1) + y * 5 + seed * 13) % 256 for x in range(width) for c in range(3))
                    for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Images(ProgramTest):
    def make_folder(self, count=90):
        for i in range(count):
            file = self.folder / "photos" / ("cat", "dog", "elk")[i % 3] / f"{i:03}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(png(20 + i % 7, 24 - i % 5, i))

    def train(self, run, ranks, *settings):
        pairs = (f"run.dir={run}", "data.holdout=18", "data.mirror=true", "checkpoint.every=1000", *settings)
        self.succeed(*self.run_local(ranks, *(word for pair in pairs for word in ("--set", pair))))
        return self.digest(run)

    def test_the_same_bytes_on_any_ranks_and_after_a_resume(self):
        self.make_folder()
        told = self.succeed("data", "import", "images", "photos", "set.h5", "--encoded", "--size", "16")
        self.assertIn("set.h5: 90 encoded images of (3, 16, 16), 3 classes", told)
        one = self.train("one", 1, "train.epochs=2", "data.normalize=imagenet")
        self.assertEqual(self.train("two", 2, "train.epochs=2", "data.normalize=imagenet", "data.decode_threads=3"), one)
        self.train("parts", 2, "train.steps=4", "data.normalize=imagenet", "optim.schedule=constant")
        resumed = self.train("parts", 1, "train.epochs=2", "train.steps=0", "data.normalize=imagenet", "optim.schedule=constant")
        self.assertEqual(resumed, self.train("whole", 1, "train.epochs=2", "data.normalize=imagenet", "optim.schedule=constant"))
        self.assertNotEqual(self.train("other", 1, "train.epochs=2", "data.crop_area=0.5", "data.normalize=imagenet"), one)
        info = self.succeed("data", "info", "set.h5", "--verify", "--preview", "1")
        self.assertIn("sample 0, class 0", info)

    def test_all_transforms_give_the_same_bytes_on_any_ranks_and_after_a_resume(self):
        """Also for a set of pixels; and each of them changes the bytes."""
        self.make_folder()
        self.succeed("data", "import", "images", "photos", "set.h5", "--encoded", "--size", "16")
        changes = ("data.color_jitter=[0.4, 0.4, 0.4, 0.1]", "data.rand_augment=2", "data.random_erasing=0.5", "data.mixup=0.2",
                   "data.cutmix=1")
        few = ("parallel.microbatches=4", "parallel.microbatch_size=4", "model.label_smoothing=0.1", "optim.schedule=constant")
        one = self.train("one", 1, "train.steps=6", *few, *changes)
        self.assertEqual(self.train("three", 3, "train.steps=6", "data.decode_threads=2", *few, *changes), one)
        self.train("parts", 2, "train.steps=3", *few, *changes)
        self.assertEqual(self.train("parts", 1, "train.steps=6", *few, *changes), one)
        without = [self.train(f"without{i}", 2, "train.steps=6", *few, *changes[:i], *changes[i + 1:]) for i in range(len(changes))]
        self.assertEqual(len({one, *without}), 1 + len(changes))
        self.succeed("data", "import", "images", "photos", "set.h5", "--size", "16", "--force")
        pixels = self.train("pixels", 1, "train.steps=4", *few, *changes)
        self.assertEqual(self.train("pixels2", 2, "train.steps=4", *few, *changes), pixels)
        self.assertNotEqual(self.train("plain", 2, "train.steps=4", *few), pixels)
        loss = [row["loss"] for row in self.rows("metrics.jsonl", "pixels") if "loss" in row]
        self.assertTrue(loss and all(0 < each < 20 for each in loss), loss)

    def test_the_jobs_of_imagenet_train_in_small(self):
        """Six images in a microbatch: of two, statistics of a batch norm over one pixel say nothing, and no evaluation has a loss."""
        self.make_folder(12)
        self.succeed("data", "import", "images", "photos", "set.h5", "--encoded", "--size", "32")
        small = ("data.train=set.h5", "data.validation=set.h5", "data.resize=0", "parallel.microbatches=2", "parallel.microbatch_size=6",
                 "train.steps=2", "optim.warmup_steps=1", "optim.learning_rate=0.001", "kernels.precision=fp32")
        sizes = {"resnet50": ("model.stem=imagenet",), "vit": ("model.layers=2", "model.width=48", "model.heads=3", "model.patch=8")}
        for name, more in sizes.items():
            digests = set()
            for ranks in (1, 2):
                pairs = (*small, *more, f"run.dir={name}{ranks}")
                self.succeed("run", "--local", "-n", str(ranks), str(EXAMPLES / f"{name}.toml"), *(word for pair in pairs for word in ("--set", pair)))
                digests.add(self.digest(f"{name}{ranks}"))
            self.assertEqual(len(digests), 1, name)

    def test_pixels_of_colour_train_with_a_convolutional_model(self):
        self.make_folder()
        (self.folder / "photos/dog/broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not an image")
        self.fails(2, ["photos/dog/broken.jpg\" is broken: damaged JPEG", "--skip-broken"], "data", "import", "images", "photos", "set.h5",
                   "--size", "16")
        _, out, err = self.distdl("data", "import", "images", "photos", "set.h5", "--size", "16", "--skip-broken")
        self.assertIn("90 images of (3, 16, 16), 3 classes", out)
        self.assertIn("1 broken images were passed over", out)
        self.assertIn("passed over \"photos/dog/broken.jpg\": damaged JPEG", err)
        one = self.train("one", 1, "model.name=resnet18", "train.steps=1")
        self.assertEqual(self.train("two", 2, "model.name=resnet18", "train.steps=1"), one)

    def test_arguments_and_keys_are_checked(self):
        self.make_folder(6)
        self.fails(64, ["takes sources and the file to write"], "data", "import", "images", "photos")
        self.fails(64, ["what is read"], "data", "import", "images", "photos", "photos/cat/000.png", "--force")
        self.succeed("data", "import", "images", "photos", "set.h5", "--encoded", "--size", "16")
        self.fails(78, ["data.crop_area is 2"], *self.run_local(1, "--set", "data.holdout=0", "--set", "data.crop_area=2"))
        for key, value, about in (("color_jitter", "[1, 1, 1, 1, 1]", "5 strengths"), ("color_jitter", "[0, 0, 0, 0.6]", "between 0 and 0.5"),
                                  ("color_jitter", "0.4", "a list of numbers"), ("rand_augment", "-1", "between 0 and 100"),
                                  ("rand_augment_magnitude", "31", "between 0 and 30"), ("random_erasing", "1.5", "a probability"),
                                  ("mixup", "-1", "between 0 and 1000"), ("cutmix", "nan", "data.cutmix is nan")):
            self.fails(78, [f"data.{key}", about], *self.run_local(1, "--set", "data.holdout=0", "--set", f"data.{key}={value}"))
        self.fails(78, ["data.mixup", "parallel.microbatch_size is 1"], *self.run_local(1, "--set", "data.holdout=0", "--set", "data.mixup=1",
                                                                                      "--set", "parallel.microbatch_size=1"))
        (self.folder / "text").write_text("to be or not to be " * 50)
        self.succeed("data", "import", "text", "text", "set.h5", "--force")
        self.fails(78, ["data.mixup", "model.name"], *self.run_local(1, "--set", "data.holdout=0", "--set", "data.mixup=1", "--set",
                                                                         "model.name=gpt", "--set", "model.context=8", "--set", "model.layers=1"))
        self.succeed("data", "import", "images", "photos", "set.h5", "--encoded", "--size", "16", "--force")
        self.fails(78, ["data.resize is 10"], *self.run_local(1, "--set", "data.holdout=0", "--set", "data.resize=10"))


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class SamePixels(ProgramTest):
    """The same files by Pillow; and by torchvision, if it is there."""

    def setUp(self):
        super().setUp()
        import numpy
        from PIL import Image
        self.numpy, self.image = numpy, Image
        self.files = []
        for number, (width, height) in enumerate(((500, 375), (333, 500), (97, 64), (640, 480), (1200, 900))):
            x, y = numpy.meshgrid(numpy.arange(width), numpy.arange(height))
            waves = [128 + 60 * numpy.sin(x * f / 31) + 50 * numpy.cos(y * f / 23) + 15 * ((x // 9 + y // 7) % 2) for f in (1, 2, 3)]
            colours = Image.fromarray(numpy.stack(waves, -1).clip(0, 255).astype("uint8"))
            for name, how in ((f"{number}.jpg", {"quality": 90}), (f"{number}p.jpg", {"quality": 80, "progressive": True, "subsampling": 0}),
                              (f"{number}.png", {}), (f"{number}.webp", {"quality": 80})):
                self.save(colours, name, **how)
            self.save(colours.convert("L"), f"{number}g.jpg", quality=90)
            self.save(colours.convert("CMYK"), f"{number}c.jpg", quality=90)

    def save(self, image, name, **how):
        file = self.folder / "top/class" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        image.save(file, **how)

    def stored(self, *options):
        import h5py
        self.succeed("data", "import", "images", "top", "set.h5", "--force", *options)
        with h5py.File(self.folder / "set.h5") as file:
            return file["images"][:]

    def names(self):
        return sorted((self.folder / "top/class").iterdir(), key=lambda file: os.fsencode(file.name))

    def shorter(self, file):
        with self.image.open(file) as image:
            return min(image.size)

    def wanted(self, file, size, resize):
        """Resize and CenterCrop, in torchvision's arithmetic."""
        with self.image.open(file) as stored:
            image = stored.convert("RGB")
        width, height = image.size
        short, long = min(width, height), max(width, height)
        other = int(resize * long / short)
        wide, high = (resize, other) if width <= height else (other, resize)
        image = image.resize((wide, high), self.image.Resampling.BILINEAR)
        left, top = round((wide - size) / 2), round((high - size) / 2)
        return self.numpy.asarray(image.crop((left, top, left + size, top + size))).transpose(2, 0, 1).astype(int)

    def test_stored_pixels_are_pillows(self):
        for size, resize in ((224, 256), (48, 48), (400, 400)):
            stored = self.stored("--size", str(size), "--resize", str(resize))
            for pixels, file in zip(stored, self.names(), strict=True):
                difference = abs(pixels.astype(int) - self.wanted(file, size, resize))
                # A JPEG that shrinks to less than half is decoded at a smaller scale; decoders of WebP differ in their rounding.
                is_exact = file.suffix == ".png" or (file.suffix == ".jpg" and self.shorter(file) < 4 * resize)
                self.assertLessEqual(difference.mean(), 0 if is_exact else 1, f"{file.name} at {size}")
                self.assertLessEqual(difference.max(), 0 if is_exact else 24, f"{file.name} at {size}")

    def test_upright_images_are_pillows(self):
        from PIL import ImageOps
        for number in range(1, 9):
            exif = self.image.Exif()
            exif[0x0112] = number
            self.save(self.image.open(self.folder / "top/class/0.jpg"), f"turned{number}.png", exif=exif)
        for pixels, file in zip(self.stored("--size", "100", "--upright"), self.names(), strict=True):
            if not file.name.startswith("turned"):
                continue
            upright = self.folder / "upright.png"
            with self.image.open(file) as image:
                ImageOps.exif_transpose(image).save(upright)
            difference = abs(pixels.astype(int) - self.wanted(upright, 100, 100))
            self.assertLessEqual(difference.max(), 2, file.name)  # rows and columns are resized in another order

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "not installed: torchvision")
    def test_order_and_pixels_are_those_of_image_folder(self):
        import torchvision.transforms as T
        from torchvision.datasets import ImageFolder
        for name in ("B/x.PNG", "a/b/y.png", "a/b-/z.png", "a/t.txt", "\u00e4/1.png"):
            file = self.folder / "top" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            self.image.new("RGB", (40, 50), (len(name) * 9, 7, ord(name[0]) % 256)).save(file, format="PNG")
        transform = T.Compose([T.Resize(72), T.CenterCrop(64), T.PILToTensor()])
        expected = ImageFolder(self.folder / "top", transform)
        import h5py
        stored = self.stored("--size", "64", "--resize", "72")
        with h5py.File(self.folder / "set.h5") as file:
            labels = list(file["labels"][:])
        self.assertEqual(labels, expected.targets)
        for pixels, (image, _), (path, _) in zip(stored, expected, expected.samples, strict=True):
            most = 1 if pathlib.Path(path).suffix in (".webp", ".jpg") else 0
            self.assertLessEqual(abs(pixels.astype(int) - image.numpy().astype(int)).mean(), most, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
