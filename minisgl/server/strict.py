"""JSON objects without unknown fields, and those fields of OpenAI's API that aren't supported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

OFF: dict[str, list[object]] = {
    "audio": [],
    "best_of": [1],
    "echo": [False],
    "function_call": ["none"],
    "functions": [[]],
    "logit_bias": [{}],
    "metadata": [],
    "modalities": [["text"]],
    "moderation": [],
    "parallel_tool_calls": [False, True],  # of no tools
    "prediction": [],
    "prompt_cache_key": [],
    "prompt_cache_options": [],
    "prompt_cache_retention": [],
    "reasoning_effort": ["none"],
    "response_format": [{"type": "text"}],
    "safety_identifier": [],
    "service_tier": ["auto", "default"],
    "store": [False],
    "suffix": [""],
    "tool_choice": ["none", "auto"],  # of no tools
    "tools": [[]],
    "user": [],
    "verbosity": [],
    "web_search_options": [],
}
"""Fields that aren't supported, and the values beside null that change nothing."""

OFF_IN_MESSAGES: dict[str, list[object]] = {
    "annotations": [[]],
    "audio": [],
    "function_call": [],
    "name": [],
    "refusal": [],
    "tool_calls": [[]],
}
"""The same for a message: a client may send an answer's message back as it is."""

OFF_IN_STREAM_OPTIONS: dict[str, list[object]] = {"include_obfuscation": [False]}

NULL = {"type": "null"}


def _wanted(
    data: Mapping[str, Any], optional: frozenset[str], off: Mapping[str, list[object]]
) -> dict[str, Any]:
    """Return the fields of a request without those that say what holds anyway."""
    return {
        key: value
        for key, value in data.items()
        if not (value is None and (key in optional or key in off))
        and not any(_same(value, each) for each in off.get(key, ()))
    }


def _same(value: object, other: object) -> bool:
    return type(value) is type(other) and value == other


def _allow_null(schema: dict[str, Any]) -> None:
    """Say in a model's JSON schema that each field that may be left out may be null too."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if name not in required:
            kept = {key: field.pop(key) for key in ("description", "default") if key in field}
            field.pop("title", None)
            kinds = field.get("anyOf", [field])
            kinds = [kind for kind in kinds if kind != NULL]
            schema["properties"][name] = {"anyOf": [*kinds, NULL], **kept}


class StrictModel(BaseModel):
    """A JSON object whose values are of the types that they should be, without unknown fields.

    A field that may be left out may also be null; both mean the default.
    """

    model_config = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False, json_schema_extra=_allow_null
    )
    off: ClassVar[dict[str, list[object]]] = OFF

    @model_validator(mode="before")
    @classmethod
    def _without_off(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = cls.model_fields.items()
        optional = frozenset(name for name, field in fields if not field.is_required())
        return _wanted(data, optional, cls.off)
