"""Chapter 13: the pieces of a stream are the text of its tokens, whatever the tokens are."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from pairs import checkpoint, equal, public_bug, truth

PIECES = ("▁", "▁▁", "▁a", "▁atoms", "▁with", "b", "é", "你", "")
TOKENS = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *PIECES)
BYTE = 3  # the id of the first byte token

PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
OTHERS = (byte for byte in range(256) if byte not in PRINTABLE)
CHARS = {byte: chr(byte) for byte in PRINTABLE} | {
    byte: chr(256 + i) for i, byte in enumerate(OTHERS)
}
"""How byte-level tokenizers write each byte, since GPT-2."""
MADE = {"sentencepiece": TOKENS, "byte-level": (*CHARS.values(), "")}
"""Vocabularies that are made here; both have a token without text."""


def sentencepiece() -> Any:
    """A tokenizer of the tokenizers library in SentencePiece's manner: spaces as ▁, bytes apart."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    vocab = {token: i for i, token in enumerate(TOKENS)}
    made = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", byte_fallback=True))
    space = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    made.normalizer = normalizers.Sequence(space)
    text = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*text, decoders.Strip(" ", 1, 0)])
    return made


def byte_level() -> Any:
    """A tokenizer of the tokenizers library in GPT-2's manner, without a single merge."""
    from tokenizers import Tokenizer, decoders, models

    made = Tokenizer(models.BPE({token: i for i, token in enumerate(MADE["byte-level"])}, []))
    made.decoder = decoders.ByteLevel()
    return made


@lru_cache
def vocabulary(name: str) -> dict[int, str]:
    """Each id's token, as the tokenizer writes it."""
    if name in MADE:
        return dict(enumerate(MADE[name]))
    facts = json.loads((Path(checkpoint(name)) / "tokenizer.json").read_text(encoding="utf-8"))
    added = {token["id"]: token["content"] for token in facts["added_tokens"]}
    return {i: token for token, i in facts["model"]["vocab"].items()} | added


def whole(name: str, ids: list[int]) -> str:
    """The text of ids: what a judge knows of decoding, in plain Python."""
    tokens = [vocabulary(name)[i] for i in ids if i in vocabulary(name)]
    if name != "sentencepiece":
        byte = {char: byte for byte, char in CHARS.items()}
        return bytes(byte[char] for char in "".join(tokens)).decode(errors="replace")
    text = ""
    for are_bytes, run in groupby(tokens, lambda token: token.startswith("<0x")):
        if are_bytes:
            data = bytes(int(token[3:5], 16) for token in run)
            try:
                text += data.decode()
            except UnicodeDecodeError:
                text += "\ufffd" * len(data)
        else:
            text += "".join(run).replace("▁", " ")
    return text.removeprefix(" ")


def piece(token: str) -> int:
    return BYTE + 256 + PIECES.index(token)


def in_bytes(name: str, data: bytes) -> list[int]:
    """Data as tokens of one byte each; a byte that has no token is left out."""
    if name == "sentencepiece":
        return [BYTE + byte for byte in data]
    ids = {token: i for i, token in vocabulary(name).items()}
    return [ids[CHARS[byte]] for byte in data if CHARS[byte] in ids]


def tokenizer(name: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    from minisgl.utils import load_tokenizer

    if name in MADE:
        made = sentencepiece() if name == "sentencepiece" else byte_level()
        return PreTrainedTokenizerFast(tokenizer_object=made)
    return load_tokenizer(checkpoint(name))


def manager(name: str) -> Any:
    from minisgl.tokenizer.detokenize import DetokenizeManager

    return DetokenizeManager(tokenizer(name))


def message(uid: int, token: int, finished: bool = False, **more: Any) -> Any:
    from minisgl.message import DetokenizeMsg

    return DetokenizeMsg(uid, token, finished, **more)


def stream(made: Any, ids: list[int], uid: int = 0) -> tuple[list[str], int]:
    """The piece of each token, and the most tokens that were kept meanwhile."""
    pieces, widest = [], 0
    for i, token in enumerate(ids):
        pieces += made.detokenize([message(uid, token, i == len(ids) - 1)])
        if uid in made.decode_map:
            widest = max(widest, len(made.decode_map[uid].decoded_ids))
    return pieces, widest


def drawn(name: str, seed: int, streams: int = 60) -> list[list[int]]:
    """Streams of random tokens, many of them of single bytes, some in no vocabulary."""
    rng = np.random.default_rng(seed)
    size = len(vocabulary(name))
    lone = in_bytes(name, bytes(rng.integers(0, 256, 64).tolist()))
    text = in_bytes(name, "aé你😀 ".encode())
    kinds = [lone, text, list(range(size)), list(range(size - len(PIECES), size + 2))]
    made = []
    for i in range(streams):
        pools = [kinds[k] for k in rng.integers(0, 4, 1 + i % 4)]
        made.append([int(rng.choice(pools[t % len(pools)])) for t in range(1 + i)])
    return made


def joined(name: str, seed: int) -> Any:
    made = manager(name)
    return [stream(made, ids)[0] for ids in drawn(name, seed)]


def check_joined(name: str, seed: int, got: Any) -> None:
    for pieces, ids in zip(got, drawn(name, seed), strict=True):
        equal("".join(pieces), whole(name, ids), f"the pieces of {ids}")


def probe_pieces_of_byte_level_tokens_are_the_whole_text(seed):
    return joined("tiny-qwen3", seed)


def judge_pieces_of_byte_level_tokens_are_the_whole_text(seed, got):
    check_joined("tiny-qwen3", seed, got)


def probe_pieces_of_sentencepiece_tokens_are_the_whole_text(seed):
    return joined("sentencepiece", seed)


def judge_pieces_of_sentencepiece_tokens_are_the_whole_text(seed, got):
    check_joined("sentencepiece", seed, got)


def probe_pieces_of_the_real_tokenizer_are_the_whole_text(seed):
    return joined("smollm2-135m", seed)


def judge_pieces_of_the_real_tokenizer_are_the_whole_text(seed, got):
    check_joined("smollm2-135m", seed, got)


@public_bug("B75")
def probe_a_character_in_several_tokens_comes_whole(seed):
    made = manager("tiny-qwen3")
    ids = [in_bytes("tiny-qwen3", text.encode()) for text in ("ď", "😀", "aé")]
    apart = manager("sentencepiece")
    last = [*in_bytes("sentencepiece", "😀".encode()), piece("b")]
    return [[stream(made, tokens)[0] for tokens in ids], stream(apart, last)[0]]


def judge_a_character_in_several_tokens_comes_whole(seed, got):
    equal(got[0], [["", "ď"], ["", "", "", "😀"], ["a", "", "é"]], "pieces of byte-level tokens")
    equal(got[1], ["", "", "", "", "😀b"], "pieces of byte tokens and one that ends their run")


def parted(name: str) -> list[list[int]]:
    """Two characters in bytes, with tokens that have no text after one byte, after two, ..."""
    ids = in_bytes(name, "é你".encode())
    empty = MADE[name].index("")
    cuts = [(cut, count) for cut in range(len(ids) + 1) for count in (1, 2)]
    return [[*ids[:cut], *[empty] * count, *ids[cut:]] for cut, count in cuts]


def probe_a_token_without_text_ends_a_run_of_byte_tokens_and_nothing_else(seed):
    return {name: [stream(manager(name), ids)[0] for ids in parted(name)] for name in MADE}


def judge_a_token_without_text_ends_a_run_of_byte_tokens_and_nothing_else(seed, got):
    for name, streams in got.items():
        for pieces, ids in zip(streams, parted(name), strict=True):
            equal("".join(pieces), whole(name, ids), f"the pieces of {ids}, {name}")
    inside = ["\ufffd" * 5, "é你"]
    equal(["".join(got["sentencepiece"][i]) for i in (2, 4)], inside, "behind one byte, and two")
    equal({"".join(pieces) for pieces in got["byte-level"]}, {"é你"}, "byte-level: none is parted")


def spoiled() -> list[list[int]]:
    """A character that is begun and not ended, in the midst of letters, at every place."""
    letters = [piece("b")] * 40
    run = in_bytes("sentencepiece", b"\xe4" + b"a" * 24)
    return [[*letters[:place], *run, piece("b")] for place in range(len(letters))]


def probe_a_wrong_byte_spoils_its_run_wherever_it_comes(seed):
    return [stream(manager("sentencepiece"), ids)[0] for ids in spoiled()]


def judge_a_wrong_byte_spoils_its_run_wherever_it_comes(seed, got):
    for pieces, ids in zip(got, spoiled(), strict=True):
        place = len(ids) - 26
        equal("".join(pieces), "b" * place + "\ufffd" * 25 + "b", f"the text, {place} tokens in")


def spaced() -> list[list[int]]:
    """A run of byte tokens that begins with a space, in the midst of letters, at every place."""
    run = in_bytes("sentencepiece", " aaaaa你".encode())
    return [[*[piece("b")] * place, *run, piece("b")] for place in range(40)]


def probe_a_run_keeps_its_first_space_wherever_it_comes(seed):
    return [stream(manager("sentencepiece"), ids)[0] for ids in spaced()]


def judge_a_run_keeps_its_first_space_wherever_it_comes(seed, got):
    for pieces, ids in zip(got, spaced(), strict=True):
        equal("".join(pieces), whole("sentencepiece", ids), f"the text of {ids}")


ENDLESS = {"continued": b"\x80", "begun": b"\xe4", "never": b"\xff", "half": b"\xf0\x9f"}


@public_bug("B76")
def probe_two_thousand_bytes_that_are_no_text_flow_in_linear_time(seed):
    found = {}
    for name in ("tiny-qwen3", "sentencepiece"):
        for kind, data in ENDLESS.items():
            made = manager(name)
            decode, work = made.tokenizer.decode, []

            def counted(ids, decode=decode, work=work, **options):
                work.append(len(ids))
                return decode(ids, **options)

            made.tokenizer.decode = counted
            ids = (in_bytes(name, data) * 2000)[:2000]
            pieces, widest = stream(made, ids)
            late = sum(len(text) for text in pieces[-8:])
            found[f"{name} {kind}"] = ["".join(pieces), widest, sum(work), late]
    return found


def judge_two_thousand_bytes_that_are_no_text_flow_in_linear_time(seed, got):
    equal(len(got), 8, "kinds of streams")
    for kind, (text, widest, work, late) in got.items():
        name, _, data = kind.partition(" ")
        ids = (in_bytes(name, ENDLESS[data]) * 2000)[:2000]
        equal(text, whole(name, ids), f"the text of {kind}")
        truth(widest <= 64, f"{kind}: at most 64 tokens are kept", widest)
        truth(work <= 100 * 2000, f"{kind}: at most 100 tokens are decoded for each", work)
        truth(late <= 16, f"{kind}: the text comes as the tokens do, not at the end", late)


def probe_a_long_text_in_byte_tokens_flows_too(seed):
    made = manager("sentencepiece")
    pieces, widest = stream(made, in_bytes("sentencepiece", "你a".encode() * 500))
    return [pieces, widest]


def judge_a_long_text_in_byte_tokens_flows_too(seed, got):
    pieces, widest = got
    equal("".join(pieces), "你a" * 500, "the text")
    truth(widest <= 64, "at most 64 tokens are kept", widest)
    truth(max(map(len, pieces)) <= 32, "no piece is longer than 32 characters", pieces[-1])


@public_bug("B78")
def probe_leading_spaces_are_kept(seed):
    made = manager("sentencepiece")
    asked = [["▁atoms", "▁with"], ["▁", "▁a"], ["▁▁", "▁", "b", "▁", "▁", "▁a"], ["▁a"] * 50]
    streams = [[piece(token) for token in tokens] for tokens in asked]
    return [streams, [stream(made, ids)[0] for ids in streams]]


def judge_leading_spaces_are_kept(seed, got):
    streams, pieces = got
    equal(pieces[0], ["atoms", " with"], "two words")
    equal("".join(pieces[3]), " ".join("a" * 50), "a text longer than the window")
    for ids, each in zip(streams, pieces, strict=True):
        equal("".join(each), whole("sentencepiece", ids), "the text with its spaces")


SPACED = "do n't stop , b ."


def in_words() -> Any:
    """A tokenizer of whole words, which decode puts spaces between; only BPE is never cleaned."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocab = {word: i for i, word in enumerate(SPACED.split())}
    made = Tokenizer(models.WordLevel(vocab, unk_token="."))
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=True)


def probe_spaces_before_punctuation_are_kept(seed):
    from minisgl.tokenizer.detokenize import DetokenizeManager

    names = ("sentencepiece", "tiny-qwen3")
    texts = [stream(manager(name), in_bytes(name, SPACED.encode()))[0] for name in names]
    texts.append(stream(DetokenizeManager(in_words()), list(range(len(SPACED.split()))))[0])
    return ["".join(pieces) for pieces in texts]


def judge_spaces_before_punctuation_are_kept(seed, got):
    equal(got[:2], [SPACED] * 2, "the text of byte tokens, with both tokenizers")
    equal(got[2], SPACED, "the text of words, with a tokenizer that by itself cleans up")


@public_bug("B79")
def probe_nothing_is_lost_at_the_end_but_the_end_id(seed):
    made = manager("tiny-qwen3")
    end = made.tokenizer.convert_tokens_to_ids("<|im_end|>")
    (a, half) = in_bytes("tiny-qwen3", b"a\xf0")
    cut = [message(1, a), message(1, half, True)]
    ended = [message(2, a), message(2, half), message(2, end, True, at_end=True)]
    ignored = [message(3, a), message(3, end), message(3, end, True)]
    alone = [message(4, end, True, at_end=True)]
    return [made.detokenize(msgs) for msgs in (cut, ended, ignored, alone)]


def judge_nothing_is_lost_at_the_end_but_the_end_id(seed, got):
    cut, ended, ignored, alone = got
    equal(cut, ["a", "\ufffd"], "half a character at the end of the last token")
    equal(ended, ["a", "", "\ufffd"], "half a character before the end id")
    equal(ignored, ["a", "<|im_end|>", "<|im_end|>"], "end ids that don't end anything")
    equal(alone, [""], "an answer that is empty")


@public_bug("B73")
def probe_aborted_requests_leave_nothing(seed):
    made = manager("tiny-qwen3")
    ids = in_bytes("tiny-qwen3", b"a\xf0")
    late = []
    for uid in range(1000):
        made.detokenize([message(uid, token) for token in ids])
        made.abort(uid)
        late += made.detokenize([message(uid, ids[0]), message(uid, ids[1])])
    kept = len(made.decode_map)
    for uid in range(1000, 30_000):
        made.abort(uid)
    return [kept, sorted(set(late)), len(made.decode_map), len(made.aborted)]


def judge_aborted_requests_leave_nothing(seed, got):
    kept, late, at_end, remembered = got
    equal(kept, 0, "requests whose state is kept after 1,000 aborts with late tokens")
    equal(late, [""], "the text of tokens that come after the abort")
    equal(at_end, 0, "requests whose state is kept after aborts of unknown ones")
    truth(0 < remembered <= 10_000, "at most 10,000 aborts are remembered", remembered)


def probe_finished_and_refused_requests_leave_nothing(seed):
    made = manager("tiny-qwen3")
    a, b = in_bytes("tiny-qwen3", b"ab")
    texts = made.detokenize([message(1, a), message(2, b), message(1, b), message(3, a)])
    running = sorted(made.decode_map)
    made.abort(3)
    texts += made.detokenize(
        [message(2, a, True), message(3, a, True), message(1, -1, True, error="no")]
    )
    texts += made.detokenize([message(4, -1, True, error="no")])
    return [texts, running, len(made.decode_map), len(made.aborted)]


def judge_finished_and_refused_requests_leave_nothing(seed, got):
    equal(got[0], ["a", "b", "b", "a", "a", "", "", ""], "each message's text, in order")
    equal(got[1], [1, 2, 3], "requests with state while they run")
    equal(got[2:], [0, 0], "states, and aborts that are still waited for, at the end")


def probe_a_stream_is_the_text_of_the_same_request_offline(seed):
    import torch

    from minisgl.core import SamplingParams
    from minisgl.llm import LLM

    class Streaming(LLM):
        def offline_send_result(self, reply):
            pieces.extend(made.detokenize(reply))
            super().offline_send_result(reply)

    folder, rows = checkpoint("tiny-qwen3"), {"max_running_req": 2, "num_page_override": 64}
    model = Streaming(folder, torch.float32, **rows)
    a, half = in_bytes("tiny-qwen3", b"a\xf0")
    end = model.tokenizer.convert_tokens_to_ids("<|im_end|>")
    streams = []
    for script, ignore in (([a, end], False), ([a, half, a], False), ([half, a, end], True)):
        made, pieces, tokens = manager("tiny-qwen3"), [], iter(script)

        def sample(logits, args, tokens=tokens):
            return torch.tensor([next(tokens)], device=model.engine.device)

        model.engine.sampler.sample = sample
        params = SamplingParams(max_tokens=len(script), ignore_eos=ignore)
        text = model.generate([[5, 6]], params, use_tqdm=False)[0]["text"]
        streams.append(["".join(pieces), text, len(made.decode_map)])
    model.shutdown()
    return streams


def judge_a_stream_is_the_text_of_the_same_request_offline(seed, got):
    want = ["a", "a\ufffda", "\ufffda<|im_end|>"]
    equal([streamed for streamed, *_ in got], want, "the streams")
    equal([text for _, text, _ in got], want, "the answers of LLM.generate")
    equal([left for *_, left in got], [0, 0, 0], "states at the end")


ADDED = ["a b", "<｜end｜>"]
SAMPLES = ("a 🦜 b  c", "\n\t x", "👩‍👩‍👧", "Grüße, 你好!")


def shown(name: str, ids: list[int]) -> list[list[str]]:
    """Each token's own text, and its bytes as hexadecimal digits."""
    from minisgl.tokenizer.token_text import TokenTexts

    texts = TokenTexts(tokenizer(name))
    return [[text, data.hex()] for text, data in (texts[token] for token in ids)]


def as_shown(data: bytes) -> list[str]:
    return [data.decode(errors="replace"), data.hex()]


def in_tokens(name: str, seed: int) -> Any:
    encoded = [tokenizer(name).encode(text) for text in SAMPLES]
    return [[ids, shown(name, ids)] for ids in [*encoded, *drawn(name, seed, 20)]]


def check_tokens(name: str, seed: int, got: Any) -> None:
    equal([ids for ids, _ in got[len(SAMPLES) :]], drawn(name, seed, 20), "the drawn ids")
    for ids, tokens in got:
        data = [bytes.fromhex(digits) for _, digits in tokens]
        equal(tokens, [as_shown(each) for each in data], "each token's text and its bytes")
        equal(b"".join(data).decode(errors="replace"), whole(name, ids), f"the bytes of {ids}")


def probe_the_bytes_of_byte_level_tokens_are_those_of_the_text(seed):
    return in_tokens("tiny-qwen3", seed)


def judge_the_bytes_of_byte_level_tokens_are_those_of_the_text(seed, got):
    check_tokens("tiny-qwen3", seed, got)


def probe_the_bytes_of_real_tokens_are_those_of_the_text(seed):
    return in_tokens("smollm2-135m", seed)


def judge_the_bytes_of_real_tokens_are_those_of_the_text(seed, got):
    check_tokens("smollm2-135m", seed, got)
    for text, (_, tokens) in zip(SAMPLES, got, strict=False):
        equal("".join(digits for _, digits in tokens), text.encode().hex(), f"bytes of {text!r}")


def probe_every_byte_has_its_character_and_no_other(seed):
    from minisgl.tokenizer.token_text import ALPHABET

    return ALPHABET


def judge_every_byte_has_its_character_and_no_other(seed, got):
    equal(got, {char: byte for byte, char in CHARS.items()}, "the bytes of characters")


@public_bug("B75")
def probe_half_a_character_has_its_own_bytes(seed):
    names = ("tiny-qwen3", "sentencepiece")
    return [shown(name, in_bytes(name, "ď😀".encode())) for name in names]


def judge_half_a_character_has_its_own_bytes(seed, got):
    want = [["\ufffd", f"{byte:02x}"] for byte in "ď😀".encode()]
    equal(got, [want, want], "tokens of one byte each, byte-level and SentencePiece's")


@public_bug("B78")
def probe_tokens_are_shown_with_their_spaces_and_special_ones_as_their_text(seed):
    from minisgl.tokenizer.token_text import TokenTexts

    end = tokenizer("tiny-qwen3").convert_tokens_to_ids("<|im_end|>")
    made = tokenizer("tiny-qwen3")
    made.add_tokens(ADDED)
    texts, added = TokenTexts(made), made.convert_tokens_to_ids(ADDED)
    pieces = [*map(piece, PIECES), TOKENS.index("</s>"), len(TOKENS), 10**6]
    plain = [[text, data.hex()] for text, data in (texts[token] for token in added)]
    return [shown("sentencepiece", pieces), shown("tiny-qwen3", [end, 10**6]), plain]


def judge_tokens_are_shown_with_their_spaces_and_special_ones_as_their_text(seed, got):
    texts = [*(token.replace("▁", " ") for token in PIECES), "</s>", "", ""]
    equal(got[0], [as_shown(text.encode()) for text in texts], "pieces, an end id, and no tokens")
    equal(got[1], [as_shown(b"<|im_end|>"), as_shown(b"")], "an end id and an id without a token")
    equal(got[2], [as_shown(token.encode()) for token in ADDED], "tokens that were added as text")


def probe_a_token_is_looked_up_once(seed):
    from minisgl.tokenizer.token_text import TokenTexts

    made, asked = tokenizer("tiny-qwen3"), []
    texts, find = TokenTexts(made), made.convert_ids_to_tokens
    made.convert_ids_to_tokens = lambda ids: asked.append(ids) or find(ids)
    kept = [[*texts[token]][0] for _ in range(50) for token in (40, 41, 10**6)]
    return [len(asked), len(kept), len(set(kept))]


def judge_a_token_is_looked_up_once(seed, got):
    truth(0 < got[0] <= 3, "look-ups of three ids that are asked for fifty times each", got[0])
    equal(got[1:], [150, 3], "texts, and how many different ones")
