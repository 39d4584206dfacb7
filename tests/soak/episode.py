"""One scheduler from its first request to its last, with everything looked at on the way."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import torch

from fakes.stub_engine import Done, abort, stub_scheduler
from soak.client import ENDS, VOCAB, Client, Clients

REQUESTS = 150
BRIEF = ("ended, still in flight", "last token in flight", "prefill in flight")


def draw_settings(random: Random) -> dict[str, Any]:
    """How the scheduler of an episode is set up. A tight pool holds hardly more than a request."""
    page_size, limit = random.choice([1, 4, 16]), random.choice([40, 96])
    pool = int(limit * random.choice([1.0, 1.3, 3.0, 10.0, 30.0]))
    return {
        "overlap": random.random() < 0.7,
        "cache_type": random.choice(["naive", "radix", "radix"]),
        "page_size": page_size,
        "num_page_override": -(-pool // page_size),
        "max_seq_len_override": limit,
        "max_extend_tokens": random.choice([1, 5, 16, 16, 50, 1000]),
        "max_running_req": random.choice([1, 3, 8, 16, 32]),
    }


class Episode:
    """counts: what has happened, here and before; base: another scheduler, such as a faulty one."""

    def __init__(self, seed: int, number: int, counts: Counter[str], base: Any = None) -> None:
        self.random, self.counts = Random(f"{seed} {number}"), counts
        self.settings = draw_settings(self.random)
        self.scheduler = stub_scheduler(base=base, eos=ENDS, vocab=VOCAB, **self.settings)
        self.limit = self.scheduler.engine.max_seq_len
        self.clients = Clients(self.random, self.limit)
        self.all: dict[int, Client] = {}
        self.alive: dict[int, Client] = {}
        self.step, self.admitted, self.prefill_cost = 0, -1, 0
        self.arrivals = self.random.choice([0.1, 0.4, 1.0])
        self.aborts = self.random.choice([0.0, 0.03, 0.1, 0.3])
        self._watch()

    def run(self) -> None:
        """Raises AssertionError or RuntimeError at the first thing that is wrong."""
        while True:
            self._talk()
            try:
                self.scheduler.step()
            except Done:
                self._look_at_rest()
                if len(self.all) >= REQUESTS:
                    return
                self._arrive()
                continue
            self.step += 1
            self._look()

    def _watch(self) -> None:
        scheduler = self.scheduler
        prepare, evict = scheduler._prepare_batch, scheduler.cache_manager.prefix_cache.evict

        def prepare_batch(batch: Any) -> Any:
            self._note_batch(batch)
            return prepare(batch)

        def evicted(size: int) -> torch.Tensor:
            most = self._most_to_evict(size)
            slots = evict(size)
            assert len(slots) <= most, (
                f"{len(slots)} tokens are evicted for {size}, at most {most} may go"
            )
            self.counts["eviction"] += len(slots) > 0
            return slots

        def send_result(reply: list[Any]) -> None:
            for msg in reply:
                self._note_reply(msg)

        scheduler._prepare_batch, scheduler.send_result = prepare_batch, send_result
        scheduler.cache_manager.prefix_cache.evict = evicted

    def _most_to_evict(self, size: int) -> int:
        """The longest unused leaves, each as a whole, up to the one with which it is enough."""
        order = getattr(self.scheduler.cache_manager.prefix_cache, "order", ())
        tokens = 0
        for node in order:
            if tokens >= size:
                break
            tokens += node.length
        return tokens

    def _talk(self) -> None:
        if len(self.all) < REQUESTS and self.random.random() < self.arrivals:
            for _ in range(self.random.choice([1, 1, 1, 4])):
                self._arrive()
        if self.random.random() < self.aborts * (5 if self.scheduler.finished_reqs else 1):
            self._abort()

    def _arrive(self) -> None:
        client = self.clients.draw()
        self.all[client.uid] = client
        self.counts["request"] += 1
        self.counts["message"] += 1
        self.scheduler.send(client.message())
        if client.error is not None:
            return
        self.scheduler.engine.expect(client.uid, client.prompt + client.want)
        ahead = sum(self._cost(other) for other in self.alive.values())
        client.latest = self.step + ahead + self._cost(client) - self.prefill_cost
        self.prefill_cost += self._prefills(client)
        client.latest -= self._prefills(client)
        self.alive[client.uid] = client

    def _prefills(self, client: Client) -> int:
        """The most steps that its prompt can take, one of the running requests between two."""
        return 2 * -(-len(client.prompt) // self.settings["max_extend_tokens"]) + 1

    def _cost(self, client: Client) -> int:
        """The most steps it can take by itself: prompt, tokens, and the reading of the last."""
        return self._prefills(client) + len(client.want) + 3

    def _abort(self) -> None:
        """Abort a request, or now and then one that isn't there; each state is as likely.

        But the states that last for one step only are likelier.
        """
        states: dict[str, list[int]] = {}
        arriving = {msg.uid for msg in self.scheduler.inbox}
        for uid in [*self.alive, *list(self.all)[-20:]]:
            if uid not in arriving:
                states.setdefault(self._state(uid), []).append(uid)
        if self.random.random() < 0.05 or not states:
            states = {"unknown": [10**6]}
        brief = [state for state in states if state in BRIEF and self.random.random() < 0.5]
        state = self.random.choice(brief or sorted(states))
        uid = self.random.choice(states[state])
        self.counts[f"abort: {state}"] += 1
        self.scheduler.send(*[abort(uid)] * self.random.choice([1, 1, 2]))
        client = self.all.get(uid)
        if client is not None and not client.has_ended:
            client.aborted = client.sent
            del self.alive[uid]
            self.counts["aborted"] += 1
            self.counts["message"] += 1

    def _state(self, uid: int) -> str:
        """Where a request is, for the abort that will be the next message."""
        scheduler = self.scheduler
        flying = {r.uid: (b, r) for b in scheduler.in_flight for r in b.reqs}
        if self.all[uid].aborted is not None:
            return "aborted before"
        for pending in scheduler.prefill_manager.pending_list:
            if pending.uid == uid:
                if pending.chunked_req is None:
                    return "waiting"
                return "chunk in flight" if uid in flying else "between chunks"
        if any(req.uid == uid for req in scheduler.decode_manager.running_reqs):
            return f"{flying[uid][0].phase} in flight" if uid in flying else "between decodes"
        if uid not in flying:
            return "ended"
        is_last = flying[uid][1] not in scheduler.finished_reqs
        return "last token in flight" if is_last else "ended, still in flight"

    def _note_batch(self, batch: Any) -> None:
        if batch.is_decode:
            uids = sorted(req.uid for req in self.scheduler.decode_manager.running_reqs)
            assert [req.uid for req in batch.reqs] == uids, (
                f"requests {uids} run, but {[req.uid for req in batch.reqs]} are decoded"
            )
            self.counts["token launched"] += batch.size
            return
        budget = self.settings["max_extend_tokens"]
        tokens = sum(req.extend_len for req in batch.reqs)
        assert tokens <= budget, f"a prefill batch of {tokens} tokens, for a budget of {budget}"
        self.counts["prompt part launched"] += batch.size
        begun = {p.uid: p.chunked_req for p in self.scheduler.prefill_manager.pending_list}
        for i, req in enumerate(batch.reqs):
            is_chunk = begun.get(req.uid) is req
            is_first = req.uid > self.admitted
            if not is_first:
                assert req.uid == self.admitted and i == 0, (
                    f"request {req.uid} starts after request {self.admitted}, which came later"
                )
            self.admitted = req.uid
            self._note_part(req, i, is_chunk, is_first)

    def _note_part(self, req: Any, place: int, is_chunk: bool, is_first: bool) -> None:
        if is_first:
            kind = "first chunk" if is_chunk else "whole prompt"
            kind += ", begun in the cache" if req.cached_len else ""
        else:
            kind = "middle chunk" if is_chunk else "last chunk"
        self.counts[f"prefill: {kind}"] += 1
        if is_chunk:
            self.counts["prefill: chunk behind other prompts"] += place > 0
            ends_inside = req.device_len % self.settings["page_size"] > 0
            self.counts["prefill: chunk that ends inside a page"] += ends_inside

    def _note_reply(self, msg: Any) -> None:
        client = self.all[msg.uid]
        client.take(msg.next_token, msg.finished, msg.error)
        if msg.error is not None:
            self.counts["refused"] += 1
        elif msg.finished:
            self._in_time(client)
            del self.alive[msg.uid]
            self.counts["finish"] += 1
            at_end = msg.next_token in ENDS and not client.ignore_eos
            is_cut = len(client.want) < client.max_tokens
            kind = "cut at the longest length" if is_cut else "at its length"
            self.counts[f"finish: {'at an end id' if at_end else kind}"] += 1

    def _in_time(self, client: Client) -> None:
        """What came later may delay a request by the prompts' steps, and by nothing else."""
        late = self.step - (client.latest + self.prefill_cost)
        assert late <= 0, f"request {client.uid} is {late} steps late"

    def _look(self) -> None:
        engine = self.scheduler.engine
        assert not engine.wrong, engine.wrong[0]
        while len(engine.snapshots) > 2:
            now, then = engine.snapshots.pop(0)
            assert all(map(torch.equal, now, then)), "a tensor of a launched batch has changed"
        if self.random.random() < 0.1:
            self.scheduler.check()
            for client in self.alive.values():
                self._in_time(client)

    def _look_at_rest(self) -> None:
        """Nothing is left, and each request got all that it should."""
        scheduler = self.scheduler
        scheduler.check()
        assert not scheduler.holders(), f"idle, but {scheduler.holders()} still hold rows"
        assert not self.alive, f"idle, but requests {sorted(self.alive)} have not ended"
        assert not scheduler.finished_reqs, f"idle, but {scheduler.finished_reqs} aren't let go"
        sizes = scheduler.cache_manager.prefix_cache.size_info
        assert sizes.protected_size == 0, f"idle, but {sizes.protected_size} tokens are locked"
