"""Puts the reader's two functions into the chapter's codec, and sends tensors through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from pairs import equal, error_of, refused, truth

OTHERS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
EDGES = (0x0000, 0x8000, 0x0001, 0x8001, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x7FC1, 0xFFFF, 0x3F80)
"""Zeros, the smallest and largest numbers, infinities, several that are no number, and 1."""


@dataclass
class Embeds:
    """A message with a tensor of any dtype."""

    uid: int
    rows: torch.Tensor


def drawn(seed: int, *shape: int) -> np.ndarray:
    """Random bits of bfloat16 numbers, as int16."""
    bits = np.random.default_rng(seed).integers(0, 2**16, shape, dtype=np.uint16)
    return bits.view(np.int16)


def bfloat16(bits: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(bits.copy()).view(torch.bfloat16)


class Codec:
    """The chapter's codec with the reader's two functions inside."""

    def __init__(self) -> None:
        from answer import tensor, tensor_map

        self.tensor_map, self.tensor = tensor_map, tensor

    def sent(self, rows: torch.Tensor) -> dict[str, Any]:
        """The map of a message with a tensor, as it goes into a frame."""
        from minisgl.message import utils

        with patch.object(utils, "_tensor_map", self.tensor_map):
            return utils.serialize_type(Embeds(5, rows))

    def received(self, data: dict[str, Any]) -> torch.Tensor:
        """The tensor of a message's map, behind a real frame."""
        from minisgl.message import utils
        from minisgl.utils.mp import _pack, _unpack

        with patch.object(utils, "_tensor", self.tensor):
            return utils.decode_message(Embeds, {"Embeds": Embeds}, _unpack(_pack(data))).rows

    def back(self, rows: torch.Tensor) -> Any:
        """What comes back of a tensor, as plain data, or the error in words."""
        return tried(lambda: described(self.received(self.sent(rows))))


def described(rows: torch.Tensor) -> dict[str, Any]:
    """A tensor as plain data: its bytes as hexadecimal digits."""
    raw = bytes(rows.clone(memory_format=torch.contiguous_format).untyped_storage())
    return {"dtype": str(rows.dtype), "shape": list(rows.shape), "bits": raw.hex()}


def tried(action: Callable[[], Any]) -> Any:
    """What action returns, or the error in words."""
    got: list[Any] = []
    error = error_of(lambda: got.append(action()))
    return got[0] if error is None else error


def carried(got: Any, what: str) -> None:
    """What came is no error."""
    truth("kind" not in got, what, got)


def probe_the_map_of_a_tensor(seed: int) -> Any:
    codec = Codec()

    def plain() -> Any:
        made = codec.sent(bfloat16(drawn(seed, 3, 5)))["rows"]
        return {**made, "data": made["data"].hex()} if "data" in made else made

    return tried(plain)


def judge_the_map_of_a_tensor(seed: int, got: Any) -> None:
    what = "the keys of the map (it describes the numbers, and holds nothing that could run)"
    truth(sorted(got) == ["__type__", "data", "dtype", "shape"], what, got)
    what = "the map's dtype (without it the receiver can't make the tensor that was sent)"
    equal(got["dtype"], "bfloat16", what)
    what = "bytes of 15 numbers (bits need no wider type to travel in)"
    equal(len(got["data"]) // 2, 30, what)
    equal([got["__type__"], got["shape"]], ["Tensor", [3, 5]], "type and shape of the map")


def probe_the_bits(seed: int) -> Any:
    edges = np.array(EDGES, dtype=np.uint16).view(np.int16)
    bits = np.concatenate([edges, drawn(seed, 30)])
    return Codec().back(bfloat16(bits))


def judge_the_bits(seed: int, got: Any) -> None:
    edges = np.array(EDGES, dtype=np.uint16).view(np.int16)
    want = np.concatenate([edges, drawn(seed, 30)]).tobytes().hex()
    what = "a row that came back (the bits are moved and not converted, as no 16 bits of another "
    carried(got, what := what + "kind mean the same numbers)")
    equal(got["bits"], want, what)
    equal([got["dtype"], got["shape"]], ["torch.bfloat16", [41]], "dtype and shape that came back")


def views(seed: int) -> list[torch.Tensor]:
    """Tensors whose numbers don't lie row by row in their storage, or are not all of it."""
    whole = bfloat16(drawn(seed, 6, 4))
    return [whole.T, whole[1:3], whole[:, 1::2], whole[2, 3]]


def probe_views(seed: int) -> Any:
    codec = Codec()
    return [codec.back(view) for view in views(seed)]


def judge_views(seed: int, got: Any) -> None:
    names = ("a transposed tensor", "two rows of six", "every other column", "a single number")
    for name, made, view in zip(names, got, views(seed), strict=True):
        what = f"{name} (the numbers of the tensor, row by row, and not those of its storage)"
        carried(made, what)
        equal(made, described(view), what)


def probe_no_numbers_at_all(seed: int) -> Any:
    codec = Codec()
    return [codec.back(bfloat16(drawn(seed, *s))) for s in ((0,), (3, 0), (0, 4, 2))]


def judge_no_numbers_at_all(seed: int, got: Any) -> None:
    for made, shape in zip(got, ([0], [3, 0], [0, 4, 2]), strict=True):
        what = f"a tensor of shape {shape} (it has no byte, and still a shape and a dtype)"
        carried(made, what)
        equal(made, {"dtype": "torch.bfloat16", "shape": shape, "bits": ""}, what)


def probe_memory(seed: int) -> Any:
    codec, frame = Codec(), drawn(seed, 8).tobytes()
    data = {"__type__": "Tensor", "dtype": "bfloat16", "shape": [8], "data": frame}

    def written() -> str:
        made = codec.tensor(data)
        made.view(torch.int16).bitwise_not_()
        return frame.hex()

    return tried(written)


def judge_memory(seed: int, got: Any) -> None:
    what = "the frame after the tensor was written to (it belongs to whoever received it)"
    equal(got, drawn(seed, 8).tobytes().hex(), what)


def refusals(maps: list[dict[str, Any]]) -> list[Any]:
    """What the receiver says to each of these tensors' maps, inside of a message."""
    whole = {"__type__": "Tensor", "dtype": "bfloat16", "shape": [2, 3], "data": bytes(12)}
    msgs = [{"__type__": "Embeds", "uid": 5, "rows": whole | change} for change in maps]
    codec = Codec()
    return [error_of(lambda m=msg: codec.received(m)) for msg in msgs]


LENGTHS = (0, 4, 11, 13, 14, 24)


def probe_lengths_that_do_not_fit(seed: int) -> Any:
    return refusals([{"data": bytes(length)} for length in LENGTHS])


def judge_lengths_that_do_not_fit(seed: int, got: Any) -> None:
    for length, error in zip(LENGTHS, got, strict=True):
        what = f"{length} bytes for six numbers (the length is exactly that of the shape, or wrong)"
        refused(error, what)
        equal(error["kind"], "MessageError", what)


NAMES = ("O", "bfloat", "torch.bfloat16", "load", "Tensor", "uint16", 7, ["bfloat16"])


def probe_foreign_dtypes(seed: int) -> Any:
    maps: list[dict[str, Any]] = [{"dtype": name} for name in NAMES]
    maps += [{"dtype": "float8_e4m3fn", "data": bytes(6)}, {"dtype": "complex32", "shape": [3]}]
    return refusals(maps)


def judge_foreign_dtypes(seed: int, got: Any) -> None:
    for name, error in zip((*NAMES, "float8_e4m3fn", "complex32"), got, strict=True):
        what = f"the dtype {name!r} (a foreign name is looked up in a list, and nowhere else)"
        refused(error, what)
        equal(error["kind"], "MessageError", what)


SHAPES = ([-1, 6], [-2, -3], [2.0, 3], [True, 6], "23", [1] * 9, [2**40, 0])


def probe_foreign_shapes(seed: int) -> Any:
    empty = {"data": b"", "shape": [0, *[2**31 - 1] * 3]}
    return refusals([empty, *({"shape": shape} for shape in SHAPES), {"extra": 1}])


def judge_foreign_shapes(seed: int, got: Any) -> None:
    names = ("with many numbers of which one is 0", *map(str, SHAPES), "beside a key too many")
    for name, error in zip(names, got, strict=True):
        what = (
            f"a shape {name} (a size is an int and at least 0, and no product of them is trusted)"
        )
        refused(error, what)
        equal(error["kind"], "MessageError", what)


def others(seed: int) -> list[torch.Tensor]:
    numbers = np.random.default_rng(seed).integers(0, 100, (2, 3))
    return [torch.from_numpy(numbers).to(getattr(torch, name)) for name in OTHERS]


def probe_other_dtypes(seed: int) -> Any:
    codec = Codec()

    def both_ways(rows: torch.Tensor) -> list[Any]:
        return [codec.sent(rows)["rows"]["data"].hex(), codec.back(rows)]

    made = [tried(lambda r=rows: both_ways(r)) for rows in others(seed)]
    foreign = [torch.zeros(2, dtype=torch.complex64), torch.zeros(2, dtype=torch.float8_e5m2)]
    return [made, [error_of(lambda r=rows: codec.sent(r)) for rows in foreign]]


def judge_other_dtypes(seed: int, got: Any) -> None:
    for name, made, rows in zip(OTHERS, got[0], others(seed), strict=True):
        want = described(rows)
        equal(made, [want["bits"], want], f"{name} (a peer that is older reads the same bytes)")
    for name, error in zip(("complex64", "float8_e5m2"), got[1], strict=True):
        refused(error, f"{name} (the sender learns of what can't be carried)", kind="MessageError")
