"""What the soak of the service asks for, and what must come."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from soak.wire import Reply, Wrong

TABLE = 32
"""Prompts of which the greedy answers are known; the other requests are variations of these."""
LENGTHS = (1, 2, 4, 7, 12, 20, 45)
"""Of how many tokens these answers are."""
Answers = list[dict[int, tuple[str, str]]]
"""For each prompt, by max_tokens: the greedy answer's text and finish_reason."""

BAD: tuple[tuple[dict[str, Any], int], ...] = (
    ({"prompt": ""}, 400),
    ({"prompt": [2**31 - 1]}, 400),
    ({"prompt": [5] * 2000}, 400),
    ({"max_tokens": 0}, 400),
    ({"temperature": "hot"}, 400),
    ({"no_such_field": 1}, 400),
    ({"model": "no-such-model"}, 404),
    ({"stop": [""]}, 400),
    ({"stream_options": {"include_usage": True}}, 400),
)
"""What makes a request wrong, and the status that it gets."""


@dataclass
class Task:
    """A request. kind: for the summary. wanted: each choice's text and finish_reason, if known.

    status: what it must get. leave_after: seconds until its client goes away.
    """

    kind: str
    body: dict[str, Any]
    wanted: tuple[str, str] | None = None
    status: int = 200
    leave_after: float | None = None

    def data(self) -> bytes:
        """The body as it is sent."""
        return json.dumps(self.body).encode()

    def check(self, reply: Reply) -> None:
        """Raises Wrong unless the reply is whole, in the right form, and the one that is known."""
        if reply.status != self.status:
            raise Wrong(f"{self.kind}: status {reply.status}, not {self.status}: {reply.error}")
        if self.status != 200:
            if not reply.error or reply.texts:
                raise Wrong(f"{self.kind}: an error without its shape: {reply}")
            return
        if reply.error is not None:
            raise Wrong(f"{self.kind}: {reply.error}")
        if reply.done != int(self.body["stream"]):
            raise Wrong(f"{self.kind}: [DONE] came {reply.done} times")
        choices = list(range(self.body["n"]))
        if sorted(reply.finishes) != choices or any(len(x) != 1 for x in reply.finishes.values()):
            raise Wrong(f"{self.kind}: the choices end {reply.finishes}")
        for i in choices:
            got = (reply.texts[i], reply.finishes[i][0])
            if self.wanted is not None and got != self.wanted:
                raise Wrong(f"{self.kind}: expected {self.wanted}, got {got} for {self.body}")


def known_prompts(seed: int) -> list[list[int]]:
    """Prompts of 1 to 60 tokens, some of which begin alike."""
    draw = random.Random(f"prompts {seed}")
    stem = [draw.randrange(1000) for _ in range(30)]
    prompts = []
    for i in range(TABLE):
        shared = stem[: draw.randrange(31)] if i % 2 else []
        prompts.append(shared + [draw.randrange(1000) for _ in range(draw.randint(1, 30))])
    return prompts


def greedy(prompt: list[int], tokens: int) -> dict[str, Any]:
    """A request for one answer, the best tokens, in one piece."""
    return {
        "model": "tiny-qwen3",
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "n": 1,
        "stream": False,
    }


class Tasks:
    """Draws requests, from known prompts with known answers."""

    def __init__(self, seed: int, prompts: list[list[int]], answers: Answers) -> None:
        self.random, self.prompts, self.answers = random.Random(seed), prompts, answers

    def draw(self) -> Task:
        """Return the next request."""
        draw, kind = self.random, self.random.random()
        which, tokens = draw.randrange(len(self.prompts)), draw.choice(LENGTHS)
        task = self._known(which, tokens)
        if kind < 0.08:
            wrong, status = draw.choice(BAD)
            return Task("bad request", task.body | {"stream": False} | wrong, None, status)
        if kind < 0.20:
            task.body |= {"max_tokens": draw.choice([tokens, 300]), "ignore_eos": True}
            task.kind, task.leave_after = "left by its client", draw.expovariate(5)
        elif kind < 0.32:
            task.body |= {"temperature": 1.0, "seed": draw.randrange(100)}
            task.kind, task.wanted = "sampled", None
        elif kind < 0.45:
            self._stop(task)
        return task

    def _known(self, which: int, tokens: int) -> Task:
        draw = self.random
        n, stream = draw.choice([1, 1, 1, 1, 2, 3]), draw.random() < 0.6
        kind = f"{'streamed' if stream else 'in one piece'}{', n > 1' if n > 1 else ''}"
        body = greedy(self.prompts[which], tokens) | {"n": n, "stream": stream}
        return Task(kind, body, self.answers[which][tokens])

    def _stop(self, task: Task) -> None:
        """Give a known answer a stop string that it has, or one that it has not."""
        assert task.wanted is not None, "the answer is known"
        text, reason = task.wanted
        start = self.random.randrange(len(text) + 1)
        stop = text[start : start + self.random.randint(1, 4)] or "not to be met"
        cut = text.find(stop)
        task.body["stop"] = [stop]
        task.kind = "with a stop string"
        task.wanted = (text, reason) if cut < 0 else (text[:cut], "stop")


def summary(counts: Counter[str]) -> list[str]:
    """One line for each kind of request."""
    return [f"{count:9}  {kind}" for kind, count in sorted(counts.items())]
