"""What every chapter's main.py shares: the answer it gives, its settings and its command line.

A main exposes `generate(model_path, prompts, max_tokens, **config) -> Generation`, prints its page
when it is run, and hands what it generated to `report` at the end.
"""

from __future__ import annotations

import argparse
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

Top2 = tuple[tuple[int, float], tuple[int, float]]

CONFIG_KEYS = frozenset(
    (
        "attention_backend",
        "cache_type",
        "cuda_graph",
        "device",
        "dtype",
        "max_extend_tokens",
        "max_running_req",
        "num_pages",
        "overlap",
        "page_size",
        "tp_size",
        "use_cache",
    )
)
"""Every key that some chapter's `generate` takes; a chapter knows some of them."""

DEFAULT_MODEL = "smollm2-135m"


@dataclass
class Generation:
    """What `generate` gives back: greedy, exactly max_tokens tokens per prompt, no end id.

    token_ids[p][t]: token t of prompt p. top2[p][t]: the two best (id, logit) that it was chosen
    from, best first. counters: how often each feature was at work, read from the engine's state.
    """

    token_ids: list[list[int]]
    top2: list[list[Top2]]
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        """All generated tokens."""
        return sum(map(len, self.token_ids))


class ConfigError(ValueError):
    """A config key or value that this chapter's engine can't honor."""


def config(given: dict[str, Any], **defaults: Any) -> SimpleNamespace:
    """The chapter's settings: `defaults`, with what the caller gave put over them.

    Raises ConfigError for a key that this chapter doesn't know and for a value of another type.
    """
    for key in defaults:
        if key not in CONFIG_KEYS:
            raise ConfigError(f"config key {key!r} isn't in book.CONFIG_KEYS; add it there first")
    for key, value in given.items():
        _check(key, value, defaults)
    return SimpleNamespace(**{**defaults, **given})


def _check(key: str, value: object, defaults: dict[str, Any]) -> None:
    known = ", ".join(sorted(defaults)) or "none"
    if key not in CONFIG_KEYS:
        raise ConfigError(f"there is no config key {key!r}; this chapter knows {known}")
    if key not in defaults:
        raise ConfigError(f"this chapter doesn't know config key {key!r}; it knows {known}")
    wanted = defaults[key]
    if wanted is not None and type(value) is not type(wanted):
        kind = type(wanted).__name__
        raise ConfigError(f"config key {key!r} takes {kind}, not {value!r}")


def top2(logits: torch.Tensor) -> Top2:
    """The two best (id, logit) of one row of logits, best first. logits: (vocab,)"""
    values, ids = logits.float().topk(2)
    (first, second), (best, other) = values.tolist(), ids.tolist()
    return (best, first), (other, second)


def models_folder() -> Path:
    """Where the checkpoints lie: $MINISGL_MODELS, or models/ beside steps/."""
    return Path(os.environ.get("MINISGL_MODELS") or Path(__file__).resolve().parents[1] / "models")


def arguments(description: str | None = None, max_tokens: int = 32) -> argparse.Namespace:
    """The command line of a main: .model (a checkpoint's folder, str) and .max_tokens."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", default=str(models_folder() / DEFAULT_MODEL), metavar="PATH")
    parser.add_argument("--max-tokens", type=int, default=max_tokens, metavar="N")
    parsed = parser.parse_args()
    if not (Path(parsed.model) / "config.json").is_file():
        parser.error(f"{parsed.model} holds no checkpoint: it has no config.json")
    return parsed


@lru_cache(maxsize=4)
def _tokenizer(model_path: str) -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(Path(model_path) / "tokenizer.json"))


def encode(model_path: str, text: str) -> list[int]:
    """The token ids of `text`, without a chat template."""
    ids: list[int] = _tokenizer(model_path).encode(text).ids
    return ids


def decode(model_path: str, token_ids: list[int]) -> str:
    """The text of token ids; special tokens are left out."""
    text: str = _tokenizer(model_path).decode(token_ids)
    return text


class AllDone(Exception):
    """Every request that was to come has come and has been answered."""


def offline(scheduler_class: Any) -> Any:
    """A subclass that is fed from a list, for the mains of chapters 07 to 10.

    arrivals: (step, message) pairs in order; a message is delivered at that step or, when nothing
    else is left to do, earlier. replies: for each uid the messages that came back.
    logits: for each uid the two best logits of each of its tokens. Its run() serves all arrivals.
    """

    class Offline(scheduler_class):  # type: ignore[misc]
        def __init__(self, config: Any, arrivals: list[tuple[int, Any]]) -> None:
            super().__init__(config)
            self.arrivals, self.step = list(arrivals), 0
            self.replies: dict[int, list[Any]] = {}
            self.logits = watch_logits(self.engine)

        def offline_receive_msg(self, blocking: bool = False) -> list[Any]:
            if blocking and not self.arrivals:
                raise AllDone
            self.step = max(self.step + 1, self.arrivals[0][0] if blocking else 0)
            due = [msg for step, msg in self.arrivals if step <= self.step]
            self.arrivals = self.arrivals[len(due) :]
            return due

        def offline_send_result(self, reply: list[Any]) -> None:
            for msg in reply:
                self.replies.setdefault(msg.uid, []).append(msg)

        def run(self) -> None:
            try:
                self.run_forever()
            except AllDone:
                return

        def generation(self, uids: Iterable[int], counters: dict[str, int]) -> Generation:
            """What the requests with these uids got."""
            tokens = [[msg.next_token for msg in self.replies[uid]] for uid in uids]
            top2 = [self.logits[uid] for uid in uids]
            return Generation(tokens, top2, counters)

    return Offline


def watch_logits(engine: Any) -> dict[int, list[Top2]]:
    """From now on, each sampled token's two best logits go into the dict that is returned, by uid.

    Rows of which no token is wanted (a chunk of a prompt) are left out.
    """
    seen: dict[int, list[Top2]] = {}
    sampler = engine.sampler
    rows: deque[list[tuple[int, bool]]] = deque()
    plain_prepare, plain_sample = sampler.prepare, sampler.sample

    def prepare(batch: Any) -> Any:
        rows.append([(req.uid, req.can_decode) for req in batch.reqs])
        return plain_prepare(batch)

    def sample(logits: torch.Tensor, args: Any) -> Any:
        for (uid, wanted), row in zip(rows.popleft(), logits, strict=True):
            if wanted:
                seen.setdefault(uid, []).append(top2(row))
        return plain_sample(logits, args)

    sampler.prepare, sampler.sample = prepare, sample
    return seen


receivers: list[Callable[[Generation], None]] = []
"""Who wants to see what a main generated; the step tool adds itself here, nobody else does."""


def report(generation: Generation) -> None:
    """Hand over what the main generated. Without the step tool this does nothing."""
    for receive in receivers:
        receive(generation)
