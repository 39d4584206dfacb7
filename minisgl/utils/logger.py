"""One logger format for every process of the engine."""

from __future__ import annotations

import logging
import os
import sys

from minisgl.env import ENV

COLORS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}
RESET = "\x1b[0m"


class _Formatter(logging.Formatter):
    """[time|suffix|pid] LEVEL name: message, with a colored level in a terminal."""

    def __init__(self, name: str, labels: list[str], color: bool) -> None:
        super().__init__()
        self.name, self.labels, self.color = name, labels, color

    def format(self, record: logging.LogRecord) -> str:
        head = "|".join([self.formatTime(record, "%Y-%m-%d %H:%M:%S"), *self.labels])
        level = record.levelname
        if self.color and level in COLORS:
            level = f"{COLORS[level]}{level}{RESET}"
        text = f"[{head}] {level} {self.name}: {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def init_logger(
    name: str,
    suffix: str = "",
    *,
    strip_file: bool = True,
    level: str | None = None,
    use_pid: bool | None = None,
    use_tp_rank: bool | None = None,
) -> logging.Logger:
    """Return the logger called name, which writes to stderr; a second call returns the same one.

    strip_file shows the last part of a dotted name. level defaults to MINISGL_LOG_LEVEL (INFO).
    suffix, the process id (use_pid) and the tensor-parallel rank (use_tp_rank) follow the time.
    """
    logger = logging.getLogger(f"{name}:{suffix}" if suffix else name)
    if logger.handlers:
        return logger
    labels = [suffix] if suffix else []
    if use_tp_rank:
        from minisgl.distributed.info import get_tp_info

        labels.append(f"rank {get_tp_info().rank}")
    if use_pid:
        labels.append(f"pid {os.getpid()}")
    handler = logging.StreamHandler(sys.stderr)
    shown = name.rpartition(".")[2] if strip_file else name
    handler.setFormatter(_Formatter(shown, labels, sys.stderr.isatty()))
    logger.addHandler(handler)
    logger.setLevel((level or str(ENV.LOG_LEVEL)).upper())
    logger.propagate = False
    return logger
