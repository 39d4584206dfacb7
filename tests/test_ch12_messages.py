"""Chapter 12: messages as plain maps, and everything that is not one."""

from __future__ import annotations

import ast
from typing import Any

import torch

from pairs import equal, error_of, refused, truth

PARAMS = {"__type__": "SamplingParams", "temperature": 0.0, "top_k": -1, "top_p": 1.0,
          "ignore_eos": False, "max_tokens": 3, "seed": None, "presence_penalty": 0.0,
          "frequency_penalty": -2, "top_logprobs": None}  # fmt: skip
IDS = {"__type__": "Tensor", "dtype": "int32", "shape": [2], "data": b"\x01\0\0\0\x02\0\0\0"}
USER = {"__type__": "UserMsg", "uid": 5, "input_ids": IDS, "sampling_params": PARAMS}
ABORT = {"__type__": "AbortBackendMsg", "uid": 5}
CHAT = [{"role": "user", "content": "Grüße \0 😀"}]
BACKEND, TOKENIZER, FRONTEND = "BaseBackendMsg", "BaseTokenizerMsg", "BaseFrontendMsg"


def typed(name: str, **fields: Any) -> dict[str, Any]:
    return {"__type__": name, **fields}


def token(**change: Any) -> dict[str, Any]:
    fields = {"uid": 0, "next_token": 9, "finished": False, "error": None, "at_end": False,
              "prompt_tokens": 0, "cached_tokens": 0, "logprob_ids": None,
              "logprobs": None}  # fmt: skip
    return typed("DetokenizeMsg", **(fields | change))


def reply(**change: Any) -> dict[str, Any]:
    fields = {"uid": 3, "incremental_output": "é\n", "finished": False, "error": None,
              "at_end": False, "num_tokens": 1, "prompt_tokens": 9, "cached_tokens": 8,
              "logprobs": None}  # fmt: skip
    return typed("UserReply", **(fields | change))


def ask(text: Any, **params: Any) -> dict[str, Any]:
    return typed("TokenizeMsg", uid=1, text=text, sampling_params={**PARAMS, **params})


def half(**change: Any) -> dict[str, Any]:
    """The log-probability of a token that is half a character."""
    fields = {"token": "\ufffd", "data": b"\xf0\x9f", "logprob": -0.5}
    return typed("TokenLogprob", **(fields | change))


STATS = {"running": 3, "waiting": 2, "used_tokens": 70, "cached_tokens": 20, "total_tokens": 100}


WHOLE = [
    (BACKEND, USER),
    (BACKEND, ABORT),
    (BACKEND, typed("ExitMsg")),
    (BACKEND, typed("BatchBackendMsg", data=[ABORT, typed("BatchBackendMsg", data=[USER])])),
    (BACKEND, typed("BatchBackendMsg", data=[])),
    (TOKENIZER, ask("a")),
    (TOKENIZER, ask(CHAT, seed=7, presence_penalty=1.5, top_logprobs=20)),
    (TOKENIZER, ask([])),
    (TOKENIZER, ask([0, 2**31 - 1, -1, 2**40])),
    (TOKENIZER, token(uid=2**63, next_token=-1, finished=True, error="why")),
    (TOKENIZER, token(at_end=True)),
    (TOKENIZER, token(prompt_tokens=7, cached_tokens=6, logprob_ids=[9, 8], logprobs=[-0.5, -2])),
    (TOKENIZER, token(logprob_ids=[], logprobs=[])),
    (TOKENIZER, typed("StatsMsg", **STATS)),
    (TOKENIZER, typed("BatchTokenizerMsg", data=[token(), typed("StatsMsg", **STATS)])),
    (TOKENIZER, typed("AbortMsg", uid=3)),
    (TOKENIZER, typed("BatchTokenizerMsg", data=[typed("AbortMsg", uid=3)])),
    (FRONTEND, reply()),
    (FRONTEND, reply(finished=True, at_end=True, num_tokens=0, logprobs=[])),
    (FRONTEND, reply(logprobs=[half(), half(token="", data=b"", logprob=-3)])),
    (FRONTEND, typed("StatsReply", **STATS)),
    (FRONTEND, typed("BatchFrontendMsg", data=[])),
]
"""Every message type, as the map that msgpack carries."""


def ids(**change: Any) -> dict[str, Any]:
    return {**USER, "input_ids": {**IDS, **change}}


def params(**change: Any) -> dict[str, Any]:
    return {**USER, "sampling_params": {**PARAMS, **change}}


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def wide(levels: int) -> Any:
    return {key: wide(levels - 1) for key in "abcd"} if levels else "x" * 10_000


WRONG: list[tuple[str, Any, str]] = [
    (BACKEND, None, "None"),
    (BACKEND, [], "[]"),
    (BACKEND, {}, "__type__"),
    (BACKEND, {"uid": 5}, "__type__"),
    (BACKEND, typed("Popen"), "Popen"),
    (BACKEND, typed("object"), "object"),
    (BACKEND, {"__type__": ["UserMsg"]}, "UserMsg"),
    (BACKEND, {"__type__": None}, "None"),
    (BACKEND, typed("Tensor"), "Tensor"),
    (BACKEND, PARAMS, "SamplingParams"),
    (BACKEND, IDS, "Tensor"),
    (BACKEND, reply(), "UserReply"),
    (BACKEND, typed("AbortBackendMsg"), "uid"),
    (BACKEND, {**ABORT, "why": 1}, "why"),
    (BACKEND, {**ABORT, b"why": 1}, "why"),
    (BACKEND, {**ABORT, "uid": "5"}, "AbortBackendMsg.uid"),
    (BACKEND, {**ABORT, "uid": True}, "AbortBackendMsg.uid"),
    (BACKEND, {**ABORT, "uid": 5.0}, "AbortBackendMsg.uid"),
    (BACKEND, {**ABORT, "uid": None}, "AbortBackendMsg.uid"),
    (BACKEND, {**ABORT, "uid": wide(5)}, "AbortBackendMsg.uid"),
    (BACKEND, typed("x" * 1_000_000), "xxx"),
    (BACKEND, {**ABORT, "y" * 1_000_000: 1}, "yyy"),
    (BACKEND, {**ABORT, "uid": b"z" * 1_000_000}, "zzz"),
    (BACKEND, {**ABORT, "uid": deep(100)}, "AbortBackendMsg.uid"),
    (BACKEND, {**ABORT, "uid": deep(50_000)}, "nested"),
    (BACKEND, typed("BatchBackendMsg", data=ABORT), "BatchBackendMsg.data"),
    (BACKEND, typed("BatchBackendMsg", data=[5]), "BatchBackendMsg.data"),
    (BACKEND, typed("BatchBackendMsg", data=[ABORT, PARAMS]), "BatchBackendMsg.data"),
    (BACKEND, typed("BatchBackendMsg", data=[typed("AbortMsg", uid=1)]), "AbortMsg"),
    (BACKEND, {**USER, "input_ids": [1, 2]}, "UserMsg.input_ids"),
    (BACKEND, {**USER, "sampling_params": None}, "UserMsg.sampling_params"),
    (BACKEND, params(temperature=-1.0), "temperature"),
    (BACKEND, params(temperature=float("nan")), "temperature"),
    (BACKEND, params(temperature=False), "SamplingParams.temperature"),
    (BACKEND, params(ignore_eos=0), "SamplingParams.ignore_eos"),
    (BACKEND, params(seed="7"), "SamplingParams.seed"),
    (BACKEND, params(max_tokens=0), "max_tokens"),
    (BACKEND, ids(dtype="O"), "dtype"),
    (BACKEND, ids(dtype="object"), "dtype"),
    (BACKEND, ids(dtype="U8"), "dtype"),
    (BACKEND, ids(dtype=[["a", "i4"]]), "dtype"),
    (BACKEND, ids(dtype=None), "dtype"),
    (BACKEND, ids(dtype="int64"), "16 bytes"),
    (BACKEND, ids(dtype="float32"), "input_ids"),
    (BACKEND, ids(shape=[1, 2]), "input_ids"),
    (BACKEND, ids(shape=[]), "bytes"),
    (BACKEND, ids(shape=[-1]), "shape"),
    (BACKEND, ids(shape=2), "shape"),
    (BACKEND, ids(shape=[2.0]), "shape"),
    (BACKEND, ids(shape=[True, 2]), "shape"),
    (BACKEND, ids(shape=[2**31 - 1]), "bytes"),
    (BACKEND, ids(shape=[2**31]), "shape can't be"),
    (BACKEND, ids(shape=[2**62]), "shape"),
    (BACKEND, ids(shape=[0] + [2**31 - 1] * 3, data=b""), "shape"),
    (BACKEND, ids(shape=[1] * 70 + [2]), "shape"),
    (BACKEND, ids(shape=[1] * 8 + [2]), "shape"),
    (BACKEND, ids(shape=[3]), "12 bytes"),
    (BACKEND, ids(data=b"\0" * 7), "8 bytes"),
    (BACKEND, ids(data="12345678"), "8 bytes"),
    (BACKEND, ids(data=[0] * 8), "8 bytes"),
    (BACKEND, ids(order="F"), "order"),
    (BACKEND, {**USER, "input_ids": {"__type__": "Tensor"}}, "Tensor lacks"),
    (BACKEND, params(presence_penalty=2.5), "presence_penalty"),
    (BACKEND, params(frequency_penalty="1"), "SamplingParams.frequency_penalty"),
    (BACKEND, params(top_logprobs=21), "top_logprobs"),
    (BACKEND, params(top_logprobs=True), "SamplingParams.top_logprobs"),
    (TOKENIZER, ask([{"a": 1}]), "TokenizeMsg.text"),
    (TOKENIZER, ask(b"a"), "TokenizeMsg.text"),
    (TOKENIZER, ask([1, "a"]), "TokenizeMsg.text"),
    (TOKENIZER, ask([1, {"role": "user"}]), "TokenizeMsg.text"),
    (TOKENIZER, ask([{"role": "user"}, 1]), "TokenizeMsg.text"),
    (TOKENIZER, ask([True]), "TokenizeMsg.text"),
    (TOKENIZER, ask([1.0]), "TokenizeMsg.text"),
    (TOKENIZER, ask([[1]]), "TokenizeMsg.text"),
    (TOKENIZER, ask({"role": "user"}), "TokenizeMsg.text"),
    (TOKENIZER, token(error=5), "error"),
    (TOKENIZER, token(finished=1), "finished"),
    (TOKENIZER, token(at_end=None), "at_end"),
    (TOKENIZER, token(prompt_tokens=None), "DetokenizeMsg.prompt_tokens"),
    (TOKENIZER, token(cached_tokens=1.0), "DetokenizeMsg.cached_tokens"),
    (TOKENIZER, token(logprob_ids=[1.5]), "DetokenizeMsg.logprob_ids"),
    (TOKENIZER, token(logprob_ids=9), "DetokenizeMsg.logprob_ids"),
    (TOKENIZER, token(logprobs=["-1"]), "DetokenizeMsg.logprobs"),
    (TOKENIZER, token(logprobs=[None]), "DetokenizeMsg.logprobs"),
    (TOKENIZER, typed("DetokenizeMsg", uid=0, next_token=9, finished=True), "at_end"),
    (TOKENIZER, typed("StatsMsg", **{**STATS, "running": None}), "StatsMsg.running"),
    (TOKENIZER, typed("StatsMsg", **{**STATS, "free": 1}), "free"),
    (TOKENIZER, typed("StatsReply", **STATS), "StatsReply"),
    (TOKENIZER, USER, "UserMsg"),
    (FRONTEND, reply(incremental_output=None), "output"),
    (FRONTEND, reply(num_tokens=True), "UserReply.num_tokens"),
    (FRONTEND, reply(at_end=0), "UserReply.at_end"),
    (FRONTEND, reply(prompt_tokens="7"), "UserReply.prompt_tokens"),
    (FRONTEND, reply(logprobs=[-0.5]), "UserReply.logprobs"),
    (FRONTEND, reply(logprobs=half()), "UserReply.logprobs"),
    (FRONTEND, reply(logprobs=[half(data="a")]), "TokenLogprob.data"),
    (FRONTEND, reply(logprobs=[half(token=b"a")]), "TokenLogprob.token"),
    (FRONTEND, reply(logprobs=[half(logprob=None)]), "TokenLogprob.logprob"),
    (FRONTEND, reply(logprobs=[typed("StatsReply", **STATS)]), "UserReply.logprobs"),
    (FRONTEND, half(), "TokenLogprob"),
    (FRONTEND, typed("StatsReply", running=1), "StatsReply lacks"),
    (FRONTEND, typed("StatsMsg", **STATS), "StatsMsg"),
    (FRONTEND, typed("AbortMsg", uid=3), "AbortMsg"),
    (FRONTEND, PARAMS, "SamplingParams"),
]
"""What is no message, and a word that its error must hold."""


def plain(value: Any) -> Any:
    """A message as JSON has it: its type's name and its fields; bytes as hexadecimal digits."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), value.tolist()]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        names = value.__dataclass_fields__
        return [type(value).__name__, {name: plain(getattr(value, name)) for name in names}]
    return value


def expected(value: Any) -> Any:
    """What plain gives of the message that a map describes."""
    if isinstance(value, list):
        return [expected(item) for item in value]
    if not isinstance(value, dict):
        return plain(value)
    if value is IDS:
        return ["torch.int32", [2], [1, 2]]
    fields = {key: expected(item) for key, item in value.items() if key != "__type__"}
    return [value["__type__"], fields] if "__type__" in value else fields


def probe_every_message_type_comes_back_as_it_was(seed: int) -> Any:
    import msgpack

    from minisgl import message

    got = []
    for base, given in WHOLE:
        kind = getattr(message, base)
        msg = kind.decoder(msgpack.unpackb(msgpack.packb(given)))
        assert isinstance(msg, kind), f"{base}.decoder gave a {type(msg).__name__}"
        assert type(msg) is getattr(message, given["__type__"])
        got.append([plain(msg), plain(kind.encoder(msg))])
    return got


def judge_every_message_type_comes_back_as_it_was(seed: int, got: Any) -> None:
    for (_, given), (msg, again) in zip(WHOLE, got, strict=True):
        equal(msg, expected(given), f"the message of {given['__type__']}")
        equal(again, plain(given), f"the map of {given['__type__']}")


def probe_what_is_no_message_is_refused_in_one_sentence(seed: int) -> Any:
    from minisgl import message

    bases = {name: getattr(message, name) for name in (BACKEND, TOKENIZER, FRONTEND)}
    return [error_of(lambda b=base, d=data: bases[b].decoder(d)) for base, data, _ in WRONG]


def judge_what_is_no_message_is_refused_in_one_sentence(seed: int, got: Any) -> None:
    for i, ((base, _, word), error) in enumerate(zip(WRONG, got, strict=True)):
        what = f"wrong map {i} to {base}, about {word}"
        refused(error, what, word, kind="MessageError")
        truth(len(error["message"]) < 300 and "\n" not in error["message"], f"short: {what}")


def tensors() -> list[torch.Tensor]:
    """Rows of token ids that a UserMsg may carry."""
    row = torch.arange(-3, 7)
    return [
        row.int(), row, row[:0].int(), row[:0], row.int()[::3], row.view(5, 2)[:, 1],
        torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32), torch.tensor([2**63 - 1]),
    ]  # fmt: skip


SHORT = {"DetokenizeMsg": (0, 9, False), "UserReply": (3, "é\n", False)}
"""Messages as they are made without what most of them don't have."""


def probe_what_a_message_may_leave_out_has_these_values(seed: int) -> Any:
    from minisgl import message

    return [plain(getattr(message, name)(*given)) for name, given in SHORT.items()]


def judge_what_a_message_may_leave_out_has_these_values(seed: int, got: Any) -> None:
    equal(got[0], expected(token()), "a token")
    equal(got[1], expected(reply(num_tokens=0, prompt_tokens=0, cached_tokens=0)), "a reply")


def probe_tensors_keep_their_numbers_and_get_memory_of_their_own(seed: int) -> Any:
    from minisgl.core import SamplingParams
    from minisgl.message import BaseBackendMsg, UserMsg

    got = []
    for tensor in tensors():
        data = UserMsg(0, tensor, SamplingParams()).encoder()
        ids = BaseBackendMsg.decoder(data).input_ids
        before = plain(ids)
        ids.fill_(5)  # a tensor over read-only memory would take this badly
        got.append([before, plain(BaseBackendMsg.decoder(data).input_ids)])
    return got


def judge_tensors_keep_their_numbers_and_get_memory_of_their_own(seed: int, got: Any) -> None:
    for tensor, both in zip(tensors(), got, strict=True):
        equal(both, [plain(tensor)] * 2, "the tensor, and once more after writing to the first")


def probe_what_a_message_cant_carry_is_refused_at_once(seed: int) -> Any:
    from minisgl.core import SamplingParams
    from minisgl.message import BaseFrontendMsg, BaseTokenizerMsg, TokenizeMsg, UserReply

    class Runs:
        def __reduce__(self) -> Any:
            raise SystemExit("an object was pickled")

    values = [Runs(), Runs, {1, 2}, 1j, print, SamplingParams, torch.zeros(2, dtype=torch.bfloat16)]
    values.append(torch.zeros(2, device="meta"))
    errors = [error_of(lambda v=v: BaseFrontendMsg.encoder(UserReply(0, v, True))) for v in values]
    for chat in ({"__type__": "AbortMsg", "uid": "3"}, {5: "a"}):
        msg = TokenizeMsg(0, [chat], SamplingParams())
        errors.append(error_of(lambda m=msg: BaseTokenizerMsg.encoder(m)))
    return errors


def judge_what_a_message_cant_carry_is_refused_at_once(seed: int, got: Any) -> None:
    words = "Runs type set complex builtin type bfloat16 meta __type__ 5"
    for word, error in zip(words.split(), got, strict=True):
        refused(error, f"to carry a value of kind {word}", word, kind="MessageError")


def probe_nothing_is_pickled_or_evaluated(seed: int) -> Any:
    import inspect

    from minisgl.message import backend, frontend, tokenizer, utils
    from minisgl.utils import mp

    names: set[str] = set()
    for module in (backend, frontend, tokenizer, utils, mp):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            names |= {getattr(node, key, None) for key in ("id", "attr", "name", "module")}
    return sorted(name for name in names if isinstance(name, str))


def judge_nothing_is_pickled_or_evaluated(seed: int, got: Any) -> None:
    banned = "pickle marshal dill eval exec compile __import__ importlib import_module globals "
    banned += "send_pyobj recv_pyobj Timestamp ext_hook object_hook"
    equal(sorted(set(got) & set(banned.split())), [], "names that could run what was received")
    truth("serialize_type" in got, "the source was read", got)


def probe_what_is_shown_of_a_value_is_cut_after_80_characters(seed: int) -> Any:
    from minisgl.message import BaseBackendMsg

    def named(*lengths: int) -> Any:
        wrong = typed("AbortBackendMsg", uid=["x" * length for length in lengths])
        return error_of(lambda: BaseBackendMsg.decoder(wrong))

    return [named(16, 16, 16, 16), named(17, 16, 16, 16)]


def judge_what_is_shown_of_a_value_is_cut_after_80_characters(seed: int, got: Any) -> None:
    whole = repr(["x" * 16] * 4)
    refused(got[0], "a value of 80 characters", whole, kind="MessageError")
    cut = repr(["x" * 17] + ["x" * 16] * 3)[:80] + "..."
    refused(got[1], "a value of 81 characters", cut, kind="MessageError")
    truth("..." not in got[0]["message"], "80 characters are shown whole")
