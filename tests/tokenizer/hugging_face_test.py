# SPDX-License-Identifier: Apache-2.0
"""Compares token numbers with those of Hugging Face's tokenizers: in many scripts, in code, and on random Unicode.

usage: hugging_face_test.py DRIVER [MEBIBYTES]
Ends with 77 (skipped) without the package: pip install tokenizers==0.23.*
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import hugging_face
    import tokenizers
except ImportError as error:
    print(f"skipped: {error} for {sys.executable}; pip install 'tokenizers==0.23.*', and configure with -DDISTDL_TOKENIZERS_PYTHON=PYTHON")
    sys.exit(77)
if not tokenizers.__version__.startswith("0.23."):
    print(f"skipped: tokenizers {tokenizers.__version__}, but 0.23 is expected; other versions have other versions of Unicode")
    sys.exit(77)


def answers(driver, file, texts):
    frames = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    out = subprocess.run([driver, file], input=frames, stdout=subprocess.PIPE, check=True, timeout=300).stdout
    at = 0
    for _ in texts:
        count, = struct.unpack_from("<I", out, at)
        yield list(struct.unpack_from(f"<{count}I", out, at + 4))
        at += 4 + 4 * count
    assert at == len(out)


def first_difference(tokenizer, text, mine, theirs):
    place = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
    show = lambda ids: [tokenizer.id_to_token(i) for i in ids[max(0, place - 2):place + 4]]
    return f"token {place}: {show(mine)}, but tokenizers has {show(theirs)}; in {text[:200]!r}"


def compare(driver, file, kind, texts):
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    theirs = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
    problems = [first_difference(tokenizer, text, mine, wanted)
                for text, mine, wanted in zip(texts, answers(driver, file, [text.encode() for text in texts]), theirs) if mine != wanted]
    print(f"{kind}: {len(texts)} texts, {sum(len(text.encode()) for text in texts)} bytes, {sum(map(len, theirs))} tokens, "
          f"{len(problems)} differences")
    for problem in problems[:5]:
        print("  " + problem)
    return len(problems)


def main():
    driver, size = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.3
    texts, wrong = list(hugging_face.texts(2, size)), 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in hugging_face.KINDS:
            tokenizer = hugging_face.train(kind, 1500, hugging_face.texts(1, 0.3))
            file = pathlib.Path(folder) / "tokenizer.json"
            tokenizer.save(str(file))
            wrong += compare(driver, file, kind, texts)
        # GPT-2's own two files
        tokenizer = hugging_face.shape("gpt2")[0]
        trained = hugging_face.train("gpt2", 800, hugging_face.ARTICLE)
        trained.model.save(folder)
        tokenizer.model = tokenizers.models.BPE.from_file(folder + "/vocab.json", folder + "/merges.txt")
        tokenizer.save(folder + "/gpt2.json")
        plain = [text for text in texts if "<|end" not in text and "<mask>" not in text]
        mine = list(answers(driver, folder + "/vocab.json", [text.encode() for text in plain]))
        differ = sum(a != b.ids for a, b in zip(mine, tokenizer.encode_batch(plain)))
        print(f"vocab.json and merges.txt: {len(plain)} texts, {differ} differences")
    sys.exit(1 if wrong + differ else 0)


main()
