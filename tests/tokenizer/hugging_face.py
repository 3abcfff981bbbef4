# SPDX-License-Identifier: Apache-2.0
"""Tokenizers in the shape of GPT-2's, Llama 3's and Qwen's, trained here by Hugging Face's library, because those of the models are not to be
had offline; and texts."""
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s|" + SIGNS
# Article 1 of the Universal Declaration of Human Rights.
ARTICLE = [
    "All human beings are born free and equal in dignity and rights. They're endowed with reason and conscience; don't they act as brothers?",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أن يعامل بعضهم بعضًا بروح الإخاء.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
]
CODE = "def f(x):\n    return {'a': x[0], \"b\": 12345.678}  # TODO\n\n\nif __name__ == '__main__':\r\n\tprint(f([1, 22, 333, 4444]))\n"


def shape(kind):
    """A tokenizer without a vocabulary, and its special tokens."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    tokenizer.decoder = decoders.ByteLevel()
    if kind == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        return tokenizer, ["<|endoftext|>"]
    expression = WORDS % ("{1,3}" if kind == "llama3" else "")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if kind == "llama3":
        return tokenizer, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


KINDS = "gpt2", "llama3", "qwen"


def train(kind, vocabulary, texts):
    tokenizer, special = shape(kind)
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in special])
    # Tokens of users: with white space beside, and searched for after normalization.
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=kind == "gpt2", normalized=False), AddedToken("né e", normalized=True),
                          AddedToken("<|end", normalized=False)])
    return tokenizer


def random_text(numbers, length):
    """Characters of all kinds, those that splitters and NFC treat in their own way more often."""
    special = "'’ſsStTrRvVeElLmMdD \t\n\r\x0b\x0c\x85\xa0\u2028\u2029\u3000\u0301\u0323\u0300\u0345\u1100\u1161\u11a8\u00e9\u212b\u0958\u0b4b\u0b3e09①Ⅷ<|>\0\u200b\ufeff"
    planes = [(0, 0x80), (0x80, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x780), (0x900, 0xE00), (0x1100, 0x1200), (0x1E00, 0x2000),
              (0x2000, 0x2C00), (0x3000, 0x3400), (0x4E00, 0xA000), (0xAC00, 0xD7B0), (0xF900, 0x10000), (0x10000, 0x11A00), (0x1D000, 0x1F000),
              (0x1F300, 0x1FB00), (0x20000, 0x2FA20), (0, 0x110000)]
    out = []
    while len(out) < length:
        draw = numbers.random()
        if draw < 0.45:
            out.append(numbers.choice(special))
        elif draw < 0.5:
            out.append(numbers.choice(["<|endoftext|>", "<|end_of_text|>", " <mask>  ", "né e", "ne\u0301 e", "'ll", "'RE", "   ", "\r\n\r\n", "12345"]))
        elif draw < 0.55:
            out.append(unicodedata.normalize("NFD", numbers.choice(ARTICLE))[:numbers.randrange(40)])
        else:
            code = numbers.randrange(*numbers.choice(planes))
            if not 0xD800 <= code < 0xE000:
                out.append(chr(code))
    return "".join(out)


def texts(seed, megabytes=0.0):
    """The article in each script, code, and random Unicode of so many mebibytes."""
    numbers = random.Random(seed)
    yield from ARTICLE
    yield CODE
    yield "\n".join(ARTICLE + [CODE]) * 3
    yield ""
    yield "x" * 5000 + " " * 3000 + "'" * 2000 + "é" * 3000
    left = megabytes * 2**20
    while left > 0:
        text = random_text(numbers, numbers.choice([1, 3, 10, 100, 1000, 20000]))
        left -= len(text.encode())
        yield text
