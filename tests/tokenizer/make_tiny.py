# SPDX-License-Identifier: Apache-2.0
"""make_tiny.py FOLDER: writes small tokenizers, and in expected.json the tokens of texts, as Hugging Face's tokenizers 0.23 gives them."""
import json
import pathlib
import random
import sys

import hugging_face


def main():
    folder = pathlib.Path(sys.argv[1])
    numbers = random.Random(4)
    texts = [*hugging_face.ARTICLE, hugging_face.CODE, "", "a" + "xyz" * 40 + "  b", " <mask> x<|endoftext|>y <|end", "ne\u0301 e n\u00e9 e",
             *(hugging_face.random_text(numbers, length) for length in (10, 30, 100, 300))]
    expected = {"texts": texts}
    for kind in hugging_face.KINDS:
        tokenizer = hugging_face.train(kind, 420, hugging_face.texts(3))
        tokenizer.save(str(folder / f"{kind}.json"), pretty=False)
        expected[kind] = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


main()
