"""What the service tells beside answers: models, health, metrics, its own description."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families
from running import Running


@pytest.fixture(scope="module")
def web(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as web:
        yield web


def numbers(web: httpx.Client) -> dict[str, float]:
    """Return /metrics as a map from name and labels to value."""
    reply = web.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain")
    samples = [s for family in text_string_to_metric_families(reply.text) for s in family.samples]
    return {
        " ".join([sample.name, *map(str, sample.labels.values())]): sample.value
        for sample in samples
    }


def test_the_model_is_listed_and_described(client: OpenAI, web: httpx.Client) -> None:
    (card,) = client.models.list().data
    assert (card.id, card.object) == ("tiny-qwen3", "model")
    assert client.models.retrieve("tiny-qwen3").id == "tiny-qwen3"
    missing = web.get("/v1/models/other")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_the_checkpoint_s_folder_is_a_name_of_the_model_too(
    client: OpenAI, web: httpx.Client
) -> None:
    folder = web.get("/v1/models").json()["data"][0]["root"]
    assert folder.endswith("/tiny-qwen3")
    reply = client.completions.create(model=folder, prompt="hi", max_tokens=1)
    assert reply.model == folder


def test_health_and_root_are_well(web: httpx.Client) -> None:
    assert web.get("/health").json() == {"status": "ok"}
    assert web.get("/v1").json() == {"status": "ok"}


def test_metrics_move_with_the_requests(client: OpenAI, web: httpx.Client) -> None:
    before = numbers(web)
    prompt = [31, 7, 5, 3] * 20
    for _ in range(2):
        client.completions.create(
            model="tiny-qwen3", prompt=prompt, max_tokens=9, extra_body={"ignore_eos": True}
        )
    after = numbers(web)
    moved = {key: after[key] - before.get(key, 0.0) for key in after}
    assert moved["minisgl_requests_total length"] == 2
    assert moved["minisgl_prompt_tokens_total"] == 160
    assert moved["minisgl_output_tokens_total"] == 18
    assert moved["minisgl_cached_prompt_tokens_total"] == 79, "all of the second but its last"
    assert moved["minisgl_time_to_first_token_seconds_count"] == 2
    assert moved["minisgl_inter_token_latency_seconds_count"] == 16
    assert moved["minisgl_inter_token_latency_seconds_sum"] > 0
    rate = after["minisgl_cached_prompt_tokens_total"] / after["minisgl_prompt_tokens_total"]
    assert after["minisgl_cache_hit_rate"] == pytest.approx(rate)
    assert 0 < after["minisgl_kv_cached_ratio"] <= 1


def test_metrics_show_what_runs(client: OpenAI, web: httpx.Client) -> None:
    stream = client.completions.create(
        model="tiny-qwen3",
        prompt=[5] * 10,
        max_tokens=900,
        n=2,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    for i, _ in enumerate(stream):
        if i >= 100 and (during := numbers(web))["minisgl_running_requests"]:
            break
    assert during["minisgl_running_requests"] == 2
    assert 0 < during["minisgl_kv_used_ratio"] <= 1
    stream.close()


def test_the_same_prompt_twice_is_cached(client: OpenAI) -> None:
    prompt = [11, 12, 13, 14] * 12
    found = []
    for _ in range(2):
        usage = client.completions.create(model="tiny-qwen3", prompt=prompt, max_tokens=2).usage
        assert usage and usage.prompt_tokens_details
        found.append(usage.prompt_tokens_details.cached_tokens)
    assert found == [0, 47]


def test_the_openapi_document_and_its_page(web: httpx.Client) -> None:
    page = web.get("/docs")
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    paths = web.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        "/generate",
        "/health",
        "/metrics",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/v1/models/{model}",
    }
    chat = json.dumps(web.get("/openapi.json").json()["components"]["schemas"])
    for field in ("top_k", "ignore_eos", "presence_penalty", "max_completion_tokens"):
        assert f'"{field}"' in chat


def test_generate_streams_plain_text(client: OpenAI, web: httpx.Client) -> None:
    given = {"prompt": "The sea", "max_tokens": 12}
    with web.stream("POST", "/generate", json=given) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        blocks = "".join(reply.iter_text()).split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    pieces = [
        "\n".join(line.removeprefix("data: ") for line in block.split("\n"))
        for block in blocks[:-2]
    ]
    whole = client.completions.create(
        model="tiny-qwen3", prompt="The sea", max_tokens=12, temperature=0
    )
    assert "".join(pieces) == whole.choices[0].text
