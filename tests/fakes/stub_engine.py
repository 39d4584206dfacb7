"""A scheduler on an engine without a model, whose device is as late as a device can be.

Nothing runs when it is launched: a batch runs when somebody waits for its event, and with it all
that was launched before. So a row, a page or a tensor that is used again too early shows on a CPU.

The pool remembers for each slot which prefix of tokens was written there, as one number. A token
is chosen from these numbers alone, read through the page table's slots as they were when the batch
was put together: any slot, position or token that is wrong changes the answer, and is also noted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

MIX = 1_000_003
PRIME = (1 << 31) - 1


def prefixes(tokens: list[int]) -> list[int]:
    """For each position the number of the tokens up to it."""
    numbers, number = [], 7
    for token in tokens:
        number = (number * MIX + token + 1) % PRIME
        numbers.append(number)
    return numbers


def answer(prompt: list[int], max_tokens: int, vocab: int = 97, eos: tuple[int, ...] = ()) -> list:
    """What a request gets when it is alone: up to and with the first end id."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + max_tokens:
        tokens.append(prefixes(tokens)[-1] % vocab)
        if tokens[-1] in eos:
            break
    return tokens[len(prompt) :]


def said(prompt: list[int], max_tokens: int, eos: tuple[int, ...] = ()) -> list[list[Any]]:
    """The replies to a request: each token, and whether it is the last one."""
    tokens = answer(prompt, max_tokens, eos=eos)
    return [[token, i == len(tokens)] for i, token in enumerate(tokens, start=1)]


def said_logprobs(token: int, count: int, vocab: int = 97) -> tuple[list[int], list[float]]:
    """What comes with a token whose request asks for count of the best: ids and values."""
    best = [(3 * token + i) % vocab for i in range(count)]
    return [token, *best], [-token / 4.0, *(-token - i / 4.0 for i in range(count))]


def _empty_logprobs(reqs: list[Any]) -> Any:
    """Room for what the batch's requests ask for, None if nobody does; without values so far."""
    asked = [
        p.top_logprobs for p in (r.sampling_params for r in reqs) if hasattr(p, "top_logprobs")
    ]
    if not (counts := [count for count in asked if count is not None]):
        return None
    from minisgl.engine import Logprobs

    top = torch.full((len(reqs), max(counts)), float("nan"))
    return Logprobs(top.new_full((len(reqs),), float("nan")), top, torch.full_like(top, -1).int())


class _Later:
    """A value that is there once its batch has run."""

    def __init__(self, make: Callable[[], torch.Tensor]) -> None:
        self.make = make


class _Event:
    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run

    def record(self, stream: object = None) -> None:
        pass

    def synchronize(self) -> None:
        self._run()


class _LatePool:
    """The token pool as a launch sees it: what it reads and writes happens when the batch runs."""

    def __init__(self, pool: torch.Tensor, device: LateEngine) -> None:
        self.pool, self.device = pool, device

    def __getitem__(self, where: Any) -> Any:
        return _Later(lambda: self.pool[where])

    def __setitem__(self, where: Any, value: Any) -> None:
        if isinstance(value, _Later):
            self.device.queue.append(lambda: self.pool.__setitem__(where, value.make()))
        else:
            self.pool[where] = value


class LateEngine:
    """What the scheduler asks of an engine. wrong: each reading of a wrong prefix, in words."""

    def __init__(self, config: Any) -> None:
        from minisgl.core import Context, set_global_ctx
        from minisgl.utils import align_ceil

        self.device, self.stream = torch.device("cpu"), None
        self.tp_cpu_group = vars(config)["tp_cpu_group"]
        self.num_pages = config.num_page_override
        pool_tokens = self.num_pages * config.page_size
        self.max_seq_len = min(config.max_seq_len_override or pool_tokens, pool_tokens)
        self.ctx = Context(config.page_size)
        set_global_ctx(self.ctx)
        width = align_ceil(self.max_seq_len, 32)
        width = align_ceil(width, config.page_size)
        self.ctx.page_table = torch.zeros(config.max_running_req, width, dtype=torch.int32)
        self.ctx.attn_backend = SimpleNamespace(prepare_metadata=self._prepare)  # type: ignore[assignment]
        self.sampler = SimpleNamespace(prepare=lambda batch: None)
        self.vocab_size = config.model_config.vocab_size
        self.slots = np.zeros(pool_tokens, dtype=np.int64)
        self.queue: deque[Callable[[], None]] = deque()
        self.wrong: list[str] = []
        self._wanted: dict[int, np.ndarray] = {}
        self.snapshots: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []

    def _prepare(self, batch: Any) -> None:
        """Note each request's slots, as attention would; and what must stay as it is."""
        table = self.ctx.page_table.numpy()
        batch.attn_metadata = [
            (req.uid, table[req.table_idx, : req.device_len].copy(), req.extend_len)
            for req in batch.padded_reqs
        ]

    def forward_batch(self, batch: Any, args: Any) -> Any:
        """Launch: the requests are one token further; the work itself is queued."""
        metadata = batch.attn_metadata
        tensors = [batch.positions, batch.out_loc]
        self.snapshots.append((tensors, [tensor.clone() for tensor in tensors]))
        tokens = torch.full((len(batch.reqs),), -1, dtype=torch.int32)
        ids, positions, out_loc = batch.input_ids, batch.positions, batch.out_loc
        logprobs = _empty_logprobs(batch.reqs)
        for req in batch.reqs:
            req.complete_one()

        def run() -> None:
            self._compute(metadata, ids.make().tolist(), positions, out_loc, tokens)
            if logprobs is not None:
                self._fill(logprobs, tokens.tolist())

        self.queue.append(run)
        return SimpleNamespace(
            next_tokens_gpu=_Later(lambda: tokens),
            next_tokens_cpu=tokens,
            logprobs=logprobs,
            copy_done_event=_Event(self._up_to(len(self.queue))),
        )

    def _up_to(self, count: int) -> Callable[[], None]:
        """Return what runs all that is queued now, and the write to the token pool behind it."""
        last = self.queue[-1]

        def run() -> None:
            while last in self.queue:
                self.queue.popleft()()
            if self.queue:
                self.queue.popleft()()

        return run

    def _compute(self, metadata: Any, ids: Any, positions: Any, out_loc: Any, tokens: Any) -> None:
        start, sampled, where = 0, tokens.numpy(), out_loc.numpy()
        for row, (uid, slots, extend_len) in enumerate(metadata):
            end = start + extend_len
            first = int(positions[start])
            number = int(self.slots[slots[first - 1]]) if first else 7
            for i in range(start, end):
                number = (number * MIX + ids[i] + 1) % PRIME
                self.slots[where[i]] = number
            seen = self.slots[slots]
            self._check(uid, seen)
            sampled[row] = seen[-1] % self.vocab_size
            start = end

    def _fill(self, logprobs: Any, tokens: list[int]) -> None:
        for row, token in enumerate(tokens):
            ids, values = said_logprobs(token, logprobs.top_ids.shape[1], self.vocab_size)
            logprobs.chosen[row] = values[0]
            logprobs.top_ids[row] = torch.tensor(ids[1:], dtype=torch.int32)
            logprobs.top[row] = torch.tensor(values[1:], dtype=torch.float32)

    def expect(self, uid: int, tokens: list[int]) -> None:
        """From now on request uid must see the prefixes of these tokens."""
        self._wanted[uid] = np.array(prefixes(tokens))

    def _check(self, uid: int, seen: np.ndarray) -> None:
        wanted = self._wanted.get(uid, seen)
        length = min(len(wanted), len(seen))
        differs = seen[:length] != wanted[:length]
        if differs.any():
            position = int(differs.argmax())
            self.wrong.append(f"request {uid} sees a stranger's K and V at {position}")

    def shutdown(self) -> None:
        pass


class Done(Exception):
    """Nothing is left to do."""


def stub_config(**settings: Any) -> Any:
    """A SchedulerConfig that reads no checkpoint. eos: end ids; vocab: ids of the vocabulary.

    With socket_folder it is an online one, which is number rank of size.
    """
    from minisgl.distributed.info import DistributedInfo
    from minisgl.scheduler import SchedulerConfig

    eos, vocab = settings.pop("eos", ()), settings.pop("vocab", 97)
    info = DistributedInfo(settings.pop("rank", 0), settings.pop("size", 1))
    group = settings.pop("tp_cpu_group", None)
    fixed = {
        "model_path": "no checkpoint",
        "tp_info": info,
        "dtype": torch.float32,
        "max_running_req": 8,
        "num_page_override": 64,
        "cache_type": "naive",
        "offline_mode": "socket_folder" not in settings,
    }
    config = SchedulerConfig(**{**fixed, **settings})
    vars(config)["eos_token_ids"] = frozenset(eos)
    vars(config)["tp_cpu_group"] = group
    vars(config)["model_config"] = SimpleNamespace(vocab_size=vocab)
    return config


def stub_scheduler(overlap: bool = False, base: Any = None, **settings: Any) -> Any:
    """A scheduler on a LateEngine. base: another class than Scheduler, such as a faulty one.

    send(*messages) puts messages into its inbox; step() is one loop; run() steps until idle.
    replies: for each uid [token, finished] or [token, finished, error], in order; each rank that is
    online has its own. check() raises unless each row and page has one owner.
    batches: for each launch its phase and [uid, cached_len, device_len] of its requests.
    """
    from unittest import mock

    from minisgl.scheduler import Scheduler
    from minisgl.scheduler import scheduler as module

    class Stubbed(base or Scheduler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.inbox: list[Any] = []
            self.replies: dict[int, list[list[Any]]] = {}
            self.batches: list[tuple[str, list[list[int]]]] = []
            self.data: Any = None
            with mock.patch.object(module, "Engine", LateEngine):
                super().__init__(stub_config(**settings))

        def _reset(self) -> None:
            super()._reset()
            self.token_pool = _LatePool(self.token_pool, self.engine)

        def _forward(self, forward_input: Any) -> Any:
            batch = forward_input.batch
            rows = [[req.uid, req.cached_len, req.device_len] for req in batch.reqs]
            self.batches.append((batch.phase, rows))
            return super()._forward(forward_input)

        def offline_receive_msg(self, blocking: bool = False) -> list[Any]:
            if blocking and not self.inbox:
                raise Done
            taken, self.inbox = self.inbox, []
            return taken

        def offline_send_result(self, reply: list[Any]) -> None:
            pass

        def send_result(self, reply: list[Any]) -> None:
            super().send_result(reply)
            for msg in reply:
                said = [msg.next_token, msg.finished] + [msg.error] * (msg.error is not None)
                self.replies.setdefault(msg.uid, []).append(said)

        def send(self, *messages: Any) -> None:
            self.inbox += messages

        @property
        def is_idle(self) -> bool:
            """Whether the next step would wait for a message."""
            busy = self.prefill_manager.runnable or self.decode_manager.runnable
            return self.data is None and not busy

        def step(self) -> None:
            if overlap:
                self.data = self.overlap_loop(self.data)
            else:
                self.normal_loop()

        def run(self, limit: int = 10_000) -> Any:
            try:
                for _ in range(limit):
                    self.step()
            except Done:
                return self.replies
            raise AssertionError(f"not idle after {limit} steps")

        def holders(self) -> set[Any]:
            """The requests with a row: running, between chunks, or ended and still in flight.

            Of a prompt's chunks, each an object of its own, the newest counts.
            """
            waiting = [getattr(p, "chunked_req", None) for p in self.prefill_manager.pending_list]
            in_flight = [req for batch in self.in_flight for req in batch.reqs]
            newest: dict[int, Any] = {}
            for req in [*in_flight, *filter(None, waiting), *self.decode_manager.running_reqs]:
                if req.uid not in newest or req.device_len > newest[req.uid].device_len:
                    newest[req.uid] = req
            return set(newest.values())

        def check(self) -> None:
            """Each page and each row has exactly one owner."""
            held = self.holders()
            self.cache_manager.check_integrity(held)
            rows = [req.table_idx for req in held] + self.table_manager._free_rows
            assert sorted(rows) == list(range(self.config.max_running_req)), (
                f"rows {sorted(rows)} are free or held: one has two owners or none"
            )

        def tokens(self, uid: int) -> list[int]:
            return [said[0] for said in self.replies.get(uid, [])]

    return Stubbed()


def user(uid: int, prompt: list[int], max_tokens: int = 4, **params: Any) -> Any:
    """A request for the scheduler."""
    from minisgl.core import SamplingParams
    from minisgl.message import UserMsg

    ids = torch.tensor(prompt, dtype=torch.int32)
    return UserMsg(uid, ids, SamplingParams(max_tokens=max_tokens, **params))


def abort(uid: int) -> Any:
    """The message that stops a request."""
    from minisgl.message import AbortBackendMsg

    return AbortBackendMsg(uid)
