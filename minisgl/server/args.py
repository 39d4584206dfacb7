"""The server's settings, and how they are read from a command line."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from minisgl.attention import validate_attn_backend
from minisgl.distributed.info import DistributedInfo
from minisgl.scheduler import SchedulerConfig
from minisgl.utils.device import default_device

from .options import DTYPES, make_parser

PREFILL_LENGTHS = {"cpu": 256}
"""Tokens of a prefill batch by kind of device. A batch that is launched can't be stopped: on a CPU
256 tokens take about a second, on a GPU the 8,192 of SchedulerConfig do not."""
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
"""Files of which a tokenizer has one; without, transformers makes one that knows no token."""


@dataclass(frozen=True)
class ServerArgs(SchedulerConfig):
    """The scheduler's settings, and how it is served.

    num_tokenizer: processes that only tokenize; 0: the detokenizer does it too. silent_output: only
    warnings are logged. max_body_bytes: of a request. max_waiting: requests without a first token
    that are let in. Times are in seconds: request_timeout for a whole request to arrive,
    first_token_timeout for an answer to begin, send_timeout for a client to take what is sent,
    shutdown_grace for running requests once the server is told to stop.
    """

    server_host: str = "127.0.0.1"
    server_port: int = 1919
    num_tokenizer: int = 0
    silent_output: bool = False
    api_key: str = ""
    max_body_bytes: int = 4 << 20
    max_waiting: int = 1024
    request_timeout: float = 30.0
    first_token_timeout: float = 600.0
    send_timeout: float = 60.0
    shutdown_grace: float = 10.0

    @property
    def share_tokenizer(self) -> bool:
        """Whether one process tokenizes and detokenizes."""
        return self.num_tokenizer == 0

    @property
    def zmq_frontend_addr(self) -> str:
        """Where the API server takes replies; it binds."""
        return f"ipc://{self.socket_folder}/frontend"

    @property
    def zmq_tokenizer_addr(self) -> str:
        """Where prompts go: to the detokenizer, or to an address that all tokenizers read."""
        if self.share_tokenizer:
            return self.zmq_detokenizer_addr
        return f"ipc://{self.socket_folder}/tokenizer"

    @property
    def tokenizer_create_addr(self) -> bool:
        """Whether the tokenizer binds zmq_tokenizer_addr: it does when it is the only one."""
        return self.share_tokenizer

    @property
    def frontend_create_tokenizer_link(self) -> bool:
        """Whether the API server binds zmq_tokenizer_addr, so that several can read from it."""
        return not self.share_tokenizer

    @property
    def distributed_addr(self) -> str:
        """Where ranks find each other: a file of this server's own, since a port may be taken."""
        return f"file://{self.socket_folder}/ranks"


def resolve_model(name: str) -> str:
    """Return the folder that name stands for, itself or one under models/, or a hub name.

    Raises ValueError for a folder without a checkpoint and for what is neither.
    """
    models = Path(os.environ.get("MINISGL_MODELS") or "models")
    folders = [folder for folder in (Path(name), models / name) if folder.is_dir()]
    for folder in folders:
        if (folder / "config.json").is_file():
            _check_folder(folder)
            return str(folder)
    if folders:
        raise ValueError(f"{folders[0]} holds no checkpoint: it has no config.json")
    owner, _, repo = name.partition("/")
    is_path = not owner.strip(".") or not repo.strip(".") or "/" in repo
    if is_path or Path(owner).is_dir():
        raise ValueError(
            f"there is no model {name!r}; give a folder with a config.json, the name of one in "
            f"{models}, or a name of the Hugging Face hub such as Qwen/Qwen3-0.6B"
        )
    return name


def _check_folder(folder: Path) -> None:
    """Raise ValueError for a folder of which it is plain at once that no server can start."""
    config = folder / "config.json"
    try:
        is_object = isinstance(json.loads(config.read_bytes()), dict)
    except (OSError, ValueError):
        is_object = False
    if not is_object:
        raise ValueError(f"{config} can't be read as a JSON object: fetch the checkpoint again")
    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise ValueError(f"{folder} has no tokenizer, such as a {VOCABULARIES[0]}")


def parse_args(args: list[str], run_shell: bool = False) -> tuple[ServerArgs, bool]:
    """Return the settings that a command line asks for, and whether to chat in this terminal.

    What is wrong ends the process with status 2 and one sentence on stderr.
    """
    parser = make_parser()
    given = parser.parse_args(args)
    run_shell |= given.shell_mode
    try:
        validate_attn_backend(given.attention_backend)
        model_path = resolve_model(given.model_path)
    except ValueError as error:
        parser.error(str(error))
    kind = default_device().type
    automatic = torch.float32 if kind == "cpu" else torch.bfloat16
    prefill_length = PREFILL_LENGTHS.get(kind, ServerArgs.max_extend_tokens)
    settings = ServerArgs(
        model_path=model_path,
        tp_info=DistributedInfo(0, given.tensor_parallel_size),
        dtype=DTYPES.get(given.dtype, automatic),
        max_running_req=given.max_running_requests,
        attention_backend=given.attention_backend,
        moe_backend=given.moe_backend,
        cuda_graph_max_bs=given.cuda_graph_max_bs,
        page_size=given.page_size,
        memory_ratio=given.memory_ratio,
        use_dummy_weight=given.dummy_weight,
        max_seq_len_override=given.max_seq_len_override,
        num_page_override=given.num_pages,
        max_extend_tokens=given.max_prefill_length or prefill_length,
        cache_type=given.cache_type,
        server_host=given.host,
        server_port=given.port,
        num_tokenizer=given.num_tokenizer,
        silent_output=run_shell,
        api_key=given.api_key,
        max_body_bytes=given.max_body_bytes,
        max_waiting=given.max_waiting,
        request_timeout=given.request_timeout,
        first_token_timeout=given.first_token_timeout,
        send_timeout=given.send_timeout,
        shutdown_grace=given.shutdown_grace,
    )
    return settings, run_shell
