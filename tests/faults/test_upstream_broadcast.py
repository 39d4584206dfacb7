"""Fault 5 on the input that shows it, beside what the broadcast does: a rank that comes late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from faults.upstream_broadcast import WaitsForNobody
from minisgl.message import AbortBackendMsg, BaseBackendMsg
from minisgl.utils import ZmqPubQueue

RANK = """\
import sys, time
from minisgl.message import BaseBackendMsg
from minisgl.utils import ZmqSubQueue

time.sleep(float(sys.argv[2]))
queue = ZmqSubQueue(sys.argv[1], False, BaseBackendMsg.decoder)
print("ready", flush=True)
while queue.socket.poll(3000):
    print(queue.get().uid, flush=True)
"""
ROOT = Path(__file__).resolve().parents[2]


def heard(base: type[ZmqPubQueue[BaseBackendMsg]], folder: Path) -> list[list[str]]:
    """What two ranks, processes of their own, hear of uids 0 to 3; the second is 2 s late.

    Uid 3 is sent once both are ready.
    """
    address = f"ipc://{folder}/broadcast"
    queue = base(address, True, BaseBackendMsg.encoder, subscribers=2)
    command = [sys.executable, "-c", RANK, address]
    ranks = [
        subprocess.Popen([*command, delay], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for delay in ("0", "2")
    ]
    lines = [rank.stdout for rank in ranks if rank.stdout is not None]
    assert lines[0].readline() == "ready\n"
    assert queue.socket.poll(5000)  # the first has subscribed
    for uid in range(3):
        queue.put(AbortBackendMsg(uid))
    assert lines[1].readline() == "ready\n"
    ZmqPubQueue.wait_for_subscribers(queue)
    queue.put(AbortBackendMsg(3))
    got = [stream.read().split() for stream in lines]  # what readline has read ahead, too
    for rank in ranks:
        rank.wait(timeout=30)
    queue.stop()
    return got


def test_5_a_late_rank_loses_messages_for_ever(tmp_path: Path) -> None:
    assert heard(WaitsForNobody, tmp_path) == [["0", "1", "2", "3"], ["3"]]


def test_5_with_a_wait_a_late_rank_gets_every_message(tmp_path: Path) -> None:
    assert heard(ZmqPubQueue, tmp_path) == [["0", "1", "2", "3"]] * 2
