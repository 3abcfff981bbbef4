# SPDX-License-Identifier: Apache-2.0
"""Reads what transforms_test.cpp has written of its operations on images, and does the same by torchvision and Pillow.

A line: width height channels operation strength checksum. The strength is a magnitude of RandAugment with its sign, or the factor of
one of ColorJitter's operations."""
import sys

import numpy as np
import torchvision.transforms.functional as F
from PIL import Image
from torchvision.transforms import InterpolationMode, RandAugment, autoaugment

JITTERS = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast, "saturation": F.adjust_saturation, "hue": F.adjust_hue}
TABLE = []
for number in range(256):
    for _ in range(8):
        number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def example(width, height, channels):
    """As in transforms_test.cpp."""
    c, y, x = np.ogrid[:channels, :height, :width]
    planes = ((x * (c + 2) * 3 + y * (5 - c) + (x // 7) * (y // 5) * 29) % 211 + 17).astype(np.uint8)
    return Image.fromarray(planes[0], "L") if channels == 1 else Image.fromarray(planes.transpose(1, 2, 0), "RGB")


def changed(image, operation, strength):
    if operation in JITTERS:
        return JITTERS[operation](image, float(strength))
    space = RandAugment()._augmentation_space(31, (image.height, image.width))
    magnitudes, signed = space[operation]
    number = int(strength.lstrip("-"))
    magnitude = float(magnitudes[number].item()) if magnitudes.ndim > 0 else 0.0
    if strength.startswith("-"):
        assert signed, operation
        magnitude = -magnitude
    return autoaugment._apply_op(image, operation, magnitude, interpolation=InterpolationMode.NEAREST, fill=None)


def checksum(width, height, channels, operation, strength):
    pixels = np.asarray(changed(example(width, height, channels), operation, strength))
    return crc32c((pixels if channels == 1 else pixels.transpose(2, 0, 1)).tobytes())


def main():
    wrong, lines = [], 0
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            width, height, channels, operation, strength, found = line.split()
            wanted = checksum(int(width), int(height), int(channels), operation, strength)
            lines += 1
            if int(found) != wanted:
                wrong.append(line.strip())
    known = list(RandAugment()._augmentation_space(31, (1, 1)))
    if sys.argv[2].split(",") != known:
        wrong.append(f"operations {sys.argv[2]}, not {known}")
    print("\n".join(wrong) or f"{lines} results are those of torchvision")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
