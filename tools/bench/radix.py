"""How long the radix cache takes to match, insert and evict, and how that grows.

    python tools/bench/radix.py [--rounds N] [--write]

The tree is made of chains of nodes of 64 tokens, 4,096 tokens a chain, below one node that they
share. The medians count; a match and an insert are timed one by one, each on another chain.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import torch  # noqa: E402

from bench import result  # noqa: E402
from minisgl.core import Context, set_global_ctx  # noqa: E402
from minisgl.kvcache.radix_cache import RadixPrefixCache  # noqa: E402

COLUMNS = ["Operation", "Tokens in the tree", "Tokens", "Nodes", "Time (us)"]
NODE, CHAIN = 64, 4096


class Timed:
    """A tree of about `tokens` tokens, and times of operations on it in microseconds."""

    def __init__(self, tokens: int, rounds: int) -> None:
        set_global_ctx(Context(page_size=1))
        self.cache, self.rounds = RadixPrefixCache(torch.device("cpu")), rounds
        self.chains = [self._chain() for _ in range(max(1, tokens // CHAIN))]
        self.slots = torch.arange(2 * CHAIN, dtype=torch.int32)
        for chain in self.chains:
            for end in range(NODE, CHAIN + 1, NODE):
                self.cache.insert_prefix(chain[:end], self.slots[:end])

    def _chain(self) -> torch.Tensor:
        """CHAIN random tokens, the first node's the same in each."""
        chain = torch.randint(1, 150_000, (CHAIN,), dtype=torch.int32)
        chain[:NODE] = 0
        return chain

    def match(self, length: int) -> float:
        """Match a prompt of that length, all of it cached."""
        return self._median(lambda prompt: self.cache.match_prefix(prompt[:length]))

    def insert(self, cached: int, length: int) -> float:
        """Insert a prompt of that length, of which the first `cached` tokens are cached."""

        def insert(prompt: torch.Tensor) -> None:
            self.cache.insert_prefix(prompt, self.slots[:length])

        def renewed(chain: torch.Tensor) -> torch.Tensor:
            fresh = torch.randint(1, 150_000, (length - cached,), dtype=torch.int32)
            return torch.cat([chain[:cached], fresh])

        return self._median(insert, renewed)

    def evict(self, nodes: int) -> float:
        """Evict that many nodes, in a tree that is not filled up again in between."""
        return self._median(lambda _: self.cache.evict(nodes * NODE))

    def _median(
        self,
        action: Callable[[torch.Tensor], object],
        prepare: Callable[[torch.Tensor], torch.Tensor] = lambda chain: chain,
    ) -> float:
        """The median over the rounds, after two that warm up; prepare isn't timed."""
        spent = []
        for turn in range(self.rounds + 2):
            prompt = prepare(self.chains[turn % len(self.chains)])
            start = time.perf_counter()
            action(prompt)
            spent.append(time.perf_counter() - start)
        return 1e6 * statistics.median(spent[2:])


def rows_of(tokens: int, rounds: int) -> list[list[result.Cell]]:
    """All operations on a tree of that size; a fresh one before the evictions."""
    tree = Timed(tokens, rounds)
    size, lengths = tree.cache.size_info.total_size, (512, 1024, 2048, CHAIN)
    rows: list[list[result.Cell]] = []
    rows += [["match", size, n, n // NODE, tree.match(n)] for n in lengths]
    rows += [["insert, last 64 new", size, n, n // NODE, tree.insert(n - NODE, n)] for n in lengths]
    rows += [["insert, all new", size, CHAIN, 1, tree.insert(0, CHAIN)]]
    tree = Timed(tokens, rounds=11)
    rows += [["evict", size, n * NODE, n, tree.evict(n)] for n in (1, 4, 16, 64)]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument(
        "--write", action="store_true", help="keep the result in tools/bench/results/"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [row for tokens in (100_000, 1_000_000) for row in rows_of(tokens, args.rounds)]
    result.show(COLUMNS, rows)
    if args.write:
        command = f"python tools/bench/radix.py --rounds {args.rounds} --write"
        print(f"written to {result.write('chapter09-radix', command, COLUMNS, rows)}")


if __name__ == "__main__":
    main()
