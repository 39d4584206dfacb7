"""Random traffic through both loops, beside a model that says who may run in each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fakes.stub_engine import Done, abort, answer, stub_scheduler, user

ENDS, LIMIT = (5, 11, 40), 40

Part = tuple[int, int]
"""A request's uid, and how many of its tokens a batch computes."""


@dataclass(eq=False)
class Request:
    """done: tokens that were launched; read: answers that came back; ended: no more is wanted."""

    uid: int
    prompt: list[int]
    total: int
    want: list[int]
    done: int = 0
    read: int = 0
    ended: bool = False

    @property
    def is_last_launched(self) -> bool:
        return self.done >= self.total - 1


@dataclass
class Model:
    """Counts pages and rows; knows nothing of slots, trees and tensors.

    holding: the requests with a row. Who may still take pages counts with all that it could take.
    flight: the batches that are not read, each request with whether its token is an answer.
    """

    pages: int
    page_size: int
    rows: int
    budget: int
    queue: list[Request] = field(default_factory=list)
    holding: list[Request] = field(default_factory=list)
    flight: list[list[tuple[Request, bool]]] = field(default_factory=list)
    in_a_row: int = 0
    """Prefill batches since the last decode batch; a chunk counts as many."""

    def used(self) -> int:
        tokens = [r.done if r.ended or r.is_last_launched else r.total for r in self.holding]
        return sum(-(-count // self.page_size) for count in tokens)

    def running(self) -> list[Request]:
        able = (r for r in self.holding if not r.ended and not r.is_last_launched)
        return sorted((r for r in able if r not in self.queue), key=lambda r: r.uid)

    def prefill(self) -> list[tuple[Request, int]]:
        """First come, first served, until budget, rows or pages are used up."""
        budget, rows, used = self.budget, self.rows - len(self.holding), self.used()
        parts = []
        for request in self.queue:
            if request not in self.holding:
                rows, used = rows - 1, used + -(-request.total // self.page_size)
                if rows < 0 or used > self.pages:
                    break
            if budget == 0:
                break
            part = min(budget, len(request.prompt) - request.done)
            parts.append((request, part))
            budget -= part
        return parts

    def launch(self, parts: list[tuple[Request, int]], is_decode: bool = False) -> None:
        for request, count in parts:
            if request not in self.holding:
                self.holding.append(request)
            request.done += count
        self.queue = [r for r in self.queue if r.done < len(r.prompt)]
        self.flight.append([(r, r.done >= len(r.prompt)) for r, _ in parts])
        is_cut = not all(is_answer for _, is_answer in self.flight[-1])
        self.in_a_row = 0 if is_decode else 8 if is_cut else self.in_a_row + 1

    def take(self) -> None:
        """Read the oldest batch."""
        for request, is_answer in self.flight.pop(0):
            if is_answer and not request.ended:
                request.read += 1
                request.ended = request.read == len(request.want)

    def release(self) -> None:
        flying = [r for batch in self.flight for r, _ in batch]
        self.holding = [r for r in self.holding if not r.ended or r in flying]

    def stop(self, request: Request) -> None:
        request.ended = True
        self.queue = [r for r in self.queue if r is not request]


class Machine(RuleBasedStateMachine):
    """One scheduler and one model; overlap and cache_type are set by the test."""

    overlap, cache_type = True, "naive"

    @initialize(
        page_size=st.sampled_from([1, 4]),
        tokens=st.sampled_from([LIMIT, 60, 200]),
        budget=st.sampled_from([3, 16, 100]),
        rows=st.sampled_from([1, 2, 6]),
    )
    def begin(self, page_size: int, tokens: int, budget: int, rows: int) -> None:
        pages = tokens // page_size
        self.scheduler = stub_scheduler(
            overlap=self.overlap, cache_type=self.cache_type, page_size=page_size, eos=ENDS,
            num_page_override=pages, max_extend_tokens=budget, max_running_req=rows,
            max_seq_len_override=LIMIT,
        )  # fmt: skip
        self.model = Model(pages, page_size, rows, budget)
        self.all: list[Request] = []
        self.inbox: list[tuple[str, Request]] = []
        self.aborted: dict[int, int] = {}
        self.launched: list[tuple[str, list[Part]]] = []
        prepare = self.scheduler._prepare_batch

        def prepare_batch(batch: Any) -> Any:
            parts = [(req.uid, req.extend_len) for req in batch.reqs]
            self.launched.append((batch.phase, parts))
            return prepare(batch)

        self.scheduler._prepare_batch = prepare_batch

    @rule(length=st.integers(1, LIMIT - 1), count=st.integers(1, 12), ignore_eos=st.booleans())
    def arrive(self, length: int, count: int, ignore_eos: bool) -> None:
        """No two prompts begin alike, so that nothing is found in the cache."""
        uid = len(self.all)
        prompt = [uid % 97, uid // 97] + [i % 97 for i in range(length)]
        prompt = prompt[: max(2, length)][: LIMIT - 1]
        count = min(count, LIMIT - len(prompt))
        want = answer(prompt, count, eos=() if ignore_eos else ENDS)
        request = Request(uid, prompt, len(prompt) + count, want)
        self.all.append(request)
        self.inbox.append(("user", request))
        self.scheduler.send(user(uid, prompt, count, ignore_eos=ignore_eos))
        self.scheduler.engine.expect(uid, prompt + want)

    @precondition(lambda self: self.all)
    @rule(data=st.data(), recent=st.integers(1, 4))
    def abort(self, data: st.DataObject, recent: int) -> None:
        request = data.draw(st.sampled_from(self.all[-4 * recent :]))
        self.inbox.append(("abort", request))
        self.scheduler.send(abort(request.uid))

    @rule(count=st.integers(1, 4))
    def go_on(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def step(self) -> bool:
        """One step of both; False when there was nothing left to do."""
        model = self.model
        self.read_messages()
        self.launched.clear()
        try:
            self.scheduler.step()
        except Done:
            assert not model.queue and not model.holding and not model.flight
            return False
        before = bool(model.flight)
        self.compare()
        if before or (model.flight and not self.overlap):
            model.take()
        model.release()
        self.look()
        return True

    def read_messages(self) -> None:
        for kind, request in self.inbox:
            if kind == "user":
                self.model.queue.append(request)
            elif not request.ended:
                self.model.stop(request)
                self.aborted[request.uid] = request.read
        self.inbox.clear()

    def compare(self) -> None:
        """What was launched is what the model allows, and no less."""
        model = self.model
        prefill, running = model.prefill(), model.running()
        if not self.launched:
            assert not prefill and not running
            model.in_a_row = 0
            return
        [(phase, parts)] = self.launched
        if phase == "decode":
            assert parts == [(r.uid, 1) for r in running]
            assert not prefill or model.in_a_row >= 8, "a prompt that may run comes first"
            model.launch([(r, 1) for r in running], is_decode=True)
        else:
            assert parts == [(r.uid, count) for r, count in prefill]
            assert not running or model.in_a_row < 8, "the running requests are owed a step"
            model.launch(prefill)

    def look(self) -> None:
        scheduler, model = self.scheduler, self.model
        scheduler.check()
        assert scheduler.engine.wrong == []
        assert {r.uid for r in model.holding} == {r.uid for r in scheduler.holders()}
        for request in self.all:
            sent = scheduler.replies.get(request.uid, [])
            assert len(sent) == self.aborted.get(request.uid, request.read)
            last = len(request.want) - 1
            want = [[token, i == last] for i, token in enumerate(request.want)]
            assert sent == want[: len(sent)]

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for _ in range(2_000):
            if not self.step():
                break
        else:
            raise AssertionError("some request starves")
        assert scheduler_is_empty(self.scheduler)


def scheduler_is_empty(scheduler: Any) -> bool:
    """Whether all rows and pages are back, those of the prefix cache included."""
    cache = scheduler.cache_manager
    rows = scheduler.table_manager.available_size == scheduler.config.max_running_req
    return rows and cache.available_size == cache.num_pages * cache.page_size


@pytest.mark.parametrize("cache_type", ["naive", "radix"])
@pytest.mark.parametrize("overlap", [True, False])
def test_each_step_runs_whom_the_model_admits(overlap: bool, cache_type: str) -> None:
    kind = type("Machine", (Machine,), {"overlap": overlap, "cache_type": cache_type})
    run_state_machine_as_test(
        kind, settings=settings(max_examples=50, stateful_step_count=50, deadline=None)
    )
