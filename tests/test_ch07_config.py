"""Chapter 07: which ids end an answer, and what the scheduler's settings are at first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pairs import checkpoint, equal, error_of, public_bug, refused

ABSENT = "absent"
CASES: tuple[tuple[Any, Any, list[int]], ...] = (
    (1030, [1030, 1028], [1028, 1030]),
    (1030, 6, [6, 1030]),
    (1030, [2, 6], [2, 6, 1030]),
    (1030, None, [1030]),
    (1030, ABSENT, [1030]),
    ([7, 8], ABSENT, [7, 8, 1030]),
    ([7, 8], [8, 9], [7, 8, 9, 1030]),
    (None, 0, [0, 1030]),
    (ABSENT, "no file", [1030]),
)
"""eos_token_id in config.json and in generation_config.json, and all ids that end an answer."""


def folder(base: Path, config_eos: Any, generation_eos: Any) -> str:
    """A checkpoint without weights whose tokenizer's end id is 1030."""
    base.mkdir()
    source = Path(checkpoint("tiny-qwen3"))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, base / name)
    for name, eos in (("config.json", config_eos), ("generation_config.json", generation_eos)):
        settings = json.loads((source / name).read_text(encoding="utf-8"))
        settings["eos_token_id"] = eos
        if eos == ABSENT:
            del settings["eos_token_id"]
        if eos != "no file":
            (base / name).write_text(json.dumps(settings), encoding="utf-8")
    return str(base)


def scheduler_config(model_path: str, **settings: Any) -> Any:
    import torch

    from minisgl.distributed.info import DistributedInfo
    from minisgl.scheduler import SchedulerConfig

    rank = DistributedInfo(0, 1)
    return SchedulerConfig(model_path=model_path, tp_info=rank, dtype=torch.float32, **settings)


@public_bug("B82")
def probe_every_end_id_of_the_checkpoint_counts(seed):
    found = []
    with TemporaryDirectory() as made:
        for i, (config_eos, generation_eos, _) in enumerate(CASES):
            path = folder(Path(made) / str(i), config_eos, generation_eos)
            found.append(sorted(scheduler_config(path).eos_token_ids))
    return found


def judge_every_end_id_of_the_checkpoint_counts(seed, got):
    for (config_eos, generation_eos, want), found in zip(CASES, got, strict=True):
        equal(found, want, f"end ids; config {config_eos}, generation config {generation_eos}")


def probe_the_tokenizer_may_have_no_end_id(seed):
    with TemporaryDirectory() as made:
        path = folder(Path(made) / "plain", 5, ABSENT)
        file = Path(path) / "tokenizer_config.json"
        settings = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**settings, "eos_token": None}), encoding="utf-8")
        return sorted(scheduler_config(path).eos_token_ids)


def judge_the_tokenizer_may_have_no_end_id(seed, got):
    equal(got, [5], "end ids of a config alone")


def probe_the_settings_have_defaults_and_do_not_change(seed):
    from minisgl.engine import EngineConfig

    config = scheduler_config("none")
    values = [config.max_extend_tokens, config.cache_type, config.offline_mode, config.page_size]
    fixed = error_of(lambda: setattr(config, "page_size", 2))
    other = scheduler_config("none", max_extend_tokens=7, cache_type="naive", page_size=4)
    changed = [other.max_extend_tokens, other.cache_type, other.page_size]
    return [values, fixed, changed, isinstance(config, EngineConfig)]


def judge_the_settings_have_defaults_and_do_not_change(seed, got):
    equal(got[0], [8192, "radix", False, 1], "budget, cache type, offline mode, page size")
    refused(got[1], "a change", "page_size", kind="FrozenInstanceError")
    equal(got[2:], [[7, "naive", 4], True], "settings given; an EngineConfig")


WRONG = (("max_extend_tokens", 0), ("max_extend_tokens", -3), ("max_running_req", 0),
         ("page_size", 0), ("num_page_override", 0), ("num_page_override", -1),
         ("max_extend_tokens", 8.0), ("max_extend_tokens", "8"), ("max_running_req", True),
         ("max_running_req", 1.5), ("page_size", None), ("page_size", 16.0),
         ("num_page_override", 64.0), ("num_page_override", "64"))  # fmt: skip
WRONG_LENGTHS = (1, 0, -5, 40.0, True, "40")


def probe_settings_with_which_nothing_runs_are_refused(seed):
    names = ("max_extend_tokens", "max_running_req", "page_size")
    lengths = [("max_seq_len_override", value) for value in WRONG_LENGTHS]
    given = (*WRONG, *lengths)
    found = [error_of(lambda n=n, v=v: scheduler_config("none", **{n: v})) for n, v in given]
    least = {"num_page_override": 1, "max_seq_len_override": 2, **dict.fromkeys(names, 1)}
    none = {"num_page_override": None, "max_seq_len_override": None}
    return [found, [error_of(lambda s=s: scheduler_config("none", **s)) for s in (least, none)]]


def judge_settings_with_which_nothing_runs_are_refused(seed, got):
    for (name, value), error in zip(WRONG, got[0], strict=False):
        words = (name, "at least 1", f"not {value!r}")
        refused(error, f"{name} of {value!r}", *words, kind="ValueError")
    for value, error in zip(WRONG_LENGTHS, got[0][len(WRONG) :], strict=True):
        words = ("max_seq_len_override", "at least 2", f"not {value!r}")
        refused(error, f"a length of {value!r}", *words, kind="ValueError")
    equal(got[1], [None, None], "errors when each is the least, and for no overrides")
