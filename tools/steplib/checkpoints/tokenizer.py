"""The tiny checkpoints' tokenizer: byte-level BPE, merged by hand from one small text.

A trainer's choice between equally frequent pairs may change from release to release; this one
takes the pair that sorts first, so that the vocabulary is the same everywhere.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from steplib.checkpoints.tensorfile import write_json
from steplib.paths import DATA

VOCABULARY = 1_031  # a prime: two or four ranks can't share it evenly
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# How text is cut before merging: contractions, words, single digits, signs, white space.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORDS = re.compile(r" ?[^\W\d_]+|\d| ?[^\w\s]+|\s+|_")

Pair = tuple[str, str]


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    write_json(folder / "tokenizer.json", tokenizer_table())
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 1024,
            "clean_up_tokenization_spaces": False,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
    )
    (folder / "chat_template.jinja").write_bytes(CHAT_TEMPLATE.encode())


def tokenizer_table() -> dict[str, Any]:
    """The content of tokenizer.json: 256 bytes, then merges, then the special tokens."""
    letters = [byte_letters()[byte] for byte in range(256)]
    merges = learn_merges(VOCABULARY - len(letters) - len(SPECIAL))
    tokens = letters + ["".join(pair) for pair in merges]
    return fast_tokenizer(
        vocabulary={token: number for number, token in enumerate(tokens)},
        merges=merges,
        special={token: len(tokens) + i for i, token in enumerate(SPECIAL)},
        cut={
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": SPLIT},
                    "behavior": "Isolated",
                    "invert": False,
                },
                byte_level(use_regex=False),
            ],
        },
    )


def fast_tokenizer(
    vocabulary: dict[str, int], merges: list[Pair], special: dict[str, int], cut: object
) -> dict[str, Any]:
    """A byte-level BPE as the tokenizers library reads it; `cut` is its pre-tokenizer."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token, number in special.items()
        ],
        "normalizer": None,
        "pre_tokenizer": cut,
        "post_processor": byte_level(use_regex=False),
        "decoder": byte_level(use_regex=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary | special,
            "merges": [list(pair) for pair in merges],
        },
    }


def byte_level(use_regex: bool) -> dict[str, object]:
    """The library's step between bytes and printable letters."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def byte_letters() -> dict[int, str]:
    """A printable letter for each byte, as GPT-2's byte-level BPE defines it."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    return table | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


def learn_merges(count: int) -> list[Pair]:
    """The `count` merges learned from the text: the most frequent pair first, ties by order."""
    letters = byte_letters()
    text = (DATA / "tokenizer_text.txt").read_text(encoding="utf-8")
    frequency = Counter(_WORDS.findall(text))
    words = {tuple(letters[b] for b in word.encode()): n for word, n in frequency.items()}
    merges: list[Pair] = []
    while len(merges) < count:
        pairs: Counter[Pair] = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:], strict=False):
                pairs[pair] += n
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {_merged(word, best): n for word, n in words.items()}
    return merges


def _merged(word: tuple[str, ...], pair: Pair) -> tuple[str, ...]:
    out: list[str] = []
    for piece in word:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return tuple(out)
