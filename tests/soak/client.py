"""One request of a soak, what it must be sent, and what it has been sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from fakes.stub_engine import MIX, PRIME, user

VOCAB, ENDS = 61, (3, 17)


@dataclass
class Client:
    """want: its tokens, to the last. latest: the step of the episode at which it must have ended.

    aborted: tokens it had when it was aborted. error: what its refusal must name.
    """

    uid: int
    prompt: list[int]
    max_tokens: int
    ignore_eos: bool = False
    error: str | None = None
    want: list[int] = field(default_factory=list)
    sent: int = 0
    aborted: int | None = None
    latest: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether nothing more may be sent."""
        return self.aborted is not None or self.error is not None or self.sent == len(self.want)

    def message(self) -> Any:
        return user(self.uid, self.prompt, self.max_tokens, ignore_eos=self.ignore_eos)

    def answer(self, limit: int) -> None:
        """Work out what the request gets when it is alone and may have limit tokens."""
        number = 7
        for token in self.prompt:
            number = (number * MIX + token + 1) % PRIME
        while len(self.want) < min(self.max_tokens, limit - len(self.prompt)):
            self.want.append(number % VOCAB)
            if self.want[-1] in ENDS and not self.ignore_eos:
                break
            number = (number * MIX + self.want[-1] + 1) % PRIME

    def take(self, token: int, finished: bool, error: str | None) -> None:
        """Take a reply; AssertionError when it is not the next one."""
        assert not self.has_ended or self.error is not None, (
            f"request {self.uid} has ended and is sent {token}"
        )
        if self.error is not None:
            assert (token, finished) == (-1, True) and self.error in (error or ""), (
                f"request {self.uid} must be refused for {self.error!r}, but is sent {token}"
            )
            assert self.sent == 0, f"request {self.uid} is refused twice"
        else:
            want = (self.want[self.sent], self.sent + 1 == len(self.want), None)
            assert (token, finished, error) == want, (
                f"request {self.uid}, reply {self.sent}: expected {want}, "
                f"got {(token, finished, error)}"
            )
        self.sent += 1


class Clients:
    """Draws requests. Prompts go on from a few stems, or from an earlier prompt and its answer."""

    def __init__(self, random: Random, limit: int) -> None:
        self.random, self.limit, self.next_uid = random, limit, 0
        self.stems = [self._ids(random.randrange(1, limit)) for _ in range(3)]
        self.longest_answer = random.choice([2, 12, 24, limit])

    def draw(self) -> Client:
        client = self._unfit() if self.random.random() < 0.03 else self._fit()
        self.next_uid += 1
        return client

    def _ids(self, count: int) -> list[int]:
        return [self.random.randrange(VOCAB) for _ in range(count)]

    def _fit(self) -> Client:
        random = self.random
        stem = random.choice(self.stems)
        shared = stem[: random.randrange(len(stem) + 1)] if random.random() < 0.7 else []
        prompt = (shared + self._ids(1 + int(random.expovariate(0.15))))[: self.limit - 1]
        client = Client(
            self.next_uid, prompt, random.randint(1, self.longest_answer), random.random() < 0.2
        )
        client.answer(self.limit)
        if random.random() < 0.2:
            self.stems[random.randrange(3)] = (prompt + client.want)[: self.limit - 1]
        return client

    def _unfit(self) -> Client:
        prompt, error = self.random.choice(
            [
                ([], "empty"),
                (self._ids(self.limit + self.random.randrange(3)), "shorten"),
                ([1, VOCAB], "vocabulary"),
                ([-1], "vocabulary"),
            ]
        )
        return Client(self.next_uid, prompt, 3, error=error)
