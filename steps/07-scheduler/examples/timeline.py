"""Record what the scheduler and the device do, and write it for Perfetto."""

from __future__ import annotations

from collections import Counter

import torch

import book
from minisgl.core import SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import UserMsg
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.utils.trace import LANES, TraceRecorder

TEXTS = ("The capital of France is", "Water boils at", "Two plus two is")


def main() -> None:
    args = book.arguments(__doc__)
    config = SchedulerConfig(
        model_path=args.model,
        tp_info=DistributedInfo(0, 1),
        dtype=torch.float32,
        num_page_override=64,
        cache_type="naive",
        offline_mode=True,
    )
    params = SamplingParams(max_tokens=6, ignore_eos=True)
    arrivals = [
        (1 + 2 * uid, UserMsg(uid, torch.tensor(book.encode(args.model, text)).int(), params))
        for uid, text in enumerate(TEXTS)
    ]
    scheduler = book.offline(Scheduler)(config, arrivals)
    scheduler.trace = TraceRecorder(scheduler.device)
    scheduler.run()
    scheduler.trace.save("trace.json")

    spans = [event for event in scheduler.trace.events() if event["ph"] == "X"]
    lane = {number: name for name, number in LANES.items()}
    for (number, name), count in Counter((e["tid"], e["name"]) for e in spans).items():
        print(f"lane {lane[number]:9}  {name:8}  {count:2} spans")
    print("\nThe tokens of the device's first spans, by uid:")
    for span in [e for e in spans if e["tid"] == LANES["device"]][:5]:
        print(f"{span['name']:7}  {span['args']['tokens']}")


if __name__ == "__main__":
    main()
