"""Fault 5, put back: a broadcast that doesn't wait for those who will listen.

It restates what mini-sglang did, in our words: the code differs, the behavior is the same.
"""

from __future__ import annotations

from minisgl.message import BaseBackendMsg
from minisgl.utils import ZmqPubQueue


class WaitsForNobody(ZmqPubQueue[BaseBackendMsg]):
    """What is put reaches those who have subscribed by then, and nobody else ever."""

    def wait_for_subscribers(self) -> None:
        """Return at once, whoever is there."""
