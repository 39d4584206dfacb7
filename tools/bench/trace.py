"""Records what scheduler and device do when, as Chrome traces from which figures are drawn.

    python tools/bench/trace.py continuous|chunks [--model NAME] [--write]
    python tools/bench/trace.py request [--model NAME] [--write]
    python tools/bench/trace.py overlap [--steps N] [--layers N] [--hidden N] [...] [--write]

continuous and chunks are the scenes that chapters 07 and 10 print. request serves a model and
follows one chat through the client, the processes and the device. overlap runs LLM.generate without
and with overlap scheduling on random weights, so that it needs no checkpoint; at its default sizes
one step takes an NVIDIA GPU longer than its launch. On a CPU a launch returns when the work is
done, so nothing overlaps; with small sizes, such as --hidden 64 --intermediate 128 --vocab 500, the
command can be tried there.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "steps"), str(ROOT / "tools")]

import torch  # noqa: E402

import book  # type: ignore[import-not-found]  # noqa: E402
from bench import request_trace, trace_file  # noqa: E402
from bench.random_model import add_sizes, size_options, write_model  # noqa: E402
from bench.turns import medians  # noqa: E402
from minisgl.core import SamplingParams  # noqa: E402
from minisgl.distributed.info import DistributedInfo  # noqa: E402
from minisgl.env import ENV  # noqa: E402
from minisgl.llm import LLM  # noqa: E402
from minisgl.message import UserMsg  # noqa: E402
from minisgl.scheduler import Scheduler, SchedulerConfig  # noqa: E402
from minisgl.utils import div_ceil  # noqa: E402
from minisgl.utils.device import default_device, synchronize  # noqa: E402
from minisgl.utils.trace import TraceRecorder  # noqa: E402

REQUESTS, PROMPT, PAGE, ROUNDS = 8, 32, 16, 5
Arrival = tuple[str, int, int]
"""A prompt, the step at which it comes in, and how many tokens it wants."""


class Traced(book.offline(Scheduler)):  # type: ignore[misc]
    """A scheduler that is fed from a list and whose trace also says when requests come in."""

    def offline_receive_msg(self, blocking: bool = False) -> list[Any]:
        msgs: list[Any] = super().offline_receive_msg(blocking)
        if msgs and self.trace is not None:
            with self.trace.scheduler("receive", uids=[msg.uid for msg in msgs]):
                pass
        return msgs


def scene_of(name: str) -> tuple[dict[str, Any], list[Arrival]]:
    """The settings and the arrivals of a scene, as the chapter's main has them."""
    if name == "continuous":
        main = runpy.run_path(str(ROOT / "steps" / "07-scheduler" / "main.py"))
        settings = {"page_size": 4, "max_running_req": 3, "num_page_override": 12}
        return settings, [(text, *rest) for text, rest in main["ARRIVALS"].items()]
    main = runpy.run_path(str(ROOT / "steps" / "10-chunked-prefill" / "main.py"))
    settings = {"page_size": 1, "max_running_req": 4, "max_extend_tokens": 10}
    settings["num_page_override"] = 4096  # so that two schedulers fit on one device
    return settings, [(main["SHORT"], 1, 9), (main["LONG"], 3, 6)]


def record_scene(args: argparse.Namespace) -> None:
    """Run a scene twice, the first time to warm up, and keep the trace of the second."""
    folder = str(ROOT / "models" / args.model)
    settings, arrivals = scene_of(args.scene)
    config = SchedulerConfig(
        model_path=folder,
        tp_info=DistributedInfo(0, 1),
        dtype=torch.float32,
        cache_type="naive",
        offline_mode=True,
        **settings,
    )
    messages = [
        (step, UserMsg(uid, torch.tensor(book.encode(folder, text)).int(), params))
        for uid, (text, step, tokens) in enumerate(arrivals)
        for params in [SamplingParams(max_tokens=tokens, ignore_eos=True)]
    ]
    ENV.DISABLE_OVERLAP_SCHEDULING.value = True  # chapter 11 adds it, these are 07 and 10
    Traced(config, messages).run()
    scheduler = Traced(config, messages)
    scheduler.trace = trace = TraceRecorder(scheduler.device)
    scheduler.run()
    events, device = trace.events(), scheduler.device
    print(f"{args.scene} on {trace_file.hardware(device)}:\n{trace_file.summary(events)}")
    if args.write:
        command = f"python tools/bench/trace.py {args.scene} --model {args.model} --write"
        written = trace_file.write(args.scene, command, events, device)
        print(f"written to {written}")


def record_request(args: argparse.Namespace) -> None:
    """Serve a model, warm it up and keep the trace of one chat."""
    events = request_trace.record(str(ROOT / "models" / args.model), args.threads)
    device = default_device()
    print(f"one chat on {trace_file.hardware(device)}:\n{trace_file.summary(events)}")
    if args.write:
        options = f"--model {args.model} --threads {args.threads}"
        command = f"python tools/bench/trace.py request {options} --write"
        print(f"written to {trace_file.write('request', command, events, device)}")


def record_overlap(args: argparse.Namespace) -> None:
    """Time LLM.generate without and with overlap, then record both."""
    with tempfile.TemporaryDirectory() as folder:
        llm = LLM(
            write_model(Path(folder), args),
            max_running_req=REQUESTS,
            page_size=PAGE,
            num_page_override=REQUESTS * div_ceil(PROMPT + max(args.tokens, args.steps + 1), PAGE),
            cache_type="naive",
            use_dummy_weight=True,
        )
        generator = torch.Generator().manual_seed(0)
        prompts = torch.randint(1, args.vocab, (REQUESTS, PROMPT), generator=generator).tolist()
        speeds = _tokens_per_second(llm, prompts, args.tokens)
        options = f"--steps {args.steps} --tokens {args.tokens} {size_options(args)}"
        command = f"python tools/bench/trace.py overlap {options} --write"
        for mode, speed in speeds.items():
            llm.trace = trace = TraceRecorder(llm.device)
            _generate(llm, prompts, args.steps + 1, mode)
            print(f"overlap {mode}: {speed:.1f} tokens/s\n{trace_file.summary(trace.events())}")
            if args.write:
                facts = {"requests": REQUESTS, "tokens_per_second": round(speed, 1)}
                name = f"overlap-{mode}"
                written = trace_file.write(name, command, trace.events(), llm.device, **facts)
                print(f"  written to {written}")
    ratio = speeds["on"] / speeds["off"]
    print(f"overlap on is {ratio:.3f} x off, on {trace_file.hardware(llm.device)}")


def _tokens_per_second(llm: LLM, prompts: list[list[int]], tokens: int) -> dict[str, float]:
    """The speed without and with overlap, in turns, medians; prompts included."""
    ways = {mode: partial(_generate, llm, prompts, tokens, mode) for mode in ("off", "on")}
    seconds = medians(list(ways.values()), ROUNDS)
    return {mode: REQUESTS * tokens / spent for mode, spent in zip(ways, seconds, strict=True)}


def _generate(llm: LLM, prompts: list[list[int]], tokens: int, mode: str) -> None:
    ENV.DISABLE_OVERLAP_SCHEDULING.value = mode == "off"
    llm.generate(prompts, SamplingParams(max_tokens=tokens, ignore_eos=True), use_tqdm=False)
    synchronize(llm.device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    scenes = parser.add_subparsers(dest="scene", required=True)
    for name, text in (("continuous", "chapter 07's scene"), ("chunks", "chapter 10's scene")):
        scene = scenes.add_parser(name, help=text)
        scene.add_argument("--model", default="smollm2-135m")
        scene.set_defaults(record=record_scene)
    request = scenes.add_parser("request", help="one chat on its way through a server")
    request.add_argument("--model", default="smollm2-135m")
    request.set_defaults(record=record_request)
    overlap = scenes.add_parser("overlap", help="LLM.generate without and with overlap")
    overlap.add_argument("--steps", type=int, default=12, help="decode steps to record (12)")
    overlap.add_argument("--tokens", type=int, default=128, help="tokens of the timed runs (128)")
    add_sizes(overlap)
    overlap.set_defaults(record=record_overlap)
    for scene in scenes.choices.values():
        scene.add_argument("--threads", type=int, default=torch.get_num_threads())
        scene.add_argument("--write", action="store_true", help=f"keep it in {trace_file.TRACES}")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.record(args)


if __name__ == "__main__":
    main()
