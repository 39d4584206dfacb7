"""What serving costs: a server beside LLM.generate, on the same 64 requests.

    python tools/bench/serve.py [--model NAME] [--threads N] [--rounds N] [--write]

Both run on the same cores, in turns, with the same settings; medians of the rounds count. The
server streams every token to a raw client, which shares the cores too. Prompts are other ones in
each round. TTFT and inter-token latency are those of all requests at once, so they tell how a full
server feels.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from bench import result  # noqa: E402
from bench.raw_client import Stream  # noqa: E402
from bench.serve_sides import LLMSide, ServerSide, draw_tasks, use_threads  # noqa: E402
from minisgl.benchmark.report import Spread  # noqa: E402

COLUMNS = ["what", "measured", "target"]
LATENCY_COLUMNS = ["latency (ms)", "mean", "p50", "p95", "p99", "max"]
WARM_UP = 4
"""Requests of a round that isn't counted: the first calls of a process are slower."""


def latency_rows(streams: list[Stream]) -> list[list[result.Cell]]:
    """TTFT and inter-token latency of the streams, in milliseconds."""
    times = [(stream.sent, stream.token_times()) for stream in streams]
    firsts = [came[0] - sent for sent, came in times]
    gaps = [b - a for _, came in times for a, b in zip(came, came[1:], strict=False)]
    rows: list[list[result.Cell]] = []
    for name, values in (("TTFT", firsts), ("inter-token", gaps)):
        spread = Spread.of(values)
        assert spread is not None, "no token came"
        rows.append([name, *(1000 * getattr(spread, column) for column in LATENCY_COLUMNS[1:])])
    return rows


def measure(
    llm: LLMSide, server: ServerSide, rounds: int
) -> tuple[list[list[result.Cell]], list[list[result.Cell]]]:
    """The rows of both tables."""
    ours: list[float] = []
    served: list[float] = []
    costs: list[float] = []
    streams: list[Stream] = []
    warm_up = draw_tasks(llm.vocab_size, rounds)[:WARM_UP]
    llm.run(warm_up)
    server.run(warm_up)
    for turn in range(rounds):
        tasks = draw_tasks(llm.vocab_size, turn)
        ours.append(llm.run(tasks))
        before = server.cpu_seconds()
        seconds, answers = server.run(tasks)
        served.append(seconds)
        costs.append(1e6 * (server.cpu_seconds() - before) / sum(task.tokens for task in tasks))
        streams += answers
        print(
            f"round {turn + 1}: LLM.generate {ours[-1]:.2f} s, server {seconds:.2f} s", flush=True
        )
    # round by round: the two of a round ran one after the other, on a machine as busy
    ratio = statistics.median(b / a for a, b in zip(ours, served, strict=True))
    rows: list[list[result.Cell]] = [
        ["LLM.generate (s)", statistics.median(ours), ""],
        ["server (s)", statistics.median(served), ""],
        ["server / LLM.generate, median of rounds", ratio, "1.15"],
        ["CPU of the API process for a token (us)", statistics.median(costs), "200"],
        ["server's start (s)", server.start_seconds, "20"],
    ]
    return rows, latency_rows(streams)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--write", action="store_true", help="keep the results in tools/bench/results/"
    )
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind
    use_threads(args.threads)
    os.environ["PYTHONPATH"] = str(ROOT)
    folder = str(ROOT / "models" / args.model)
    with closing(ServerSide(folder)) as server, closing(LLMSide(folder)) as llm:
        rows, latencies = measure(llm, server, args.rounds)
    result.show(COLUMNS, rows)
    result.show(LATENCY_COLUMNS, latencies)
    if args.write:
        options = f"--threads {args.threads} --rounds {args.rounds}"
        command = f"python tools/bench/serve.py {options} --write"
        print(f"written to {result.write('serve', command, COLUMNS, rows)}")
        print(f"written to {result.write('serve-latency', command, LATENCY_COLUMNS, latencies)}")


if __name__ == "__main__":
    main()
