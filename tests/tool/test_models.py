"""Checkpoints as the tool sees them: absent, whole, or damaged, each in one sentence."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steplib import cli, models
from steplib.checkpoints import making, tiny
from steplib.checkpoints.liveliness import Liveliness
from steplib.commands import models as command
from steplib.errors import UserError
from steplib.paths import ROOT

NAME = "tiny-mistral"  # the smallest
MEND = f"run `python tools/steps.py models make {NAME}`"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the checkpoint would lie, in a models folder of this test."""
    monkeypatch.setenv("MINISGL_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(models, "cache_dir", lambda: tmp_path)
    return models.folder(NAME)


@pytest.fixture
def made(place: Path) -> Path:
    """A whole checkpoint, copied from the repository's."""
    shutil.copytree(ROOT / "models" / NAME, place)
    return place


def test_names_are_those_of_the_plan() -> None:
    tiny_ones = ["tiny-qwen2", "tiny-qwen3", "tiny-llama3", "tiny-mistral", "tiny-qwen3-moe"]
    assert models.names() == [*tiny_ones, "smollm2-135m", "qwen3-0.6b"]


def test_a_wrong_name_gets_the_nearest_one() -> None:
    with pytest.raises(UserError, match='there is no checkpoint "tiny-qwen4". Did you mean "tiny-'):
        models.folder("tiny-qwen4")


def test_a_whole_checkpoint_passes(made: Path) -> None:
    assert models.present(NAME)
    assert models.problem(NAME) is None
    assert models.ensure(NAME) == made
    assert models.sha256(NAME) == models.checkpoint(NAME).sha256


def test_an_absent_checkpoint_is_named_with_the_mend(place: Path) -> None:
    assert not models.present(NAME)
    with pytest.raises(UserError) as caught:
        models.ensure(NAME)
    assert str(caught.value) == f"the checkpoint {NAME} is not here; {MEND}."


def _trouble_after(damage: str, place: Path) -> str:
    first, second = sorted(place.glob("*.safetensors"))
    index = place / "model.safetensors.index.json"
    if damage == "cut":
        os.truncate(second, second.stat().st_size - 100)
    elif damage == "empty":
        first.write_bytes(b"")
    elif damage == "noise":
        first.write_bytes(b"\xff" * 200)
    elif damage == "shard":
        second.unlink()
    elif damage == "index":
        index.unlink()
    elif damage == "entry":
        table = json.loads(index.read_bytes())
        del table["weight_map"]["model.norm.weight"]
        index.write_text(json.dumps(table))
    elif damage == "unreadable index":
        index.write_text('{"weight_map": {"model.no')
    elif damage == "digest":
        raw = bytearray(first.read_bytes())
        raw[-1] ^= 1
        first.write_bytes(raw)
    else:
        (place / damage).unlink()
    return models.problem(NAME) or ""


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("cut", "model-00002-of-00002.safetensors has "),
        ("empty", "model-00001-of-00002.safetensors has no readable header"),
        ("noise", "model-00001-of-00002.safetensors has no readable header"),
        ("shard", "model.safetensors.index.json names "),
        ("index", "model.safetensors.index.json is missing"),
        ("entry", "model.safetensors.index.json does not name model.norm.weight"),
        ("unreadable index", "model.safetensors.index.json can't be read"),
        ("digest", "its content is not what checkpoints.toml promises"),
        ("config.json", "config.json is missing"),
        ("tokenizer.json", "tokenizer.json is missing"),
    ],
)
def test_damage_is_named_with_the_mend(damage: str, said: str, made: Path) -> None:
    trouble = _trouble_after(damage, made)
    assert f"{NAME} is damaged: {said}" in trouble
    assert trouble.endswith(f"; {MEND}.")
    assert "\n" not in trouble
    with pytest.raises(UserError):
        models.ensure(NAME)
    with pytest.raises(UserError):
        models.sha256(NAME)


def test_damage_after_a_good_look_is_seen(made: Path) -> None:
    assert models.problem(NAME) is None
    assert _trouble_after("digest", made)


def test_make_mends_damage(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "steplib.checkpoints.liveliness.measure", lambda folder: Liveliness(40, 1.0)
    )
    assert _trouble_after("cut", made)
    assert "made" in (making.provide(NAME) or "")
    assert models.problem(NAME) is None
    assert making.provide(NAME) is None, "a whole checkpoint is not made again"


def test_a_recipe_that_gives_other_bytes_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny, "VOCABULARY", 1_033)
    with pytest.raises(UserError, match="came out with the digest"):
        making.provide(NAME)
    assert list(place.parent.iterdir()) == []


def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tiny, "write_shards", full)
    assert cli.main(["models", "make", NAME]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: the disk is full (")
    assert said.endswith("make room and run this again.\n") and said.count("\n") == 1
    assert list(place.parent.iterdir()) == []


def test_ctrl_c_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tiny, "write_shards", interrupted)
    with pytest.raises(KeyboardInterrupt):
        making.provide(NAME)
    assert list(place.parent.iterdir()) == []


def test_a_killed_make_leaves_no_checkpoint_and_the_next_one_succeeds(place: Path) -> None:
    environment = {**os.environ, "MINISGL_MODELS": str(place.parent)}
    line = [sys.executable, str(ROOT / "tools" / "steps.py"), "models", "make", NAME]
    child = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL)
    partial = place.parent / f".partial-{NAME}"
    deadline = time.monotonic() + 60
    while not (partial / "config.json").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert partial.exists() and not place.exists()
    subprocess.run(line, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert models.problem(NAME) is None
    assert [entry.name for entry in place.parent.iterdir()] == [NAME]


def test_list_shows_present_damaged_and_absent(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = argparse.Namespace(action="list", name=None)
    assert command.run(ROOT, arguments) == 0
    table = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " present " in table[NAME] and " absent " in table["smollm2-135m"]
    _trouble_after("cut", made)
    assert command.run(ROOT, arguments) == 1
    said = capsys.readouterr().out
    assert " damaged " in said and MEND in said


@pytest.mark.parametrize(("verb", "name"), [("fetch", NAME), ("make", "smollm2-135m")])
def test_the_wrong_verb_is_refused(
    verb: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["models", verb, name]) == 2
    assert f"run `{models.checkpoint(name).mend}`" in capsys.readouterr().err
