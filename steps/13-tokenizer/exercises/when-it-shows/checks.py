"""Lets the chapter's detokenizer work on drawn tokens, and compares the predicted pieces."""

from __future__ import annotations

from random import Random

from pairs import equal

PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
OTHERS = (byte for byte in range(256) if byte not in PRINTABLE)
CHARS = {byte: chr(byte) for byte in PRINTABLE} | {
    byte: chr(256 + i) for i, byte in enumerate(OTHERS)
}
"""How a byte-level tokenizer writes each byte."""

END = "<end>"
WIDE = "é你好🦜€ñ😀кß語"


def byte_level(tokens):
    """A byte-level tokenizer that has these tokens, and the id of each."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    written = ["".join(CHARS[byte] for byte in token) for token in tokens]
    ids = {token: i for i, token in enumerate(dict.fromkeys(["a", "Ġ", *written]))}
    made = Tokenizer(models.BPE(ids, []))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([END])
    found = [ids[token] for token in written]
    return PreTrainedTokenizerFast(tokenizer_object=made), found, made.token_to_id(END)


def sentencepiece():
    """A tokenizer with a token for each byte, and one for the letter b, whose id is 256."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    names = [*(f"<0x{byte:02X}>" for byte in range(256)), "b"]
    made = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [], byte_fallback=True))
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made)


def streamed(tokenizer, ids, end=None):
    """The pieces that the real detokenizer makes; end: an end id that follows."""
    from minisgl.message import DetokenizeMsg
    from minisgl.tokenizer.detokenize import DetokenizeManager

    manager = DetokenizeManager(tokenizer)
    msgs = [DetokenizeMsg(0, token, False) for token in ids]
    if end is None:
        msgs[-1].finished = True
    else:
        msgs.append(DetokenizeMsg(0, end, True, at_end=True))
    return manager.detokenize(msgs)


def byte_streams(cases, at_end=False):
    """For each list of tokens the real pieces, and what the reader says."""
    found = []
    for tokens in cases:
        tokenizer, ids, end = byte_level(tokens)
        measured = streamed(tokenizer, ids, end if at_end else None)
        shown = " ".join(token.hex().upper() for token in tokens)
        found.append({"case": f"the pieces of {shown}", "measured": measured})
    from answer import pieces

    for case, tokens in zip(found, cases, strict=True):
        case["predicted"] = list(pieces(list(tokens), at_end))
    return found


def runs(cases):
    """For each run of byte tokens the real pieces, and what the reader says."""
    tokenizer = sentencepiece()
    found = [
        {
            "case": f"the pieces of the run {run.hex(' ').upper()}, and b",
            "measured": streamed(tokenizer, [*run, 256]),
        }
        for run in cases
    ]
    from answer import run_pieces

    for case, run in zip(found, cases, strict=True):
        case["predicted"] = list(run_pieces(run))
    return found


def compare(got, what):
    for case in got:
        text = f"{case['case']} ({what})"
        equal(len(case["predicted"]), len(case["measured"]), f"how many are {text}")
        equal({"pieces": case["predicted"]}, {"pieces": case["measured"]}, text)


def wide(random, length=None):
    """The bytes of a character that has more than one."""
    fit = [char for char in WIDE if length in (None, len(char.encode()))]
    return random.choice(fit).encode()


def probe_whole_characters(seed):
    random = Random(seed)
    words = [b"at", b"om", b" with", b"s", b"!", wide(random), wide(random)]
    return byte_streams([random.sample(words, 6) + [b"end"] for _ in range(2)])


def judge_whole_characters(seed, got):
    compare(got, "what no later token can change is shown at once, be it half a word")


def probe_characters_in_several_tokens(seed):
    random = Random(seed)
    lone = [bytes([byte]) for byte in wide(random, 4) + wide(random, 3)]
    return byte_streams([[b"a", *lone, b"z"]])


def judge_characters_in_several_tokens(seed, got):
    compare(got, "half a character shows nothing, and its last byte brings all of it")


def probe_text_in_front_of_half_a_character(seed):
    random = Random(seed)
    a, b = wide(random, 3), wide(random, 4)
    return byte_streams([[b"Hi" + a[:1], a[1:2], a[2:] + b"x" + b[:3], b[3:], b"."]])


def judge_text_in_front_of_half_a_character(seed, got):
    compare(got, "only what may still become a character waits, and the text in front of it not")


def probe_wrong_bytes(seed):
    random = Random(seed)
    bad = bytes([random.choice((0xFF, 0xFE, 0xC0, 0xF8, 0x80, 0xBF))])
    cases = [[b"a", bad, bad, bad, b"z"], [b"a", b"\xe4", bad, b"\xc3", b"\xc3", b"\xa9"]]
    return byte_streams(cases)


def judge_wrong_bytes(seed, got):
    compare(got, "a mark with a mark behind it can't become a character any more, so it is shown")


def probe_an_answer_that_is_cut(seed):
    random = Random(seed)
    half = wide(random, 3)[: random.randrange(1, 3)]
    return byte_streams([[b"yes", half], [b"no", bytes([half[0]]), b"\xff"]])


def judge_an_answer_that_is_cut(seed, got):
    compare(got, "with the last message comes all that was held back, a mark too")


def probe_an_end_id(seed):
    random = Random(seed)
    cut = wide(random, 4)[: random.randrange(1, 4)]
    return byte_streams([[b"yes", b"."], [b"no", cut]], at_end=True)


def judge_an_end_id(seed, got):
    compare(
        got, "an end id has no text of its own, and its message still brings what was held back"
    )


def probe_a_readable_run(seed):
    random = Random(seed)
    return runs([b"".join(wide(random) for _ in range(count)) for count in (1, 3)])


def judge_a_readable_run(seed, got):
    compare(got, "of a run nothing is shown before its end, since one wrong byte changes all of it")


def probe_a_run_with_a_wrong_byte(seed):
    random = Random(seed)
    good = wide(random, 3) + wide(random, 2)
    return runs([good + b"\xff", good[:3] + b"\xff" + b"A" + wide(random, 2)])


def judge_a_run_with_a_wrong_byte(seed, got):
    compare(
        got, "a wrong byte settles the run at once, one mark for each of its bytes, good or not"
    )


def probe_bytes_that_look_good(seed):
    random = Random(seed)
    heads = ((0xE0, 0x80), (0xED, 0xA0), (0xF0, 0x80), (0xF4, 0x90))
    tails = [bytes(random.randrange(0x80, 0x90) for _ in range(2)) for _ in heads]
    return runs([bytes(head) + tail for head, tail in zip(heads, tails, strict=True)])


def judge_bytes_that_look_good(seed, got):
    compare(got, "these first two bytes begin no character, so the second of them is the wrong one")


def probe_a_run_that_is_cut(seed):
    random = Random(seed)
    return runs([wide(random, 2) + wide(random, 4)[: random.randrange(1, 4)]])


def judge_a_run_that_is_cut(seed, got):
    compare(
        got, "it could be read on, until b ended it; then it is one of those that can't be read"
    )
