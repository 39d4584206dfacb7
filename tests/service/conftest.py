"""Servers that all tests of this folder share, and what offline generation answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI
from reference import Reference
from running import MODELS, Running, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """A server of tiny-qwen3."""
    yield from _served("tiny-qwen3")


@pytest.fixture(scope="session")
def smollm2() -> Iterator[Running]:
    """A server of smollm2-135m."""
    yield from _served("smollm2-135m")


@pytest.fixture(scope="session")
def client(server: Running) -> Iterator[OpenAI]:
    """OpenAI's client of the server of tiny-qwen3."""
    with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def tiny() -> Iterator[Reference]:
    """What tiny-qwen3 answers without a server."""
    yield from _reference("tiny-qwen3")


@pytest.fixture(scope="session")
def small() -> Iterator[Reference]:
    """What smollm2-135m answers without a server."""
    yield from _reference("smollm2-135m")


def _served(model: str) -> Iterator[Running]:
    _need(model)
    with running_server("--num-pages", "8192", model=model) as running:
        yield running


def _reference(model: str) -> Iterator[Reference]:
    _need(model)
    reference = Reference(model)
    yield reference
    reference.close()


def _need(model: str) -> None:
    if not (MODELS / model / "config.json").is_file():
        pytest.skip(f"{model} isn't here (make models)")
