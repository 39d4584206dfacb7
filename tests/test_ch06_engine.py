"""Chapter 06: the engine's batches give what each request would get by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from pairs import checkpoint, close, equal, error_of, public_bug, refused, truth

LENGTHS = (3, 1, 7, 12, 5, 2, 9, 4)
TOKENS = 8
MODELS = ("tiny-qwen3", "tiny-llama3", "tiny-mistral", "tiny-qwen2")


def prompts(seed: int, lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1000, n).tolist() for n in lengths]


def engine(model: str = "tiny-qwen3", **settings: Any) -> Any:
    """An engine for up to 9 requests of 32 tokens each, in float32."""
    from minisgl.distributed.info import DistributedInfo
    from minisgl.engine import Engine, EngineConfig

    size = settings.get("page_size", 1)
    fixed = {"tp_info": DistributedInfo(0, 1), "dtype": torch.float32, "max_running_req": 9}
    config = {"num_page_override": 9 * 32 // size, **fixed, **settings}
    return Engine(EngineConfig(model_path=checkpoint(model), **config))


class Served:
    """One batch of requests on an engine, each with a row and 32 slots on scrambled pages."""

    def __init__(
        self,
        engine: Any,
        prompts: list[list[int]],
        max_tokens: int = TOKENS,
        params: list[dict[str, Any]] | None = None,
    ) -> None:
        from minisgl.core import Req, SamplingParams

        self.engine = engine
        given = params or [{}] * len(prompts)
        rng, size = np.random.default_rng(0), engine.ctx.page_size
        pages = rng.permutation(engine.num_pages).reshape(9, -1)
        slots = pages[:, :, None] * size + np.arange(size)
        engine.ctx.page_table[:, :32] = torch.from_numpy(slots.reshape(9, 32))
        rows = rng.permutation(9)[: len(prompts)].tolist()
        self.reqs = [
            Req(torch.tensor(ids, dtype=torch.int32), row, 0, max_tokens, uid,
                SamplingParams(**param), None)
            for uid, (ids, row, param) in enumerate(zip(prompts, rows, given, strict=True))
        ]  # fmt: skip

    def batch(self) -> Any:
        """The next batch of all requests, ready for forward_batch."""
        from minisgl.core import Batch

        is_decode = all(req.cached_len for req in self.reqs)
        batch = Batch(self.reqs, "decode" if is_decode else "prefill")
        fill(self.engine, batch)
        return batch

    def step(self) -> Any:
        """One pass of all requests."""
        batch = self.batch()
        output = self.engine.forward_batch(batch, self.engine.sampler.prepare(batch))
        output.copy_done_event.synchronize()
        for req, token in zip(self.reqs, output.next_tokens_cpu, strict=True):
            req.append_host(token.view(1))
        return output

    def finish(self) -> list[list[int]]:
        """Run to the end; returns each request's tokens, the prompt's too."""
        while self.reqs[0].can_decode:
            self.step()
        return [req.input_ids.tolist() for req in self.reqs]


def fill(engine: Any, batch: Any) -> None:
    """Set a batch's tensors from its requests' tokens and rows."""
    reqs, table = batch.padded_reqs, engine.ctx.page_table
    spans = [torch.arange(req.cached_len, req.device_len) for req in reqs]
    batch.positions = torch.cat(spans).to(table.device)
    ids = torch.cat([r.input_ids[s] for r, s in zip(reqs, spans, strict=True)])
    batch.input_ids = ids.to(table.device)
    batch.out_loc = torch.cat([table[r.table_idx, s] for r, s in zip(reqs, spans, strict=True)])
    engine.ctx.attn_backend.prepare_metadata(batch)


def watched(engine: Any) -> list[torch.Tensor]:
    """The list in which the engine's logits will be noted, pass by pass."""
    noted: list[torch.Tensor] = []
    plain = engine.sampler.sample

    def sample(logits: torch.Tensor, args: Any) -> torch.Tensor:
        noted.append(logits.clone())
        return plain(logits, args)

    engine.sampler.sample = sample
    return noted


def recomputed(engine: Any, prompt: list[int], count: int) -> list[int]:
    """Greedy without any cache: each token by a prefill of all tokens before it."""
    tokens = list(prompt)
    for _ in range(count):
        tokens = Served(engine, [tokens], 1).finish()[0]
    return tokens


def probe_prefill_and_decode_equal_a_full_recomputation(seed):
    found = []
    for model in MODELS:
        made = engine(model, page_size=4)
        noted = watched(made)
        together = Served(made, prompts(seed)).finish()
        passes, noted[:] = list(noted), []
        alone = [recomputed(made, ids, TOKENS) for ids in prompts(seed)]
        again = torch.cat(noted).view(len(alone), TOKENS, -1)
        off = (torch.stack(passes, dim=1) - again).abs().max() / again.std()
        found.append([together, alone, off.item()])
    return found


def judge_prefill_and_decode_equal_a_full_recomputation(seed, got):
    for model, (together, alone, off) in zip(MODELS, got, strict=True):
        equal(together, alone, f"{model}: tokens of one batch, and of one prefill per token")
        equal([len(x) for x in together], [n + TOKENS for n in LENGTHS], f"{model}: lengths")
        truth(off < 2e-4, f"{model}: logits differ by {off:.1g} standard deviations, below 2e-4")


@public_bug("B13")
def probe_greedy_tokens_dont_depend_on_the_batch_size(seed):
    made, asked = engine(), prompts(seed)
    found = []
    for size in (1, 2, 4, 8):
        parts = [asked[i : i + size] for i in range(0, 8, size)]
        found.append([tokens for part in parts for tokens in Served(made, part).finish()])
    return found


def judge_greedy_tokens_dont_depend_on_the_batch_size(seed, got):
    for size, tokens in zip((2, 4, 8), got[1:], strict=True):
        equal(tokens, got[0], f"tokens of 8 prompts in batches of {size}, and one by one")
    truth(len({x for row in got[0] for x in row[-TOKENS:]}) > 20, "the tokens differ", got[0])


@public_bug("B13")
def probe_greedy_tokens_dont_depend_on_page_size_or_backend_name(seed):
    ways = [{"page_size": 4}, {"page_size": 16}, {"attention_backend": "torch,torch"}, {}]
    return [Served(engine("tiny-mistral", **way), prompts(seed)).finish() for way in ways]


def judge_greedy_tokens_dont_depend_on_page_size_or_backend_name(seed, got):
    equal(got[:3], [got[3]] * 3, "tokens at page size 4 and 16, and with a pair of backends")


def probe_engines_work_one_after_another_and_in_turns(seed):
    asked = prompts(seed)[:3]

    def turns() -> Iterator[list[list[int]]]:
        runs = [Served(engine(model), asked) for model in MODELS[:2]]
        for _ in range(TOKENS):
            for run in runs:
                run.step()
        return (run.finish() for run in runs)

    first = [Served(engine(model), asked).finish() for model in MODELS[:2]]
    return [first, list(turns()), [Served(engine(model), asked).finish() for model in MODELS[:2]]]


def judge_engines_work_one_after_another_and_in_turns(seed, got):
    first, in_turns, again = got
    equal(in_turns, first, "tokens of two engines that take turns, and of each by itself")
    equal(again, first, "tokens of two more engines in the same process")
    truth(first[0] != first[1], "the two models differ", first)


@public_bug("B12")
def probe_each_pass_starts_where_the_last_one_ended(seed):
    run = Served(engine(), prompts(seed, (3, 5)), 3)
    found = []
    for _ in range(3):
        batch = run.batch()
        found.append(batch.positions.tolist())
        run.step()
    lengths = [[req.cached_len, req.device_len, req.remain_len] for req in run.reqs]
    return [found, lengths]


def judge_each_pass_starts_where_the_last_one_ended(seed, got):
    equal(got[0], [[0, 1, 2, 0, 1, 2, 3, 4], [3, 5], [4, 6]], "positions of prefill and decodes")
    equal(got[1], [[5, 6, 0], [7, 8, 0]], "cached_len, device_len and remain_len at the end")


def probe_the_output_has_a_token_per_request_on_device_and_cpu(seed):
    made = engine()
    output = Served(made, prompts(seed)[:3]).step()
    on_device, on_cpu, event = output[:3]
    event.synchronize()
    kinds = [str(x.dtype) for x in (on_device, on_cpu)]
    return [list(on_device.shape), kinds, on_device.tolist() == on_cpu.tolist(),
            str(on_cpu.device), str(on_device.device) == str(made.device)]  # fmt: skip


def judge_the_output_has_a_token_per_request_on_device_and_cpu(seed, got):
    equal(got, [[3], ["torch.int32"] * 2, True, "cpu", True],
          "shape, dtypes, equality and devices of the tokens")  # fmt: skip


@public_bug("B28")
def probe_rows_that_only_pad_the_batch_are_never_sampled(seed):
    from minisgl.core import Req, SamplingParams

    made = engine()
    warm = [{"temperature": 1.0, "seed": 1}, {}]
    plain = Served(made, prompts(seed)[:2], params=warm)
    want = [plain.step().next_tokens_cpu.tolist(), plain.step().next_tokens_cpu.tolist()]
    run = Served(made, prompts(seed)[:2], params=warm)
    found = [run.step().next_tokens_cpu.tolist()]
    batch = run.batch()
    row = next(r for r in range(9) if r not in {req.table_idx for req in run.reqs})
    ids = torch.zeros(1, dtype=torch.int32)
    dummies = [Req(ids, row, 0, 1, -1, SamplingParams(temperature=1.0), None) for _ in range(2)]
    batch.padded_reqs = [*run.reqs, *dummies]
    made.ctx.page_table[row, 0] = made.num_pages - 1
    fill(made, batch)
    noted = watched(made)
    output = made.forward_batch(batch, made.sampler.prepare(batch))
    output.copy_done_event.synchronize()
    found.append(output.next_tokens_cpu.tolist())
    return [want, found, len(noted[0]), [dummy.device_len for dummy in dummies]]


def judge_rows_that_only_pad_the_batch_are_never_sampled(seed, got):
    want, found, rows, lengths = got
    equal(found, want, "tokens of two requests in a batch padded to four")
    equal(rows, 2, "rows of logits that reach the sampler")
    equal(lengths, [1, 1], "lengths of the dummies afterwards")


def probe_a_seeded_request_repeats_alone_and_in_any_batch(seed):
    made, asked = engine(), prompts(seed)[:4]
    warm = {"temperature": 1.0, "top_k": 50, "top_p": 0.95, "seed": 11}
    others = [{"temperature": 1.5}, {}, {"temperature": 1.0, "seed": 12}]
    alone = Served(made, [asked[0]], params=[warm]).finish()[0]
    last = Served(made, [*asked[1:], asked[0]], params=[*others, warm]).finish()[3]
    first = Served(engine(), asked, params=[warm, *others]).finish()[0]
    other = Served(made, [asked[0]], params=[{**warm, "seed": 13}]).finish()[0]
    return [alone, last, first, other, Served(made, [asked[0]]).finish()[0]]


def judge_a_seeded_request_repeats_alone_and_in_any_batch(seed, got):
    alone, last, first, other, greedy = got
    equal([last, first], [alone] * 2, "tokens last in a batch, and first in another engine's")
    truth(other != alone, "another seed gives other tokens", other)
    truth(greedy != alone, "and the greedy ones are others, too", greedy)


def probe_greedy_rows_are_the_same_beside_sampled_ones(seed):
    made, asked = engine(), prompts(seed)[:4]
    warm = {"temperature": 2.0, "seed": 1}
    mixed = Served(made, asked, params=[{}, warm, {"temperature": 3.0, "top_k": 1}, warm]).finish()
    return [mixed[::2], Served(made, asked[::2]).finish()]


def judge_greedy_rows_are_the_same_beside_sampled_ones(seed, got):
    equal(got[0], got[1], "tokens of two greedy requests, beside sampled ones and by themselves")


def probe_an_engine_goes_on_after_a_pass_that_failed(seed):
    made, asked = engine(), prompts(seed)[:2]
    broken = Served(made, asked).batch()
    broken.attn_metadata = None
    args = made.sampler.prepare(broken)
    error = error_of(lambda: made.forward_batch(broken, args))
    lengths = [req.device_len for req in broken.reqs]
    return [error, lengths, Served(made, asked).finish(), Served(engine(), asked).finish()]


def judge_an_engine_goes_on_after_a_pass_that_failed(seed, got):
    refused(got[0], "a batch without its metadata", "prepare_metadata")
    equal(got[1], list(LENGTHS[:2]), "lengths of the requests, for which no token was computed")
    equal(got[2], got[3], "tokens of the next batch, and of a fresh engine")


def probe_a_bfloat16_engine_stays_near_the_float32_one(seed):
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        made = engine(dtype=dtype)
        noted = watched(made)
        Served(made, prompts(seed)).step()
        found.append([noted[0].float().tolist(), str(noted[0].dtype), str(made.ctx.kv_cache.dtype)])
    return found


def judge_a_bfloat16_engine_stays_near_the_float32_one(seed, got):
    exact, rounded = (np.array(x[0]) for x in got)
    equal([x[1:] for x in got], [["torch.float32"] * 2, ["torch.bfloat16"] * 2], "dtypes")
    off = float(np.sqrt(((exact - rounded) ** 2).mean()) / exact.std())
    truth(1e-5 < off < 0.1, f"logits are off by {off:.2g} standard deviations, below 0.1")
    close(rounded.mean(), exact.mean(), 0.1, "mean logit")


def probe_the_event_is_recorded_when_all_copies_are_queued(seed):
    from minisgl.engine import engine as module

    made, calls = engine(), []

    class Event:
        def record(self) -> None:
            calls.append("record")

        def synchronize(self) -> None:
            calls.append("wait")

    module.new_event, kept = (lambda device: Event()), module.new_event
    try:
        output = Served(made, prompts(seed)[:2]).step()
    finally:
        module.new_event = kept
    return [calls, type(output[2]).__name__]


def judge_the_event_is_recorded_when_all_copies_are_queued(seed, got):
    equal(got, [["record", "wait"], "Event"], "calls of one batch's event, and what is given back")
