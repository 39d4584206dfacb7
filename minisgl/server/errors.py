"""What is wrong with a request, said in the shape that clients of OpenAI's API know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

BODY = "the body must be a JSON object, with the header Content-Type: application/json"
LONGEST_NAME = 60
"""Characters of a field's name that a message repeats: a client may have sent any."""
MOST_NAMES = 5
UNKNOWN = "extra_forbidden"
"""How pydantic calls a field that a model doesn't have."""
REFUSED = "refused"
"""The kind of the errors that our own checks of a field raise; they say what the field must be."""

HALVES = "must be text without halves of surrogate pairs"

SAID = {
    "missing": "is required",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_unicode": HALVES,
}
"""What is said of a field for each kind of error that pydantic finds."""


class ApiError(Exception):
    """A request that gets an error instead of an answer: an HTTP status and one sentence.

    type, param (the field) and code are as in OpenAI's API; headers: to be sent along.
    """

    def __init__(
        self,
        status: int,
        message: str,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.type = status, encodable(message), type
        self.param, self.code = None if param is None else encodable(param), code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return the error as a reply's body."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }


def refused(said: str, param: str | None = None) -> PydanticCustomError:
    """Return what a check of a field raises; said: "must be ..."; param: if it is another field."""
    return PydanticCustomError(REFUSED, said, None if param is None else {"param": param})


def encodable(text: str) -> str:
    """Return text with a question mark for half a surrogate pair, which UTF-8 can't hold."""
    return text.encode("utf-8", "replace").decode()


def refusal(error: RequestValidationError | ValidationError) -> ApiError:
    """Return what to tell a client: the first field that is wrong, and how many more there are."""
    errors: Sequence[Mapping[str, Any]] = error.errors()
    first = errors[0]
    if first["type"] == "json_invalid":
        why = str(first["ctx"]["error"])
        where = first["loc"][-1]
        why = f"{why[0].lower()}{why[1:].removesuffix(' at')} at character {where}"
        return ApiError(400, f"the body is not valid JSON: {why}")
    skipped = int(isinstance(error, RequestValidationError))  # "body" comes before the field
    paths = [_path(each, skipped) for each in errors]
    if not paths[0]:
        is_name = first["type"] == "string_unicode"
        return ApiError(400, f"the name of a field {HALVES}" if is_name else BODY)
    if first["type"] == UNKNOWN:  # pydantic names these last, so that there are no others
        names, code = list(dict.fromkeys(paths)), "unsupported_parameter"
        message, more = _not_supported(names[:MOST_NAMES]), len(names[MOST_NAMES:])
    else:
        message, code = f"{paths[0]} {_said(first)}", "invalid_value"
        more = len(set(paths)) - 1
    if more:
        message += f"; {more} more {'field is' if more == 1 else 'fields are'} wrong"
    return ApiError(400, message, param=paths[0], code=code)


def _path(error: Mapping[str, Any], skipped: int) -> str:
    """Return the field that an error is about, with dots, or nothing if it is the whole body."""
    named = error.get("ctx", {}).get("param")
    return named or ".".join(_short(str(part)) for part in error["loc"][skipped:])


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."


def _not_supported(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is not supported: leave it out"
    return f"{', '.join(names[:-1])} and {names[-1]} are not supported: leave them out"


def _said(error: Mapping[str, Any]) -> str:
    if error["type"] == REFUSED:
        return str(error["msg"])
    limits = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in error.get("ctx", {}).items()
    }
    return SAID.get(error["type"], "is not what it can be").format(**limits)
