# SPDX-License-Identifier: Apache-2.0
"""Compares token numbers and texts with those of Google's Python package sentencepiece: in many scripts, in code, and on random Unicode; and with
transformers' LlamaTokenizer.

usage: sentencepiece_test.py DRIVER [MEBIBYTES]
Ends with 77 (skipped) without the packages: pip install sentencepiece tokenizers
"""
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

try:
    import hugging_face
    import sentencepiece
    import sentencepiece_models
except ImportError as error:
    print(f"skipped: {error} for {sys.executable}; pip install sentencepiece tokenizers, and configure with -DDISTDL_TOKENIZERS_PYTHON=PYTHON")
    sys.exit(77)


def answers(driver, file, items, form, *mode):
    """Of the driver, for each item in frames of elements of `form`, in frames of the other form."""
    other = "I" if form == "B" else "B"
    frames = b"".join(struct.pack(f"<I{len(item)}{form}", len(item), *item) for item in items)
    run = subprocess.run([driver, file, *mode], input=frames, stdout=subprocess.PIPE, timeout=300, check=True)
    at = 0
    for _ in items:
        count, = struct.unpack_from("<I", run.stdout, at)
        yield struct.unpack_from(f"<{count}{other}", run.stdout, at + 4)
        at += 4 + count * struct.calcsize(other)
    assert at == len(run.stdout)


def tokens_of(driver, file, texts):
    return map(list, answers(driver, file, [text.encode() for text in texts], "B"))


def report(what, cases, problems):
    print(f"{what}: {cases} cases, {len(problems)} differences", flush=True)
    for problem in problems[:3]:
        print("  " + problem[:600])
    return len(problems)


def is_as_good(model, mine, theirs):
    """Versions of the library round the sums of scores of unigram models in other ways, and so choose others of divisions that are as likely."""
    one, other = (math.fsum(model.get_score(i) for i in ids) for ids in (mine, theirs))
    return abs(one - other) < 1e-6 * abs(one) and model.decode(mine) == model.decode(theirs)


def compare_encoding(driver, file, kind, model, texts):
    problems, ties = [], 0
    for text, mine in zip(texts, tokens_of(driver, file, texts)):
        theirs = model.encode(text)
        if mine != theirs and kind.startswith("unigram") and is_as_good(model, mine, theirs):
            ties += 1
        elif mine != theirs:
            place = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
            problems.append(f"token {place}: {model.id_to_piece(mine[place:place + 4])}, but sentencepiece has {model.id_to_piece(theirs[place:place + 4])}; in {text[:200]!r}")
    return report(f"{kind}, tokens of texts ({ties} divided otherwise, as likely)", len(texts), problems)


def compare_decoding(driver, file, kind, model, texts):
    """What texts become, and any tokens but for control symbols, whose names distdl shows."""
    numbers = random.Random(5)
    ids = [i for i in range(model.get_piece_size()) if not model.is_control(i)]
    special = [i for i in ids if model.is_byte(i) or model.id_to_piece(i).startswith("\u2581")] or ids
    all_ids = [model.encode(text) for text in texts]
    all_ids += [[numbers.choice(special if numbers.random() < 0.6 else ids) for _ in range(numbers.randrange(1, 12))] for _ in range(1500)]
    problems = []
    for tokens, mine in zip(all_ids, answers(driver, file, all_ids, "I", "decode")):
        theirs = model.decode(tokens).encode()
        if bytes(mine) != theirs:
            problems.append(f"{bytes(mine)!r}, but sentencepiece has {theirs!r} for {model.id_to_piece(tokens)}")
    return report(f"{kind}, texts of tokens", len(all_ids), problems)


def compare_transformers(driver, file, texts):
    try:
        import transformers
    except ImportError as error:
        print(f"transformers is not compared: {error}")
        return 0
    # It finds its special tokens in texts, which SentencePiece does not, and puts no space before one.
    texts = [text for text in texts if "<" not in text and not text.startswith(" ")]
    theirs = transformers.LlamaTokenizer.from_pretrained(file.parent, legacy=False, add_bos_token=False)
    problems = [f"{mine} in {text!r}, but {wanted}" for text, mine, wanted in
                zip(texts, tokens_of(driver, file, texts), theirs(texts, add_special_tokens=False)["input_ids"]) if mine != wanted]
    return report("transformers.LlamaTokenizer", len(texts), problems)


def main():
    driver, size = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.3
    texts, wrong = list(hugging_face.texts(2, size)), 0
    texts += ["", " ", "  a  b ", "a\u2581b", "<s> a </s><sep><unk>", "x<mask> <|endoftext|><|end\n"]
    for kind in sentencepiece_models.KINDS:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "tokenizer.model"
            file.write_bytes(sentencepiece_models.train(kind, 1000, (hugging_face.ARTICLE + hugging_face.CODE.split("\n")) * 20))
            model = sentencepiece.SentencePieceProcessor(model_file=str(file))
            wrong += compare_encoding(driver, file, kind, model, texts)
            wrong += compare_decoding(driver, file, kind, model, texts[-300:])
            if kind == "llama":
                wrong += compare_transformers(driver, file, texts)
    sys.exit(1 if wrong else 0)


main()
