"""Chapter 01: settings from environment variables."""

from __future__ import annotations

import os
from unittest.mock import patch

from pairs import equal, error_of, refused


def reading(make, text):
    """Probe side: the value of a setting called SETTING when the variable has this text."""
    setting = make()
    with patch.dict(os.environ, {} if text is None else {"SETTING": text}):
        setting._init("SETTING")
    return setting.value


READ = (
    ("EnvBool", False, None, False),
    ("EnvBool", False, "1", True),
    ("EnvBool", False, " TRUE ", True),
    ("EnvBool", False, "yes", True),
    ("EnvBool", True, "0", False),
    ("EnvBool", True, "False", False),
    ("EnvBool", True, "no", False),
    ("EnvOption", None, None, None),
    ("EnvOption", None, "no", False),
    ("EnvOption", None, "yes", True),
    ("EnvInt", 5, None, 5),
    ("EnvInt", 5, "-12", -12),
    ("EnvFloat", 0.5, "2.25", 2.25),
    ("EnvMem", 7, None, 7),
    ("EnvMem", 7, "512", 512),
    ("EnvMem", 7, "512B", 512),
    ("EnvMem", 7, "64K", 65536),
    ("EnvMem", 7, "32MB", 33554432),
    ("EnvMem", 7, " 1.5g ", 1610612736),
    ("EnvMem", 7, "2 kb", 2048),
)
UNREADABLE = (
    ("EnvBool", False, "maybe"),
    ("EnvOption", None, ""),
    ("EnvInt", 5, "1.5"),
    ("EnvFloat", 0.5, "half"),
    ("EnvMem", 7, "lots"),
    ("EnvMem", 7, "GB"),
)


def probe_a_setting_is_its_default_or_what_its_variable_says(seed):
    from minisgl import env

    return [reading(lambda k=k, d=d: getattr(env, k)(d), text) for k, d, text, _ in READ]


def judge_a_setting_is_its_default_or_what_its_variable_says(seed, got):
    for (kind, default, text, want), found in zip(READ, got, strict=True):
        equal(found, want, f"{kind}({default}) for {text!r}")


def probe_text_that_cannot_be_read_is_refused_with_the_variables_name(seed):
    from minisgl import env

    return [
        error_of(lambda k=k, d=d, t=t: reading(lambda: getattr(env, k)(d), t))
        for k, d, t in UNREADABLE
    ]


def judge_text_that_cannot_be_read_is_refused_with_the_variables_name(seed, got):
    for (kind, default, text), error in zip(UNREADABLE, got, strict=True):
        what = f"{kind} with {text!r}"
        refused(error, what, "SETTING", repr(text), repr(default), kind="ValueError")


def probe_a_setting_counts_as_its_value_in_conditions_and_text(seed):
    from minisgl.env import EnvVar

    settings = [EnvVar(value, str) for value in (0, 3, "", "INFO", None)]
    return {"true": [bool(s) for s in settings], "text": [str(s) for s in settings]}


def judge_a_setting_counts_as_its_value_in_conditions_and_text(seed, got):
    equal(got["true"], [False, True, False, True, False], "truth of 0, 3, '', 'INFO', None")
    equal(got["text"], ["0", "3", "", "INFO", "None"], "text of 0, 3, '', 'INFO', None")


def probe_a_kind_of_setting_must_say_how_it_is_read(seed):
    from minisgl.env import BaseEnv

    return error_of(lambda: BaseEnv()._init("SETTING"))


def judge_a_kind_of_setting_must_say_how_it_is_read(seed, got):
    refused(got, "reading a bare BaseEnv", kind="NotImplementedError")


def probe_the_engines_settings_read_variables_with_its_prefix_once(seed):
    from minisgl import env

    names = [n for n, v in vars(env.EnvClassSingleton).items() if isinstance(v, env.BaseEnv)]
    defaults = {name: getattr(env.ENV, name).value for name in names}

    class Settings(env.EnvClassSingleton):
        _instance = None
        LOG_LEVEL = env.EnvVar("INFO", str.upper)
        OTHER = env.EnvInt(1)
        plain = 2

    changed = {"MINISGL_LOG_LEVEL": "debug", "OTHER": "5", "MINISGL_plain": "6"}
    with patch.dict(os.environ, changed):
        first = Settings()
        second = Settings()
    return {
        "defaults": defaults,
        "read": [str(first.LOG_LEVEL), first.OTHER.value, first.plain],
        "one": [first is second, env.EnvClassSingleton() is env.ENV],
        "prefix": env.MINISGL_ENV_PREFIX,
    }


def judge_the_engines_settings_read_variables_with_its_prefix_once(seed, got):
    want = {
        "DISABLE_OVERLAP_SCHEDULING": False,
        "FLASHINFER_USE_TENSOR_CORES": None,
        "LOG_LEVEL": "INFO",
        "PYNCCL_MAX_BUFFER_SIZE": 1 << 30,
        "SHELL_MAX_TOKENS": 2048,
        "SHELL_TEMPERATURE": 0.6,
        "SHELL_TOP_K": -1,
        "SHELL_TOP_P": 1.0,
    }
    found = {name: got["defaults"].get(name, "missing") for name in want}
    equal(found, want, "defaults")
    equal(got["read"], ["DEBUG", 1, 2], "LOG_LEVEL, a name without the prefix, and no setting")
    equal(got["one"], [True, True], "whether there is one instance per class")
    equal(got["prefix"], "MINISGL_", "the prefix")
