# SPDX-License-Identifier: Apache-2.0
"""make_tiny.py FOLDER: writes small tokenizers; in expected.json the tokens of texts, as Hugging Face's tokenizers 0.23 gives them; and in
expected_sentencepiece.json those that Google's package sentencepiece gives, and the texts that it makes of these."""
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece

import hugging_face
import sentencepiece_models


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
    texts += [" ", "  a  b ", "a\u2581b\nc\td", "<s> a </s><sep><unk>", "x<mask> <|endoftext|>ＡB\u00a0C<|end\n"]
    # Numbers without a digit twice: versions of the library take other ones of equally likely divisions.
    expected = {"texts": [text.replace("22, 333, 4444", "27, 385, 4619") for text in texts]}
    # Rules of NFKC take 240 KB; these are small: what follows becomes what is in front.
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for of, to in ("\u00a0", " "), ("Ａ", "A"), ("ﬁ", "fi"), ("e\u0301", "é"), ("e\u0301\u0323", "ẹ́"), ("\n", " "):
            print(" ".join(f"{ord(c):x}" for c in of), " ".join(f"{ord(c):x}" for c in to), sep="\t", file=rules)
        rules.flush()
        for kind, more in ("llama", {}), ("unigram", {"normalization_rule_tsv": rules.name}):
            model = sentencepiece_models.train(kind, 560, (hugging_face.ARTICLE + hugging_face.CODE.split("\n")) * 20, character_coverage=0.98, **more)
            model = model.replace(rules.name.encode(), b"x" * len(rules.name))
            (folder / f"{kind}.model").write_bytes(model)
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            tokens = [processor.encode(text) for text in expected["texts"]]
            expected[kind] = {"tokens": tokens, "decoded": [processor.decode(each) for each in tokens]}
    (folder / "expected_sentencepiece.json").write_text(json.dumps(expected) + "\n")


main()
