# SPDX-License-Identifier: Apache-2.0
"""Synthetic photographs of ImageNet's sizes, on which the scripts here measure."""
import numpy as np
from PIL import Image


def make(folder, count):
    """Waves and noise, so that a pixel takes about as many bytes as in ImageNet (0.6)."""
    random, total, pixels = np.random.default_rng(1), 0, 0
    for number in range(count):
        width, height = ((500, 375), (500, 333), (375, 500), (500, 400))[number % 4]
        x, y = np.meshgrid(np.arange(width), np.arange(height))
        colours = [128 + 50 * np.sin(x * f / 37 + number) + 40 * np.cos(y * f / 29) + random.normal(0, 12, x.shape) for f in (1, 2, 3)]
        file = folder / f"{number:05}.jpg"
        Image.fromarray(np.stack(colours, -1).clip(0, 255).astype("uint8")).save(file, quality=92)
        total, pixels = total + file.stat().st_size, pixels + width * height
    return total / count, total / pixels
