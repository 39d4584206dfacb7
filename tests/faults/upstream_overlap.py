"""Four faults of overlap scheduling, put back one by one on top of the scheduler.

They restate what mini-sglang did, in our words: the code differs, the behavior is the same. Each
class overrides what its fault needs and nothing else.
"""

from __future__ import annotations

from minisgl.core import Req
from minisgl.message import AbortBackendMsg, BaseBackendMsg, DetokenizeMsg
from minisgl.scheduler import Scheduler
from minisgl.scheduler.prefill import ChunkedReq


class JudgesTheLengthInFlight(Scheduler):
    """Fault 1: whether a token is the last is read off device_len.

    When batch k is read, batch k+1 has been launched and has advanced device_len already.
    """

    def _take_token(
        self, req: Req, token: int, is_prefill: bool, reply: list[DetokenizeMsg]
    ) -> None:
        if isinstance(req, ChunkedReq):
            return
        req.append_host(token)
        finished = token in self.eos_token_ids or not req.can_decode
        reply.append(DetokenizeMsg(req.uid, token, finished))
        if finished:
            self.decode_manager.remove_req(req)
            self.finished_reqs.add(req)


class ForgetsWhoHasEnded(Scheduler):
    """Fault 2: a batch's tokens are sent whether or not their request has ended meanwhile."""

    def _take_token(
        self, req: Req, token: int, is_prefill: bool, reply: list[DetokenizeMsg]
    ) -> None:
        if req in self.finished_reqs and not isinstance(req, ChunkedReq):
            reply.append(DetokenizeMsg(req.uid, token, False))
        super()._take_token(req, token, is_prefill, reply)


class GivesRowsAwayInFlight(Scheduler):
    """Fault 3: the row of a request is free when it ends, whatever the device still does there."""

    def _free_ended(self) -> None:
        in_flight = {req for batch in self.in_flight for req in batch.reqs}
        for req in sorted(self.finished_reqs, key=lambda req: req.uid):
            self._free_req_resources(req)
        self.finished_reqs &= in_flight  # what these still sample must not be sent

    def _free_req_resources(self, req: Req) -> None:
        if not getattr(req, "has_gone", False):
            super()._free_req_resources(req)
            req.has_gone = True  # type: ignore[attr-defined]


class FreesAtAbortToo(Scheduler):
    """Fault 4: an abort frees at once what the result of the batch in flight will free again."""

    def _process_one_msg(self, msg: BaseBackendMsg) -> None:
        super()._process_one_msg(msg)
        if isinstance(msg, AbortBackendMsg):
            for req in self.finished_reqs:
                self.cache_manager.cache_req(req, finished=True)
