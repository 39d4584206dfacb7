"""The requests that generate: prompt computed, one token a step from here on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from minisgl.core import Batch, Req
from minisgl.utils import align_ceil


@dataclass
class DecodeManager:
    """The running requests; one leaves at an end id, by an abort, or with its last launch."""

    page_size: int
    running_reqs: set[Req] = field(default_factory=set)

    def filter_reqs(self, reqs: Iterable[Req]) -> None:
        """Take up the requests of a batch that was launched; keep those that need another step."""
        self.running_reqs |= set(reqs)
        self.running_reqs -= {req for req in self.running_reqs if not req.can_decode}

    def remove_req(self, req: Req) -> None:
        """Let req go, if it is still here."""
        self.running_reqs.discard(req)

    def abort_req(self, uid: int) -> Req | None:
        """Let request uid go and return it; None when it isn't here."""
        found = next((req for req in self.running_reqs if req.uid == uid), None)
        if found is not None:
            self.remove_req(found)
        return found

    @property
    def inflight_tokens(self) -> int:
        """Tokens of the pages that the running requests may still take, whole pages counted."""
        size = self.page_size
        return sum(
            align_ceil(req.max_device_len, size) - align_ceil(req.cached_len, size)
            for req in self.running_reqs
        )

    def schedule_next_batch(self) -> Batch | None:
        """Return a batch of all running requests, by uid, so that each rank has the same rows."""
        if not self.running_reqs:
            return None
        return Batch(sorted(self.running_reqs, key=lambda req: req.uid), phase="decode")

    @property
    def runnable(self) -> bool:
        """Whether there is anything to decode."""
        return bool(self.running_reqs)
