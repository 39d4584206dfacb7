"""Two schedulers as processes of their own, with a group of ranks between them."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch.distributed as dist

FAKES = Path(__file__).resolve().parents[1] / "fakes"
sys.path.insert(0, str(FAKES))

from stub_engine import answer, stub_scheduler, user  # noqa: E402
from stub_online import outside  # noqa: E402

REQUESTS = {uid: ([uid + 1, 7, uid], 3 + uid % 4) for uid in range(12)}


def rank_process(folder: str, rank: int, end: Connection) -> None:
    """Join the group, come to the barrier, serve until an ExitMsg, and tell what was done."""
    from minisgl.scheduler.scheduler import SchedulerExit

    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    scheduler = stub_scheduler(
        True, socket_folder=folder, rank=rank, size=2, tp_cpu_group=dist.group.WORLD
    )
    scheduler.sync_all_ranks()
    end.send("together")
    try:
        scheduler.run_forever()
    except SchedulerExit:
        scheduler.sync_all_ranks()
        end.send([scheduler.replies, scheduler.batches])
    scheduler.shutdown()
    dist.destroy_process_group()


def test_two_processes_do_the_same_work_and_leave_together() -> None:
    from minisgl.message import ExitMsg

    spawn = multiprocessing.get_context("spawn")
    with outside() as o:
        ends, processes = [], []
        for rank in (0, 1):
            ours, theirs = spawn.Pipe()
            process: Any = spawn.Process(target=rank_process, args=(o.folder, rank, theirs))
            process.start()
            ends.append(ours)
            processes.append(process)
            if rank == 0:
                assert not ours.poll(1.0), "rank 0 came through the barrier alone"
        assert [end.recv() for end in ends if end.poll(60)] == ["together"] * 2
        for uid, (prompt, max_tokens) in REQUESTS.items():
            o.send(user(uid, prompt, max_tokens))
        heard: dict[int, list[int]] = {uid: [] for uid in REQUESTS}
        left = len(REQUESTS)
        while left:
            for msg in (msg for msg in o.frame() if hasattr(msg, "uid")):
                heard[msg.uid].append(msg.next_token)
                left -= msg.finished
        o.send(ExitMsg())
        first, second = (end.recv() for end in ends if end.poll(30))
        for process in processes:
            process.join(30)
    assert [process.exitcode for process in processes] == [0, 0]
    assert first == second
    assert heard == {uid: answer(*request) for uid, request in REQUESTS.items()}
