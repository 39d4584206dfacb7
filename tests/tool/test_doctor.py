"""doctor: each finding, its mend, and the exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from steplib import cli, models
from steplib.checkpoints import hub
from steplib.doctor import findings, machine, software
from steplib.errors import UserError


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize(
    ("system", "processor", "said"),
    [
        ("Windows", "AMD64", "through WSL only"),
        ("Darwin", "x86_64", "macOS on x86_64 is not supported"),
        ("FreeBSD", "amd64", "FreeBSD is not supported"),
    ],
)
def test_other_systems_are_refused_in_one_sentence(system: str, processor: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        machine.refuse_unsupported(system, processor)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("system", "processor"), [("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64")]
)
def test_supported_systems_pass(system: str, processor: str) -> None:
    machine.refuse_unsupported(system, processor)


@pytest.mark.parametrize(
    ("version", "wanted", "inside"),
    [
        ("2.11.0", ">=2.11,<2.14", True),
        ("2.13.1+cpu", ">=2.11,<2.14", True),
        ("2.14.0", ">=2.11,<2.14", False),
        ("2.9.1", ">=2.11,<2.14", False),
        ("2.11", ">=2.11.0", True),
        ("5.10.0rc1", ">=5.10,<6", True),
        ("10.0", ">=9.6", True),
        ("1.0", "", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, inside: bool) -> None:
    assert software.is_within(version, wanted) is inside


def test_an_old_package_is_a_problem_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "version_of", lambda name: "2.9.0")
    found = software.package("torch>=2.11,<2.14", "pip install it")
    assert found == findings.problem(
        "torch", "2.9.0, but >=2.11,<2.14 is needed", "run `pip install it`"
    )


def test_a_missing_package_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "version_of", lambda name: None)
    assert software.package("torch>=2.11", "x").state == "problem"
    assert software.handbook(["mkdocs>=1.6"]).state == "note"
    assert software.gpu() == findings.note("GPU", "unknown without torch")


@pytest.mark.parametrize(
    ("finding", "state"),
    [
        (machine.python((3, 11, 0)), "ok"),
        (machine.python((3, 10, 9)), "problem"),
        (machine.disk(100.0), "ok"),
        (machine.disk(2.0), "note"),
        (machine.disk(0.5), "problem"),
        (machine.memory(16.0), "ok"),
        (machine.memory(4.0), "note"),
        (machine.memory(1.0), "problem"),
        (machine.threads(2, None), "ok"),
        (machine.threads(2, "2"), "ok"),
        (machine.threads(2, "16"), "note"),
        (machine.threads(2, "many"), "note"),
        (machine.bubblewrap("bubblewrap"), "ok"),
        (machine.bubblewrap("limits"), "note"),
    ],
)
def test_the_machine_is_judged(finding: findings.Finding, state: str) -> None:
    assert finding.state == state
    assert bool(finding.mend) is (state != "ok")


def test_a_folder_that_refuses_files_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.write_access((tmp_path / "new" / "folder",)).state == "ok"

    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    found = machine.write_access((tmp_path,))
    assert found.state == "problem" and found.mend == f"make {tmp_path} writable for you"


def test_the_hub_is_asked_with_a_short_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "HF_HUB_OFFLINE" in software.reach().value
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "does not answer" in software.reach().value
    monkeypatch.setattr(hub, "is_reachable", lambda: True)
    assert software.reach().state == "ok"


def test_a_damaged_checkpoint_makes_doctor_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINISGL_MODELS", str(tmp_path))
    monkeypatch.setattr(models, "cache_dir", lambda: tmp_path)
    (tmp_path / "tiny-qwen2").mkdir()
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().out
    mend = "-> run `python tools/steps.py models make tiny-qwen2`"
    assert "tiny-qwen2 is damaged: config.json is missing" in said and mend in said
    assert said.splitlines()[-1].startswith("5 problems, ")


def test_doctor_passes_where_the_checks_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    assert "no problems" in capsys.readouterr().out


def test_json_gives_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["sound"] is True
    topics = [finding["topic"] for finding in table["findings"]]
    wanted = {"system", "Python", "torch", "transformers", "disk", "memory", "threads", "GPU"}
    wanted |= {"hub", "write access", "bubblewrap", *models.names()}
    assert wanted <= set(topics)
    assert all(set(f) == {"topic", "state", "value", "mend"} for f in table["findings"])


def test_a_gpu_beside_a_cpu_build_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert "CPU build" in software.gpu().value
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert software.gpu() == findings.ok("GPU", "none (not needed)")
