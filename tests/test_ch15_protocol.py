"""Chapter 15: each field of a request is honored, or refused by name in one sentence."""

from __future__ import annotations

import json
from typing import Any

from pairs import equal, public_bug, truth

LARGEST = 2**31 - 1
HI = [{"role": "user", "content": "hi"}]
CHAT = {"model": "m", "messages": HI}
TEXT = {"model": "m", "prompt": "hi"}
GENERATE = {"prompt": "hi", "max_tokens": 3}
KINDS = {
    "chat": ("ChatCompletionRequest", CHAT),
    "text": ("CompletionRequest", TEXT),
    "generate": ("GenerateRequest", GENERATE),
}
OPENAI = ("chat", "text")


def parsed(kind: str, body: object) -> Any:
    """The request that a body is, or the error that its client gets, as plain data."""
    from pydantic import ValidationError

    from minisgl.server import protocol
    from minisgl.server.errors import refusal

    try:
        return getattr(protocol, KINDS[kind][0]).model_validate(body)
    except ValidationError as error:
        refused = refusal(error)
        json.dumps(refused.body(), ensure_ascii=False).encode()
        return {"status": refused.status, **refused.body()["error"]}


def taken(kind: str, **fields: Any) -> dict[str, Any]:
    """What the server does with a body of these fields and the least others."""
    got = parsed(kind, KINDS[kind][1] | fields)
    if isinstance(got, dict):
        return got
    return {
        "prompts": got.prompts(),
        "n": got.n,
        "stops": got.stops(),
        "stream": got.stream,
        "include_usage": got.include_usage,
        "params": vars(got.sampling_params(0)),
    }


def is_refused(got: dict[str, Any], param: str, what: str, *words: str) -> None:
    """`got` is an error of status 400 in OpenAI's shape, about this field, in one sentence."""
    equal(sorted(got), sorted(["status", "message", "type", "param", "code"]), f"{what}: its parts")
    equal([got["status"], got["type"]], [400, "invalid_request_error"], f"{what}: the kind")
    equal(got["param"], param, f"{what}: the field")
    message = got["message"]
    for word in (param, *words):
        truth(word in message, f"{what}: the message names {word!r}", message)
    truth("\n" not in message and len(message) < 200, f"{what}: one short sentence", message)


def probe_the_least_request_has_these_defaults(seed):
    return {kind: taken(kind) for kind in KINDS}


def judge_the_least_request_has_these_defaults(seed, got):
    params = {
        "temperature": 1.0,
        "top_k": -1,
        "top_p": 1.0,
        "ignore_eos": False,
        "max_tokens": 16,
        "seed": None,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": None,
    }
    text = {
        "prompts": ["hi"],
        "n": 1,
        "stops": [],
        "stream": False,
        "include_usage": False,
        "params": params,
    }
    equal(got["text"], text, "a completion")
    chat = text | {"prompts": [HI], "params": params | {"max_tokens": LARGEST}}
    equal(got["chat"], chat, "a chat")
    greedy = params | {"max_tokens": 3, "temperature": 0.0}
    equal(got["generate"], text | {"stream": True, "params": greedy}, "generate")


def probe_what_is_asked_for_reaches_the_sampler(seed):
    asked = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 7,
        "seed": -5,
        "ignore_eos": True,
        "max_tokens": 9,
        "presence_penalty": -2,
        "frequency_penalty": 1.5,
    }
    few = {key: value for key, value in asked.items() if "penalty" not in key}
    return [taken("chat", **asked), taken("text", **asked), taken("generate", **few)]


def judge_what_is_asked_for_reaches_the_sampler(seed, got):
    want = {"temperature": 0.0, "top_p": 0.5, "top_k": 7, "seed": -5, "ignore_eos": True}
    want |= {"max_tokens": 9, "top_logprobs": None}
    penalties = {"presence_penalty": -2.0, "frequency_penalty": 1.5}
    for kind, each in zip(KINDS, got, strict=True):
        off = dict.fromkeys(penalties, 0.0)
        equal(each["params"], want | (off if kind == "generate" else penalties), kind)


@public_bug("B92")
def probe_choices_stops_and_streams_are_taken(seed):
    request = parsed("text", TEXT | {"n": 3, "seed": 2**63 - 1})
    return {
        "stop": taken("chat", stop="x")["stops"],
        "stops": taken("text", stop=["x", "yz"])["stops"],
        "none": [taken("chat", stop=None)["stops"], taken("chat", stop=[])["stops"]],
        "penalty": taken("chat", presence_penalty=1)["params"]["presence_penalty"],
        "n": [taken("chat", n=2)["n"], taken("text", n=128)["n"]],
        "seeds": [request.sampling_params(i).seed for i in range(3)],
        "stream": [
            [taken(kind, stream=True, stream_options=options)["include_usage"] for kind in OPENAI]
            for options in ({"include_usage": True}, {"include_usage": False}, {}, None)
        ],
        "alone": [taken(kind, stream_options={"include_usage": True}) for kind in OPENAI],
    }


def judge_choices_stops_and_streams_are_taken(seed, got):
    equal([got["stop"], got["stops"]], [["x"], ["x", "yz"]], "one and two stops")
    equal(got["none"], [[], []], "no stops")
    equal([got["penalty"], got["n"]], [1.0, [2, 128]], "presence_penalty and n")
    equal(got["seeds"], [2**63 - 1 + i for i in range(3)], "each choice has its own seed")
    equal(got["stream"], [[True] * 2, *[[False] * 2] * 3], "include_usage")
    for each in got["alone"]:
        is_refused(each, "stream_options", "usage without stream", "stream")


def probe_log_probabilities_are_asked_for_as_in_openai_s_api(seed):
    chat = [
        {"logprobs": True},
        {"logprobs": True, "top_logprobs": 20},
        {"logprobs": False},
        {"logprobs": None, "top_logprobs": None},
    ]
    return {
        "chat": [taken("chat", **each)["params"]["top_logprobs"] for each in chat],
        "text": [taken("text", logprobs=k)["params"]["top_logprobs"] for k in (None, 0, 5)],
        "alone": [taken("chat", top_logprobs=2), taken("chat", top_logprobs=0, logprobs=False)],
        "more": taken("chat", logprobs=True, top_logprobs=21),
        "text more": taken("text", logprobs=6),
        "kinds": [taken("chat", logprobs=3), taken("text", logprobs=True)],
    }


def judge_log_probabilities_are_asked_for_as_in_openai_s_api(seed, got):
    equal(got["chat"], [0, 20, None, None], "the best of a chat's tokens")
    equal(got["text"], [None, 0, 5], "the best of a completion's tokens")
    for each in got["alone"]:
        is_refused(each, "top_logprobs", "top_logprobs without logprobs", "logprobs")
    is_refused(got["more"], "top_logprobs", "21", "20")
    is_refused(got["text more"], "logprobs", "6 for a completion", "5")
    for each in got["kinds"]:
        is_refused(each, "logprobs", "the other API's kind")


@public_bug("B88")
def probe_a_chat_runs_to_the_context_s_end_unless_told(seed):
    asked = [
        {},
        {"max_tokens": None},
        {"max_tokens": 5},
        {"max_completion_tokens": 6},
        {"max_tokens": 7, "max_completion_tokens": 7},
    ]
    limits = [taken("chat", **each)["params"]["max_tokens"] for each in asked]
    return [limits, taken("chat", max_tokens=7, max_completion_tokens=8)]


def judge_a_chat_runs_to_the_context_s_end_unless_told(seed, got):
    equal(got[0], [LARGEST, LARGEST, 5, 6, 7], "the most tokens")
    is_refused(got[1], "max_completion_tokens", "two limits", "max_tokens")


@public_bug("B89")
def probe_no_tokens_or_fewer_are_refused(seed):
    names = {"chat": ("max_tokens", "max_completion_tokens")}
    return [
        [name, taken(kind, **{name: limit})]
        for kind in KINDS
        for name in names.get(kind, ("max_tokens",))
        for limit in (0, -1)
    ]


def judge_no_tokens_or_fewer_are_refused(seed, got):
    equal(len(got), 8, "requests")
    for name, each in got:
        is_refused(each, name, f"{name} of 0 or -1", "at least 1")


@public_bug("B93")
def probe_messages_may_have_these_forms(seed):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    message = {"role": "assistant", "content": "", "refusal": None, "tool_calls": None}
    forms = [*[{"role": role, "content": role} for role in ("system", "developer", "user")]]
    forms += [message, {"role": "user", "content": parts}]
    wrong = {
        "null": {"role": "assistant", "content": None},
        "image": {"role": "user", "content": [parts[0], {"type": "image_url", "image_url": {}}]},
        "parts": {"role": "user", "content": []},
        "number": {"role": "user", "content": 3},
        "text": {"role": "user", "content": [{"type": "text", "text": None}]},
        "more": {"role": "user", "content": [parts[0] | {"more": 1}]},
        "half": {"role": "user", "content": "a\ud800"},
        "half part": {"role": "user", "content": [{"type": "text", "text": "\udc00"}]},
        "missing": {"role": "user"},
    }
    roles = [{"role": role, "content": "x"} for role in ("tool", "function", "robot", None, 3)]
    return {
        "taken": taken("chat", messages=forms)["prompts"],
        "content": {key: taken("chat", messages=[HI[0], each]) for key, each in wrong.items()},
        "role": [taken("chat", messages=[each]) for each in roles],
        "name": taken("chat", messages=[HI[0] | {"name": "me"}]),
        "bare": taken("chat", messages=["hi"]),
        "empty": taken("chat", messages=[]),
        "no list": taken("chat", messages=HI[0]),
    }


def judge_messages_may_have_these_forms(seed, got):
    want = [["system", "system"], ["system", "developer"], ["user", "user"]]
    want += [["assistant", ""], ["user", "ab"]]
    prompt = [{"role": role, "content": content} for role, content in want]
    equal(got["taken"], [prompt], "the messages")
    for key, each in got["content"].items():
        is_refused(each, "messages.1.content", f"content that is wrong: {key}")
    for each in got["role"]:
        is_refused(each, "messages.0.role", "a role")
    truth("tools are not supported" in got["role"][0]["message"], "the reason", got["role"][0])
    is_refused(got["name"], "messages.0.name", "a name")
    is_refused(got["bare"], "messages.0", "a message that is only text")
    is_refused(got["empty"], "messages", "no messages", "empty")
    is_refused(got["no list"], "messages", "one message without a list", "list")


def probe_prompts_may_have_these_forms(seed):
    wrong = ["", [], [""], ["a", ""], [[]], [[1], []], ["a", 1], [1, "a"], [[1], "a"], [1, [1]]]
    wrong += [[-1], [2**31], [True], [1.0], None, 3, {}, "a\ud800", ["\ud800"]]
    kept = ["a", ["a", "b"], [1, LARGEST], [[1], [2, 3]]]
    return {
        "taken": [taken("text", prompt=prompt)["prompts"] for prompt in kept],
        "wrong": [taken("text", prompt=prompt) for prompt in wrong],
        "generate": [taken("generate", prompt=prompt) for prompt in ("", ["a"], None, "\ud800")],
    }


def judge_prompts_may_have_these_forms(seed, got):
    equal(got["taken"], [["a"], ["a", "b"], [[1, LARGEST]], [[1], [2, 3]]], "the prompts")
    equal([len(got["wrong"]), len(got["generate"])], [19, 4], "prompts that are wrong")
    for each in (*got["wrong"], *got["generate"]):
        is_refused(each, "prompt", "a prompt that is wrong")


OUT_OF_RANGE = {
    "temperature": [-0.1, 2.1, "1", True, float("nan"), float("inf"), [1], 10**400],
    "top_p": [0, -1, 1.01, "1", True, float("nan")],
    "top_k": [0, -2, 1.5, "1", True, 2**31],
    "seed": [1.5, "1", True, 2**63, -(2**63) - 1],
    "max_tokens": [0, 2**31, 1.5, "1", True],
    "ignore_eos": [1, "true", 0.0],
    "n": [0, 129, -1, 1.0, "1", True],
    "presence_penalty": [-2.1, 2.1, "0", True, float("inf")],
    "frequency_penalty": [-2.1, 2.1, "0", True, float("nan")],
    "stop": ["", ["a"] * 5, [""], [1], 1, {}, True, "a\ud800"],
    "stream": [1, "true", []],
    "stream_options": [1, True, "x", []],
    "model": [None, 1, "", [], "\ud800"],
}


def probe_a_value_of_a_wrong_type_or_out_of_range_is_refused(seed):
    return {
        kind: {name: [taken(kind, **{name: v}) for v in OUT_OF_RANGE[name]] for name in names}
        for kind, names in {**dict.fromkeys(OPENAI, OUT_OF_RANGE), "generate": fewer()}.items()
    }


def fewer() -> list[str]:
    return list(OUT_OF_RANGE)[:6]


def judge_a_value_of_a_wrong_type_or_out_of_range_is_refused(seed, got):
    equal([len(got[kind]) for kind in KINDS], [13, 13, 6], "fields")
    for kind, fields in got.items():
        for name, errors in fields.items():
            equal(len(errors), len(OUT_OF_RANGE[name]), f"{kind}: values of {name}")
            for value, error in zip(OUT_OF_RANGE[name], errors, strict=True):
                is_refused(error, name, f"{kind}: {name} of {str(value)[:20]!a}")


NUMBERS = ["temperature", "top_p", "presence_penalty", "frequency_penalty"]
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def probe_what_is_not_finite_is_not_called_too_large(seed):
    bodies = [[name, f'{{"{name}": {value}}}'] for name in NUMBERS for value in NOT_FINITE]
    return [[name, body, taken("chat", **json.loads(body))] for name, body in bodies]


def judge_what_is_not_finite_is_not_called_too_large(seed, got):
    equal(len(got), len(NUMBERS) * len(NOT_FINITE), "requests")
    for name, body, error in got:
        is_refused(error, name, body, *(["number"] if "NaN" in body else []))


ON = {
    "audio": {"voice": "a"},
    "best_of": 2,
    "echo": True,
    "function_call": "auto",
    "functions": [{"name": "f"}],
    "logit_bias": {"1": 2},
    "metadata": {"a": "b"},
    "modalities": ["text", "audio"],
    "prediction": {"type": "content", "content": "a"},
    "reasoning_effort": "high",
    "response_format": {"type": "json_object"},
    "service_tier": "flex",
    "store": True,
    "suffix": "x",
    "tool_choice": "required",
    "tools": [{"type": "function"}],
    "user": "me",
    "verbosity": "low",
    "web_search_options": {},
}
OFF = {
    "best_of": 1,
    "echo": False,
    "function_call": "none",
    "functions": [],
    "logit_bias": {},
    "modalities": ["text"],
    "parallel_tool_calls": True,
    "response_format": {"type": "text"},
    "service_tier": "auto",
    "store": False,
    "tool_choice": "none",
    "tools": [],
}


def probe_what_is_not_supported_is_refused_by_name_unless_it_is_off(seed):
    near = {"best_of": True, "echo": 0, "store": 0, "tools": {}}
    return {
        "on": [[name, taken("chat", **{name: ON[name]})] for name in ON],
        "text": [[name, taken("text", **{name: ON[name]})] for name in ("echo", "best_of")],
        "near": [[name, taken("text", **{name: near[name]})] for name in near],
        "off": [taken(kind, **OFF) == taken(kind) for kind in OPENAI],
        "null": [taken(kind, **dict.fromkeys(ON)) == taken(kind) for kind in OPENAI],
        "several": taken("chat", tools=[1], guided_json="{}", min_p=0.1),
        "generate": taken("generate", stop="x"),
        "unknown": taken("chat", temprature=1),
        "unknown null": taken("chat", temprature=None),
        "many": taken("chat", **{f"field_{i}": i for i in range(9)}),
    }


def judge_what_is_not_supported_is_refused_by_name_unless_it_is_off(seed, got):
    equal([len(got["on"]), len(got["text"]), len(got["near"])], [19, 2, 4], "fields")
    for name, error in (*got["on"], *got["text"], *got["near"]):
        is_refused(error, name, f"{name} in a request", "not supported")
    equal([got["off"], got["null"]], [[True] * 2] * 2, "values that change nothing are taken")
    is_refused(got["several"], "tools", "several fields", "guided_json", "min_p", "not supported")
    is_refused(got["generate"], "stop", "a field that generate hasn't", "not supported")
    is_refused(got["unknown"], "temprature", "an unknown field", "not supported")
    is_refused(got["unknown null"], "temprature", "an unknown field that is null")
    is_refused(got["many"], "field_0", "many unknown fields", "field_4", "4 more fields are wrong")


def probe_of_several_wrong_fields_the_first_is_named_and_the_rest_counted(seed):
    from fastapi.exceptions import RequestValidationError

    from minisgl.server.errors import BODY, refusal

    def body(kind: str, place: object, **ctx: str) -> list[Any]:
        error = {"type": kind, "loc": ("body", place) if place else ("body",), "ctx": ctx}
        made = refusal(RequestValidationError([error]))
        return [made.status, made.message, made.param]

    return {
        "two": taken("chat", temperature=3, top_p="secret prompt"),
        "four": taken("chat", temperature=3, top_p=3, n=0, foo=1),
        "long": taken("chat", **{"x" * 9000: 1}),
        "half": taken("chat", **{"\ud800": 1}),
        "json": body("json_invalid", 17, error="Expecting value"),
        "control": body("json_invalid", 17, error="Invalid control character at")[1],
        "no body": body("missing", None) == [400, BODY, None],
        "a list": body("model_attributes_type", None) == [400, BODY, None],
        "field": body("missing", "prompt"),
        "not a body": [parsed("chat", each)["message"] == BODY for each in ([], "x", None, 3)],
        "empty": parsed("chat", {}),
    }


def judge_of_several_wrong_fields_the_first_is_named_and_the_rest_counted(seed, got):
    is_refused(got["two"], "temperature", "two fields", "at most 2", "1 more field is wrong")
    truth("secret" not in got["two"]["message"], "no value of a field is shown", got["two"])
    is_refused(got["four"], "temperature", "four fields", "3 more fields are wrong")
    is_refused(got["long"], "x" * 60 + "...", "a long name")
    truth("the name of a field" in got["half"]["message"], "a name that is no text", got["half"])
    status, message, param = got["json"]
    equal([status, param], [400, None], "malformed JSON")
    equal(message, "the body is not valid JSON: expecting value at character 17", "the message")
    said = "the body is not valid JSON: invalid control character at character 17"
    equal(got["control"], said, "where Python's own message ends in at")
    equal([got["no body"], got["a list"], *got["not a body"]], [True] * 6, "a body is an object")
    equal(got["field"], [400, "prompt is required", "prompt"], "a field that isn't there")
    is_refused(got["empty"], "model", "an empty object", "required", "1 more field is wrong")


def probe_an_error_has_openai_s_shape(seed):
    from minisgl.server.errors import ApiError

    full = ApiError(429, "too many", "rate_limit", "n", "busy", {"Retry-After": "1"})
    plain = ApiError(404, "no\ud800", param="\udfff")
    return [
        [full.status, full.headers, full.body(), str(full)],
        [plain.status, plain.headers, plain.body()],
    ]


def judge_an_error_has_openai_s_shape(seed, got):
    body = {"message": "too many", "type": "rate_limit", "param": "n", "code": "busy"}
    equal(got[0], [429, {"Retry-After": "1"}, {"error": body}, "too many"], "a full error")
    body = {"message": "no?", "type": "invalid_request_error", "param": "?", "code": None}
    equal(got[1], [404, {}, {"error": body}], "an error with halves of characters")


def probe_the_openapi_page_says_what_is_taken(seed):
    from minisgl.server import protocol

    def schema(name: str) -> Any:
        return getattr(protocol, name).model_json_schema()

    chat, text, generate = (schema(name) for name, _ in KINDS.values())
    top_k = chat["properties"]["top_k"]["anyOf"]
    return {
        "required": [chat["required"], text["required"], generate["required"]],
        "closed": [each["additionalProperties"] for each in (chat, text, generate)],
        "null": [
            {"type": "null"} in field["anyOf"]
            for each in (chat, text, generate)
            for name, field in each["properties"].items()
            if name not in each["required"]
        ],
        "range": chat["properties"]["temperature"]["anyOf"],
        "top_k": top_k,
        "stop": chat["properties"]["stop"]["anyOf"],
        "roles": chat["$defs"]["Message"]["properties"]["role"]["enum"],
        "prompt": len(text["properties"]["prompt"]["anyOf"]),
    }


def judge_the_openapi_page_says_what_is_taken(seed, got):
    want = [["model", "messages"], ["model", "prompt"], ["prompt", "max_tokens"]]
    equal([sorted(each) for each in got["required"]], [sorted(each) for each in want], "required")
    equal(got["closed"], [False] * 3, "other fields")
    truth(all(got["null"]), "what may be left out may be null", got["null"])
    null = {"type": "null"}
    number = {"type": "number", "minimum": 0, "maximum": 2}
    equal(got["range"], [number, null], "temperature")
    top_k = {"type": "integer", "minimum": -1, "maximum": LARGEST, "not": {"const": 0}}
    equal(got["top_k"], [top_k, null], "top_k")
    text = {"type": "string", "minLength": 1}
    equal(got["stop"], [text, {"type": "array", "items": text, "maxItems": 4}, null], "stop")
    equal(got["roles"], ["system", "developer", "user", "assistant"], "roles")
    equal(got["prompt"], 4, "forms of a prompt")
