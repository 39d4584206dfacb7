"""What the fields of a request may hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from .errors import HALVES, refused

LARGEST = 2**31 - 1
"""The largest token id, and the largest number of tokens that can be asked for."""


def _encodable(text: str) -> str:
    if not _is_encodable(text):
        raise refused(HALVES)
    return text


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and _is_encodable(value)


def _is_ids(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(type(item) is int and 0 <= item <= LARGEST for item in value)
    )


def _stops(value: object) -> list[str]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > 4 or not all(map(_is_text, stops)):
        raise refused("must be a text or a list of at most 4 texts, none of them empty")
    return stops


def _prompt(value: Any) -> list[str] | list[list[int]]:
    if _is_text(value) or _is_ids(value):
        return [value]
    if not isinstance(value, list) or not value:
        said = "must be text, a list of token ids, or a list of either, and not be empty"
        raise refused(HALVES if isinstance(value, str) and value else said)
    if not (all(map(_is_text, value)) or all(map(_is_ids, value))):
        raise refused("must hold only texts or only token ids, none of them empty or out of range")
    return value


def _top_k(value: int) -> int:
    if value == 0:
        raise refused("must be -1 (off) or at least 1")
    return value


def _role(value: object) -> str:
    if value in ("tool", "function"):
        raise refused("can't be tool or function: tools are not supported")
    if not isinstance(value, str) or value not in ("system", "developer", "user", "assistant"):
        raise refused("must be system, developer, user or assistant")
    return value


def _content(value: object) -> str:
    """Return a message's text; parts of text are joined."""
    if value is None:
        raise refused("must be text or a list of parts of text, not null")
    parts = [{"type": "text", "text": value}] if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts:
        raise refused("must be text or a list of parts of text")
    texts = []
    for part in parts:
        if not isinstance(part, dict) or part.get("type") != "text":
            raise refused("can only have parts of the type text")
        if part.keys() != {"type", "text"} or not isinstance(part["text"], str):
            raise refused("can only have parts with the fields type and text")
        texts.append(_encodable(part["text"]))
    return "".join(texts)


class TextPart(BaseModel):
    """A part of a message's text."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


FullText = Annotated[str, Field(min_length=1)]
TokenId = Annotated[int, Field(ge=0, le=LARGEST)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]
SomeTexts = Annotated[list[FullText], Field(min_length=1)]
SomeIds = Annotated[list[TokenIds], Field(min_length=1)]
AnyPrompt = FullText | SomeTexts | TokenIds | SomeIds
AnyContent = str | Annotated[list[TextPart], Field(min_length=1)]
AnyStop = FullText | Annotated[list[FullText], Field(max_length=4)]
AnyRole = Literal["system", "developer", "user", "assistant"]

Text = Annotated[FullText, AfterValidator(_encodable)]
Prompt = Annotated[
    list[str] | list[list[int]], PlainValidator(_prompt, json_schema_input_type=AnyPrompt)
]
Stops = Annotated[list[str], PlainValidator(_stops, json_schema_input_type=AnyStop)]
TopK = Annotated[
    int,
    Field(ge=-1, le=LARGEST, json_schema_extra={"not": {"const": 0}}),
    AfterValidator(_top_k),
]
Role = Annotated[str, PlainValidator(_role, json_schema_input_type=AnyRole)]
Content = Annotated[str, PlainValidator(_content, json_schema_input_type=AnyContent)]
MaxTokens = Annotated[int, Field(ge=1, le=LARGEST)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Seed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
