"""A long prompt with the settings that the server chooses by itself."""

from __future__ import annotations

import random
import time

from running import Running
from wire import Call, ask, is_idle, until

from pairs import public_bug


def _unseen(seed: int) -> list[int]:
    """A prompt that no cache knows."""
    draw = random.Random(seed)
    return [draw.randrange(1000, 40000) for _ in range(2500)]


@public_bug("B72")
def test_a_client_that_leaves_during_a_long_prompt_frees_it_soon(smollm2: Running) -> None:
    """On a CPU the prompt is several batches, and an abort ends it behind the one in flight."""
    port = int(smollm2.url.rpartition(":")[2])
    fields = {"model": "smollm2-135m", "temperature": 0, "max_tokens": 1}
    began = time.monotonic()
    ask(port, _unseen(1), **fields)
    alone = time.monotonic() - began
    call = Call(port, body={"prompt": _unseen(2), **fields})
    until(lambda: not is_idle(port), alone, "a request that runs")
    time.sleep(alone / 5)
    assert not is_idle(port)
    call.leave()
    until(lambda: is_idle(port), alone / 2, "an idle scheduler, half a prefill later")
