"""Sends random traffic to a real server, and looks whether anything is lost, doubled or kept.

python tests/soak/serve.py                  10,000 requests to tiny-qwen3
python tests/soak/serve.py --requests 500 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "service")]

import psutil  # noqa: E402
from ending import Ending, ending_server, pids  # noqa: E402
from wire import is_idle, metrics, until  # noqa: E402

from soak.served import LENGTHS, Answers, Tasks, greedy, known_prompts, summary  # noqa: E402
from soak.wire import Wrong, ask  # noqa: E402

CONCURRENCY = 64
WARM_UP = 5_000
"""Requests by which the pool has been filled once; memory of shorter runs says nothing."""
PATH = "/v1/completions"
MIB = 1 << 20


async def reference(port: int, prompts: list[list[int]]) -> Answers:
    """Ask for each prompt's greedy answers, one request after the other."""
    table: Answers = []
    for prompt in prompts:
        table.append({})
        for tokens in LENGTHS:
            reply = await ask(port, PATH, json.dumps(greedy(prompt, tokens)).encode())
            assert reply is not None and reply.status == 200, reply
            table[-1][tokens] = reply.texts[0], reply.finishes[0][0]
    return table


class Soak:
    """Traffic to one server. counts: requests by kind; wrong: what was not as it must be."""

    def __init__(self, server: Ending, tasks: Tasks, count: int) -> None:
        self.server, self.tasks, self.count = server, tasks, count
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.sent = 0
        self.memory: list[dict[str, int]] = []

    async def run(self) -> None:
        """Send all requests, as many at once as CONCURRENCY says."""
        await asyncio.gather(*(self._client() for _ in range(CONCURRENCY)))

    async def _client(self) -> None:
        while self.sent < self.count:
            if self.sent % max(1, self.count // 40) == 0:
                self.memory.append(self._memory())
                sizes = ", ".join(f"{name} {size >> 20}" for name, size in self.memory[-1].items())
                print(f"{self.sent} requests; MiB: {sizes}", file=sys.stderr, flush=True)
            self.sent += 1
            task = self.tasks.draw()
            try:
                async with asyncio.timeout(120):
                    reply = await ask(self.server.port, PATH, task.data(), task.leave_after)
                if reply is not None:
                    task.check(reply)
            except (Wrong, OSError, ValueError, KeyError, TimeoutError) as error:
                self.wrong.append(f"{task.kind}: {type(error).__name__}: {error}")
            self.counts[task.kind] += 1

    def _memory(self) -> dict[str, int]:
        """Resident bytes of each process of the server."""
        named = {"server": self.server.process.pid} | pids(self.server.log)
        return {name: psutil.Process(pid).memory_info().rss for name, pid in named.items()}

    def growth(self) -> dict[str, tuple[int, int]]:
        """For each process its bytes in the middle, and how many it has more at the end."""
        self.memory.append(self._memory())
        half = len(self.memory) // 2
        found = {}
        for name in self.memory[0]:
            sizes = [sample[name] for sample in self.memory]
            middle = max(sizes[half // 2 : half + 1])
            found[name] = middle, max(sizes[half:]) - middle
        return found


def judge(soak: Soak) -> Iterator[str]:
    """Yield what is wrong, in sentences."""
    yield from soak.wrong[:20]
    if len(soak.wrong) > 20:
        yield f"and {len(soak.wrong) - 20} more"
    if soak.counts.total() != soak.count:
        yield f"{soak.counts.total()} requests of {soak.count} came to an end"
    for name, (middle, more) in soak.growth().items():
        if soak.count >= 2 * WARM_UP and more > max(10 * MIB, middle // 20):
            yield f"the {name} has grown by {more / MIB:.1f} MiB in the second half"
    try:
        until(lambda: is_idle(soak.server.port), 5, "an idle scheduler")
    except AssertionError as error:
        yield str(error)


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description="Random traffic for the service.")
    parser.add_argument("--requests", type=int, default=10_000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other traffic")
    args = parser.parse_args()
    prompts = known_prompts(args.seed)
    with ending_server("--num-tokenizer", "1", "--num-pages", "4096") as server:
        with timed("reference answers, one at a time"):
            answers = asyncio.run(reference(server.port, prompts))
        soak = Soak(server, Tasks(args.seed, prompts, answers), args.requests)
        with timed(f"{args.requests} requests, {CONCURRENCY} at once, seed {args.seed}"):
            asyncio.run(soak.run())
        faults = list(judge(soak))
        print("\n".join(summary(soak.counts)))
        for name, (middle, more) in soak.growth().items():
            print(f"{middle / MIB:9.1f} MiB: the {name}, {more / MIB:+.1f} in the second half")
        numbers = metrics(server.port)
        for name in ("prompt_tokens_total", "output_tokens_total", "cache_hit_rate"):
            print(f"{numbers[name]:9g}  {name}")
        server.process.terminate()
        status, log = server.end(within=8), server.log
    if status or " ERROR " in log:
        faults.append(f"the server ended with status {status}, and said:\n{log}")
    for fault in faults:
        print(f"wrong: {fault}", file=sys.stderr)
    print("nothing lost, nothing doubled, nothing kept" if not faults else f"{len(faults)} faults")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
