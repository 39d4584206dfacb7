"""How requests reach the scheduler and results leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minisgl.message import BaseBackendMsg, DetokenizeMsg

    from .config import SchedulerConfig


class SchedulerIOMixin:
    """The scheduler's way to the outside: in one process, hooks that a subclass fills."""

    def __init__(self, config: SchedulerConfig) -> None:
        assert config.offline_mode, "only offline mode works so far: LLM, or a subclass's own hooks"

    def run_when_idle(self) -> None:
        """Called before waiting for a message with nothing else to do."""
        raise NotImplementedError("a scheduler says what it does when it is idle")

    def offline_receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        """Return what came in; with blocking there is no other work, so there is time to wait."""
        raise NotImplementedError("a subclass says where messages come from")

    def offline_send_result(self, reply: list[DetokenizeMsg]) -> None:
        """Take the tokens of one step."""
        raise NotImplementedError("a subclass says where results go")

    def receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        """Return the messages that have come in."""
        if blocking:
            self.run_when_idle()
        return self.offline_receive_msg(blocking)

    def send_result(self, reply: list[DetokenizeMsg]) -> None:
        """Send the tokens of one step."""
        self.offline_send_result(reply)
