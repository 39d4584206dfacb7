"""Chapter 00: the smallest engine that generates, checks its own answer and knows its speed."""

from __future__ import annotations

from typing import Any

import book
from minimal_engine import MinimalEngine, check, seconds

PROMPT = "The capital of France is"
LENGTHS = (16, 32, 64)
LACKS = (
    ("one request at a time", "07 scheduler"),
    ("K and V grow by copying", "04 kv-pool"),
    ("every model family in one function", "03 model-and-weights"),
    ("attention spelled out in PyTorch", "05 attention-backend, 17 gpu-attention"),
    ("greedy only", "06 engine-and-sampling"),
    ("two prompts with one beginning compute it twice", "09 radix-cache"),
    ("the device waits while Python thinks", "11 overlap-scheduling"),
    ("nobody can call it over a network", "15 api-server"),
    ("one device", "16 tensor-parallelism"),
)


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Continue each prompt by max_tokens tokens, one prompt after the other."""
    use_cache = book.config(config, use_cache=True).use_cache
    engine = MinimalEngine(model_path)
    rows = [list(engine.generate(prompt, max_tokens, use_cache)) for prompt in prompts]
    top2 = [[book.top2(logits) for logits in row] for row in rows]
    tokens = [[best[0] for best, _ in row] for row in top2]
    return book.Generation(tokens, top2, {"tokens": sum(map(len, tokens))})


def main() -> None:
    args = book.arguments(__doc__)
    prompt = book.encode(args.model, PROMPT)
    result = generate(args.model, [prompt], args.max_tokens)
    print(f"prompt      {PROMPT}")
    print(f"generated   {book.decode(args.model, result.token_ids[0])!r}")
    without = generate(args.model, [prompt], args.max_tokens, use_cache=False)
    print(f"same tokens without the cache:  {without.token_ids == result.token_ids}")
    print(f"same tokens from transformers:  {check(args.model, prompt, result.token_ids[0])}\n")

    print("prompt and output   with cache   without cache   ratio")
    engine = MinimalEngine(args.model)
    for length in LENGTHS:
        ids, new = (prompt * length)[: length // 2], length // 2
        fast, slow = (new / seconds(engine, ids, new, cache) for cache in (True, False))
        print(
            f"{len(ids):5} + {new:<5} tokens {fast:7.1f} tok/s"
            f" {slow:9.1f} tok/s {fast / slow:9.1f}x"
        )

    print("\nwhat it lacks                                      chapter that adds it")
    for what, chapter in LACKS:
        print(f"{what:50} {chapter}")
    book.report(result)


if __name__ == "__main__":
    main()
