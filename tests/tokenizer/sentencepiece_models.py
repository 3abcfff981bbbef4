# SPDX-License-Identifier: Apache-2.0
"""Models of SentencePiece, trained here by Google's own Python package."""
import io

import sentencepiece

LLAMA = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
         "split_digits": True, "allow_whitespace_only_pieces": True}
KINDS = {
    "llama": LLAMA,
    "llama without a space in front": {**LLAMA, "add_dummy_prefix": False},
    "bpe": {"model_type": "bpe"},
    "bpe that keeps spaces": {"model_type": "bpe", "remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "bpe with words in one": {"model_type": "bpe", "split_by_whitespace": False},
    "unigram": {"model_type": "unigram"},
    "unigram with bytes": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "nmt_nfkc_cf"},
    "unigram with spaces behind": {"model_type": "unigram", "treat_whitespace_as_suffix": True, "byte_fallback": True},
    "char": {"model_type": "char"},
    "word": {"model_type": "word"},
}


def train(kind, vocabulary, texts, **more):
    """The bytes of a tokenizer.model."""
    model = io.BytesIO()
    how = {"user_defined_symbols": ["<mask>", "<|end", "<|endoftext|>"], "control_symbols": ["<sep>"], "character_coverage": 0.999, "hard_vocab_limit": False,
           "minloglevel": 2, "num_threads": 1, **KINDS[kind], **more}
    if how["model_type"] in ("char", "word"):
        how["use_all_vocab"] = True
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=model, vocab_size=vocabulary, **how)
    return model.getvalue()
