"""Chapter 15: the command line: each option works, or is refused in one sentence."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from pairs import equal, error_of, public_bug, refused, truth
from stub_frontend import stub_args

DEFAULTS = {
    "model_path": "CHECKPOINT",
    "dtype": "torch.float32",
    "max_running_req": 256,
    "attention_backend": "auto",
    "moe_backend": "auto",
    "cuda_graph_max_bs": 0,
    "page_size": 1,
    "memory_ratio": 0.9,
    "use_dummy_weight": False,
    "max_seq_len_override": None,
    "num_page_override": None,
    "max_extend_tokens": 256,
    "cache_type": "radix",
    "server_host": "127.0.0.1",
    "server_port": 1919,
    "num_tokenizer": 0,
    "silent_output": False,
    "api_key": "",
    "max_body_bytes": 4 << 20,
    "max_waiting": 1024,
    "request_timeout": 30.0,
    "first_token_timeout": 600.0,
    "send_timeout": 60.0,
    "shutdown_grace": 10.0,
}

OWN = list(DEFAULTS)[list(DEFAULTS).index("server_host") :]
"""The settings of the server alone."""

SET: dict[str, tuple[str, Any]] = {
    "--dtype bfloat16": ("dtype", "torch.bfloat16"),
    "--dtype float16": ("dtype", "torch.float16"),
    "--dummy-weight": ("use_dummy_weight", True),
    "--max-seq-len-override 64": ("max_seq_len_override", 64),
    "--attention-backend torch": ("attention_backend", "torch"),
    "--attn torch,torch": ("attention_backend", "torch,torch"),
    "--max-running-requests 3": ("max_running_req", 3),
    "--memory-ratio 0.5": ("memory_ratio", 0.5),
    "--num-pages 99": ("num_page_override", 99),
    "--page-size 16": ("page_size", 16),
    "--max-prefill-length 77": ("max_extend_tokens", 77),
    "--max-extend-length 78": ("max_extend_tokens", 78),
    "--cache-type naive": ("cache_type", "naive"),
    "--host 0.0.0.0": ("server_host", "0.0.0.0"),
    "--port 0": ("server_port", 0),
    "--num-tokenizer 2": ("num_tokenizer", 2),
    "--tokenizer-count 3": ("num_tokenizer", 3),
    "--api-key k": ("api_key", "k"),
    "--max-body-bytes 4096": ("max_body_bytes", 4096),
    "--max-waiting 5": ("max_waiting", 5),
    "--request-timeout 1.5": ("request_timeout", 1.5),
    "--first-token-timeout 2": ("first_token_timeout", 2.0),
    "--send-timeout 3": ("send_timeout", 3.0),
    "--shutdown-grace 4": ("shutdown_grace", 4.0),
    "--shell-mode": ("silent_output", True),
    "--shell": ("silent_output", True),
    # what they say already
    "--tp 1": ("server_port", 1919),
    "--tp-size 1": ("server_port", 1919),
    "--tensor-parallel-size 1": ("server_port", 1919),
    "--graph 0": ("cuda_graph_max_bs", 0),
    "--cuda-graph-max-bs 0": ("cuda_graph_max_bs", 0),
    "--moe-backend auto": ("moe_backend", "auto"),
    "--model-source huggingface": ("server_port", 1919),
}
"""What is given, and the one setting that it changes."""

REFUSED = {
    "--tp 2": "'2' needs tensor parallelism, which chapter 16 adds; use 1",
    "--graph 8": "'8' needs CUDA Graph, which chapter 18 adds; use 0",
    "--moe-backend fused": "'fused' needs mixtures of experts, which chapter 20 adds; use auto",
    "--model-source modelscope": "'modelscope' is not supported; use huggingface",
    "--disable-pynccl": "there is no PyNCCL to disable before chapter 16; leave it out",
    "--attn nothing": "nothing",
    "--attn torch,torch,torch": "torch,torch,torch",
    "--cache-type lru": "invalid choice: 'lru'",
    "--dtype int8": "invalid choice: 'int8'",
    "--page-size 0": "'0' is not a whole number of at least 1",
    "--page-size 1.5": "'1.5' is not a whole number of at least 1",
    "--num-pages x": "'x' is not a whole number of at least 1",
    "--max-seq-len-override 1": "'1' is not a whole number of at least 2",
    "--port 65536": "'65536' is not a whole number from 0 to 65535",
    "--port -1": "'-1' is not a whole number from 0 to 65535",
    "--memory-ratio 1.1": "'1.1' is not a number from 0.01 to 1",
    "--memory-ratio nan": "'nan' is not a number from 0.01 to 1",
    "--send-timeout 0": "'0' is not a number from 0.1 to",
    "--num-tokenizer 65": "'65' is not a whole number from 0 to 64",
    "--max-waiting 0": "'0' is not a whole number of at least 1",
    "--max-body-bytes 9": "'9' is not a whole number of at least 1024",
    "--max-running-requests 0": "'0' is not a whole number of at least 1",
    "--model nowhere-9": "there is no model 'nowhere-9'; give a folder",
    "--nothing": "unrecognized arguments: --nothing",
}


def make_checkpoint(folder: Path, config: str = "{}", tokenizer: str = "tokenizer.json") -> None:
    """A folder with as much as a start looks at before any process is started."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config)
    (folder / tokenizer).write_text("{}")


def settings(args: Any) -> dict[str, Any]:
    """The settings that the command line has a say in."""
    found = {name: getattr(args, name) for name in DEFAULTS}
    return {**found, "dtype": str(args.dtype), "model_path": Path(args.model_path).name}


def parsed(words: list[str], device: str = "cpu", **environment: str) -> dict[str, Any]:
    """The settings and whether to chat; or the status, and what stands on stderr.

    device: what the machine is said to have.
    """
    import torch

    from minisgl.server import args as module
    from minisgl.server.args import parse_args

    said = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"MINISGL_MODELS": folder, **environment}),
        mock.patch.object(module, "default_device", lambda: torch.device(device)),
        contextlib.redirect_stderr(said),
    ):
        for name in ("CHECKPOINT", "smollm2-135m"):
            make_checkpoint(Path(folder) / name)
        try:
            args, chats = parse_args(words)
        except SystemExit as end:
            return {"status": end.code, "said": said.getvalue()}
    return {"settings": settings(args), "chats": chats, "ranks": vars(args.tp_info)}


def probe_each_option_changes_its_setting(seed):
    os.environ.pop("MINISGL_API_KEY", None)
    plain = parsed(["--model", "CHECKPOINT"])
    found = {line: parsed(["--model-path", "CHECKPOINT", *line.split()]) for line in SET}
    return [plain, found, parsed([])["settings"]["model_path"]]


def judge_each_option_changes_its_setting(seed, got):
    plain, found, model = got
    equal(plain["settings"], DEFAULTS, "the settings when nothing is given")
    equal(plain["chats"], False, "whether it chats when nothing is given")
    equal(plain["ranks"], {"rank": 0, "size": 1}, "ranks")
    for line, (name, value) in SET.items():
        want = {**DEFAULTS, name: value}
        equal(found[line]["settings"], want, f"settings with {line}")
        equal(found[line]["chats"], line.startswith("--shell"), f"whether it chats with {line}")
    equal(model, "smollm2-135m", "the model when none is given")


def probe_what_can_not_be_is_refused_in_one_sentence(seed):
    return {line: parsed(["--model", "CHECKPOINT", *line.split()]) for line in REFUSED}


def judge_what_can_not_be_is_refused_in_one_sentence(seed, got):
    for line, sentence in REFUSED.items():
        equal(got[line].get("status"), 2, f"status with {line}")
        last = got[line]["said"].splitlines()[-1]
        truth(last.startswith("python -m minisgl: error: "), f"{line} is an error", last)
        truth(sentence in last, f"the sentence about {line}", last)


@public_bug("B101")
def probe_each_option_takes_its_printed_default(seed):
    from minisgl.server.options import make_parser

    with mock.patch.dict(os.environ, {}, clear=False):
        os.environ.pop("MINISGL_API_KEY", None)
        parser = make_parser()
        shown = {
            action.option_strings[0]: [
                str(action.default),
                re.sub(r"%\(default\)s", "D", action.help or ""),
            ]
            for action in parser._actions
            if action.nargs is None and action.default not in (None, "", "==SUPPRESS==")
        }
        words = [word for option, (default, _) in shown.items() for word in (option, default)]
        return [shown, parsed(words), parser.format_help()]


def judge_each_option_takes_its_printed_default(seed, got):
    shown, all_given, page = got
    truth(len(shown) > 18, "options with a default", sorted(shown))
    want = {**DEFAULTS, "model_path": "smollm2-135m"}
    equal(all_given.get("settings"), want, "the settings with each default given")
    for option in shown:
        truth(option in page, f"the help has {option}", page)
    for line in page.split("\n"):
        truth(len(line) <= 100, "a line of the help fits into 100 columns", line)


def probe_arguments_made_in_python_have_the_same_defaults(seed):
    import dataclasses

    from minisgl.server.args import ServerArgs

    return {f.name: f.default for f in dataclasses.fields(ServerArgs) if f.name in OWN}


def judge_arguments_made_in_python_have_the_same_defaults(seed, got):
    equal(got, {name: DEFAULTS[name] for name in OWN}, "defaults of the server's settings")


def probe_the_key_may_stand_in_the_environment(seed):
    words = ["--model", "CHECKPOINT"]
    one = parsed(words, MINISGL_API_KEY="e")["settings"]["api_key"]
    other = parsed([*words, "--api-key", "k"], MINISGL_API_KEY="e")["settings"]["api_key"]
    return [one, other]


def judge_the_key_may_stand_in_the_environment(seed, got):
    equal(got, ["e", "k"], "the environment's key, and one that is given too")


UNUSABLE = ("k\n", " k", "k ", " ", "k\tk", "k\udcff")
"""Keys that no client could send, as a file's last line or bytes that are no UTF-8 give."""


def probe_a_key_that_no_client_can_send_is_refused(seed):
    words = ["--model", "CHECKPOINT"]
    given = [parsed([*words, "--api-key", key], MINISGL_API_KEY="e") for key in UNUSABLE]
    found = parsed(words, MINISGL_API_KEY="s3cret\n")
    return [given, found, parsed([*words, "--api-key", "two words"])["settings"]["api_key"]]


def judge_a_key_that_no_client_can_send_is_refused(seed, got):
    given, found, usable = got
    for key, each in zip(UNUSABLE, given, strict=True):
        equal(each.get("status"), 2, f"status with the key {key!r}")
        truth("a key can't begin or end with a space" in each["said"], "what is said", each)
    equal(found.get("status"), 2, "status with a new line behind the environment's key")
    truth("s3cret" not in found["said"], "the key is not shown", found)
    equal(usable, "two words", "a key with a space in its midst")


def probe_the_number_type_follows_the_device(seed):
    return [
        parsed(["--dtype", asked], device)["settings"]["dtype"]
        for device in ("cpu", "cuda")
        for asked in ("auto", "float16")
    ]


def judge_the_number_type_follows_the_device(seed, got):
    want = ["torch.float32", "torch.float16", "torch.bfloat16", "torch.float16"]
    equal(got, want, "auto and float16, on a CPU and on a GPU")


def probe_prefill_batches_follow_the_device(seed):
    return [
        parsed(line.split(), device)["settings"]["max_extend_tokens"]
        for device in ("cpu", "cuda")
        for line in ("", "--max-prefill-length 8192", "--max-prefill-length 1")
    ]


def judge_prefill_batches_follow_the_device(seed, got):
    equal(got, [256, 8192, 1, 8192, 8192, 1], "none, 8192 and 1 given, on a CPU and on a GPU")


def probe_a_model_is_a_folder_or_a_name(seed):
    from minisgl.server.args import resolve_model

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in ("models/tiny", "else/where", "models/Owner/repo"):
            make_checkpoint(Path(name))
        Path("empty").mkdir()
        make_checkpoint(Path("cut"), config='{"a":')
        make_checkpoint(Path("list"), config="[]")
        make_checkpoint(Path("mute"), tokenizer="weights")
        make_checkpoint(Path("old"), tokenizer="tokenizer.model")

        def names(*given: str) -> list[Any]:
            return [error_of(lambda n=n: resolve_model(n)) or resolve_model(n) for n in given]

        with mock.patch.dict(os.environ):
            os.environ.pop("MINISGL_MODELS", None)
            found = names("tiny", "else/where", "Owner/repo", "Qwen/Qwen3-0.6B", "old")
            unfit = names("empty", "cut", "list", "mute")
            wrong = names("none", "a/b/c", "/abs/none", "./none", "../x", "else/other")
            os.environ["MINISGL_MODELS"] = "else"
            moved = names("where", "tiny")
    return [found, unfit, wrong, moved]


def judge_a_model_is_a_folder_or_a_name(seed, got):
    found, unfit, wrong, moved = got
    want = ["models/tiny", "else/where", "models/Owner/repo", "Qwen/Qwen3-0.6B", "old"]
    equal(found, want, "names in models/, a folder, a name of the hub, one without tokenizer.json")
    reasons = ["no config.json", "JSON object", "JSON object", "no tokenizer"]
    for error, folder, reason in zip(unfit, ("empty", "cut", "list", "mute"), reasons, strict=True):
        refused(error, "a folder that is no checkpoint", folder, reason, kind="ValueError")
    for error in wrong:
        refused(error, "what is no model", "there is no model", "models", kind="ValueError")
    equal(moved[0], "else/where", "a name in the folder that MINISGL_MODELS names")
    refused(moved[1], "a name that is elsewhere", "the name of one in else", kind="ValueError")


def probe_each_address_is_bound_once(seed):
    found = []
    for count in (0, 1, 2):
        args = stub_args(num_tokenizer=count, socket_folder="/run/x")
        found.append(
            {
                "shared": args.share_tokenizer,
                "tokenizer": args.zmq_tokenizer_addr,
                "detokenizer": args.zmq_detokenizer_addr,
                "frontend": args.zmq_frontend_addr,
                "backend": args.zmq_backend_addr,
                "ranks": args.distributed_addr,
                "binds": [args.tokenizer_create_addr, args.frontend_create_tokenizer_link],
            }
        )
    return found


def judge_each_address_is_bound_once(seed, got):
    shared, one, two = got
    equal(shared["tokenizer"], shared["detokenizer"], "where prompts go with no tokenizer apart")
    equal([shared["shared"], shared["binds"]], [True, [True, False]], "the detokenizer binds it")
    for each in (one, two):
        equal(each["shared"], False, "with tokenizers apart")
        equal(each["binds"], [False, True], "the API server binds it")
        names = ("tokenizer", "detokenizer", "frontend", "backend", "ranks")
        equal(len({each[name] for name in names}), 5, "addresses that differ")
        for name in names:
            scheme = "file" if name == "ranks" else "ipc"
            truth(each[name].startswith(f"{scheme}:///run/x/"), "in its folder", each[name])
