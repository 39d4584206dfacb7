"""What the server counts and measures, for Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from minisgl.message import StatsReply, UserReply

FIRST_TOKEN = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BETWEEN_TOKENS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The service's numbers. Those of the scheduler are as old as its last report."""

    def __init__(self) -> None:
        self.registry = made = CollectorRegistry()
        self.requests = Counter(
            "minisgl_requests", "Answers that ended, by how they ended", ["outcome"], registry=made
        )
        self.prompt_tokens = Counter("minisgl_prompt_tokens", "Tokens of prompts", registry=made)
        self.cached_tokens = Counter(
            "minisgl_cached_prompt_tokens", "Of these, found in the prefix cache", registry=made
        )
        self.output_tokens = Counter("minisgl_output_tokens", "Tokens of answers", registry=made)
        self.running = Gauge("minisgl_running_requests", "Requests that have begun", registry=made)
        self.waiting = Gauge("minisgl_waiting_requests", "Requests in the queue", registry=made)
        self.kv_used = Gauge(
            "minisgl_kv_used_ratio", "Share of the KV pool that requests hold", registry=made
        )
        self.kv_cached = Gauge(
            "minisgl_kv_cached_ratio", "Share of the KV pool that is cached", registry=made
        )
        self.hit_rate = Gauge(
            "minisgl_cache_hit_rate", "Share of all prompt tokens found in the cache", registry=made
        )
        self.first_token = Histogram(
            "minisgl_time_to_first_token_seconds",
            "From a request's arrival to its first token",
            buckets=FIRST_TOKEN,
            registry=made,
        )
        self.between_tokens = Histogram(
            "minisgl_inter_token_latency_seconds",
            "Between two tokens of an answer",
            buckets=BETWEEN_TOKENS,
            registry=made,
        )
        self._prompts, self._hits = 0, 0

    def timer(self) -> RequestTimer:
        """Return what measures one request, which has come now."""
        return RequestTimer(self)

    def take_stats(self, stats: StatsReply) -> None:
        """Take the scheduler's report."""
        self.running.set(stats.running)
        self.waiting.set(stats.waiting)
        total = max(stats.total_tokens, 1)
        self.kv_used.set(stats.used_tokens / total)
        self.kv_cached.set(stats.cached_tokens / total)

    def take_prompt(self, tokens: int, cached: int) -> None:
        """Count a prompt that was computed."""
        self.prompt_tokens.inc(tokens)
        self.cached_tokens.inc(cached)
        self._prompts, self._hits = self._prompts + tokens, self._hits + cached
        self.hit_rate.set(self._hits / max(self._prompts, 1))

    def text(self) -> bytes:
        """Return all numbers in Prometheus' text format."""
        return generate_latest(self.registry)


class RequestTimer:
    """When the tokens of one request come. is_waiting: none has come yet."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics, self.is_waiting, self._last = metrics, True, time.monotonic()

    def take(self, reply: UserReply) -> None:
        """Note a reply."""
        now = time.monotonic()
        metrics, since = self.metrics, now - self._last
        if self.is_waiting:
            self.is_waiting = False
            metrics.first_token.observe(since)
            metrics.take_prompt(reply.prompt_tokens, reply.cached_tokens)
        elif reply.num_tokens:  # an end id is not part of the answer
            metrics.between_tokens.observe(since)
        metrics.output_tokens.inc(reply.num_tokens)
        self._last = now

    def end(self, outcome: str) -> None:
        """Note how the request ended."""
        self.metrics.requests.labels(outcome).inc()
