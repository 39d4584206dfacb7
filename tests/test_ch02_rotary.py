"""Chapter 02: rotary positions against complex numbers, and Llama 3's scaling."""

from __future__ import annotations

import math

import numpy as np
import torch

from pairs import close, draw, equal, error_of, public_bug, refused, truth

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
FAR = [0, 1, 2, 8, 1499, 1500, 2047, 4000, 8191]


def frequencies(base, size):
    return base ** (-np.arange(0, size, 2, dtype=np.float64) / size)


def llama3_frequencies(rope, size):
    """Band by band: short waves are kept, long ones slowed, those between blended."""
    factor, length = rope["factor"], rope["original_max_position_embeddings"]
    long, short = length / rope["low_freq_factor"], length / rope["high_freq_factor"]
    span = rope["high_freq_factor"] - rope["low_freq_factor"]
    result = []
    for freq in frequencies(rope["rope_theta"], size):
        wave = 2 * math.pi / freq
        blend = (length / wave - rope["low_freq_factor"]) / span
        middle = (1 - blend) * freq / factor + blend * freq
        result.append(freq if wave < short else freq / factor if wave > long else middle)
    return np.array(result)


def rotated(x, positions, freqs):
    """x: (tokens, heads, d) as complex numbers x[i] + i x[i + d/2], turned by position * freq."""
    half = len(freqs)
    first, second = (x[..., i * half : (i + 1) * half].astype(np.float64) for i in (0, 1))
    turned = (first + 1j * second) * np.exp(1j * np.outer(positions, freqs))[:, None]
    return np.concatenate([turned.real, turned.imag, x[..., 2 * half :]], axis=-1)


def table(rope, positions, dim):
    """Probe side: the cosines and sines that rope uses, read off by turning (1, 0) pairs."""
    half = dim // 2
    ones = torch.cat((torch.ones(half), torch.zeros(half))).expand(len(positions), 1, dim)
    turned, _ = rope.forward(torch.tensor(positions), ones, ones)
    return turned.squeeze(1)


def probe_queries_and_keys_are_turned_by_position_times_frequency(seed):
    from minisgl.layers import get_rope

    rope = get_rope(8, 8, 64, 100.0)
    q, k = torch.tensor(draw(seed, 3, 4, 8)), torch.tensor(draw(seed + 1, 3, 2, 8))
    return [t.tolist() for t in rope.forward(torch.tensor([0, 5, 63]), q, k)]


def judge_queries_and_keys_are_turned_by_position_times_frequency(seed, got):
    freqs = frequencies(100.0, 8)
    close(got[0], rotated(draw(seed, 3, 4, 8), [0, 5, 63], freqs), 2e-5, "queries")
    close(got[1], rotated(draw(seed + 1, 3, 2, 8), [0, 5, 63], freqs), 2e-5, "keys")


def probe_only_the_first_rotary_dim_channels_turn(seed):
    from minisgl.layers import get_rope

    rope = get_rope(10, 4, 64, 100.0)
    q, k = torch.tensor(draw(seed, 2, 1, 10)), torch.tensor(draw(seed + 1, 2, 3, 10))
    return [t.tolist() for t in rope.forward(torch.tensor([7, 9]), q, k)]


def judge_only_the_first_rotary_dim_channels_turn(seed, got):
    freqs = frequencies(100.0, 4)
    for name, found, x in (
        ("query", got[0], draw(seed, 2, 1, 10)),
        ("key", got[1], draw(seed + 1, 2, 3, 10)),
    ):
        close(found, rotated(x, [7, 9], freqs), 1e-5, name)
        equal(np.array(found)[..., 4:], x[..., 4:].astype(np.float64), f"channels 4 to 9 of {name}")


def probe_products_depend_on_the_distance_of_positions_only(seed):
    from minisgl.layers import get_rope

    rope = get_rope(16, 16, 256, 1e4)
    q, k = torch.tensor(draw(seed, 1, 1, 16)), torch.tensor(draw(seed + 1, 1, 1, 16))

    def product(query_at, key_at):
        turned_q, _ = rope.forward(torch.tensor([query_at]), q, k)
        _, turned_k = rope.forward(torch.tensor([key_at]), q, k)
        return float((turned_q * turned_k).sum())

    return [product(5, 2), product(105, 102), product(203, 200), product(5, 3)]


def judge_products_depend_on_the_distance_of_positions_only(seed, got):
    q, k, freqs = draw(seed, 1, 1, 16), draw(seed + 1, 1, 1, 16), frequencies(1e4, 16)
    want = [float((rotated(q, [n], freqs) * k).sum()) for n in (3, 2)]  # only the query is turned
    close(got[1:3], [got[0]] * 2, 1e-4, "products at distance 3")
    close([got[0], got[3]], want, 1e-4, "products at distances 3 and 2")


@public_bug("B05")
def probe_llama3_scaling_gives_transformers_table_far_out_too(seed):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    from minisgl.layers import get_rope

    found = {}
    for name, changes in SCALINGS.items():
        settings = {**LLAMA3, **changes}
        config = LlamaConfig(
            hidden_size=64,
            num_attention_heads=1,
            head_dim=64,
            max_position_embeddings=131072,
            rope_parameters=settings,
        )
        inverse, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
        angles = torch.outer(torch.tensor(FAR).float(), inverse)
        rope = get_rope(64, 64, 8192, settings["rope_theta"], tuple(sorted(settings.items())))
        theirs = torch.cat((angles.cos(), angles.sin()), dim=-1)
        found[name] = {"ours": table(rope, FAR, 64).tolist(), "theirs": theirs.tolist()}
    return found


SCALINGS = {
    "llama 3.2": {},
    "llama 3.1": {"factor": 8.0},
    "odd": {"rope_theta": 6547.0, "factor": 8.0, "original_max_position_embeddings": 64},
}


def judge_llama3_scaling_gives_transformers_table_far_out_too(seed, got):
    for name, changes in SCALINGS.items():
        settings = {**LLAMA3, **changes}
        angles = np.outer(FAR, llama3_frequencies(settings, 64))
        want = np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)
        close(got[name]["ours"], want, 2e-3, f"cosines and sines by the formula, {name}")
        close(got[name]["ours"], got[name]["theirs"], 1e-3, f"those of transformers, {name}")


@public_bug("B05")
def probe_llama3_scaling_divides_the_frequencies_of_long_waves(seed):
    from minisgl.layers import get_rope

    rope = get_rope(64, 64, 16, LLAMA3["rope_theta"], tuple(LLAMA3.items()))
    cos, sin = table(rope, [1], 64)[0].double().chunk(2)
    return torch.atan2(sin, cos).tolist()


def judge_llama3_scaling_divides_the_frequencies_of_long_waves(seed, got):
    slowed = frequencies(5e5, 64) / np.array(got)
    close(slowed[:15], [1.0] * 15, 1e-5, "divisor of pairs 0 to 14")
    close(slowed[15:18], [1.651, 3.292, 9.667], 2e-3, "divisor of pairs 15 to 17")
    close(slowed[18:], [32.0] * 14, 1e-3, "divisor of pairs 18 to 31")


def probe_frequencies_can_be_changed_before_the_table_is_made(seed):
    from minisgl.layers.rotary import RotaryEmbedding

    seen = []

    def post_process(freqs):
        seen.append(freqs.tolist())
        return freqs * 2

    rope = RotaryEmbedding(8, 8, 16, 100.0, post_process)
    return {"seen": seen, "table": table(rope, [3], 8).tolist()}


def judge_frequencies_can_be_changed_before_the_table_is_made(seed, got):
    freqs = frequencies(100.0, 8)
    close(got["seen"], [freqs], 1e-6, "frequencies handed to post_process, once")
    want = np.concatenate([np.cos(6 * freqs), np.sin(6 * freqs)])
    close(got["table"], [want], 1e-5, "cosines and sines of twice the frequencies")


def probe_layers_with_the_same_settings_share_one_table(seed):
    from minisgl.layers import get_rope

    scaling = tuple(sorted(LLAMA3.items()))
    one = get_rope(64, 64, 16, 1e4)
    others = [
        get_rope(64, 64, 16, 1e4),
        get_rope(64, 64, 16, 1e5),
        get_rope(64, 64, 16, 1e4, scaling),
    ]
    plain = get_rope(64, 64, 16, 1e4, (("factor", 2.0), ("rope_type", "default")))
    return {
        "shared": [other is one for other in others],
        "default": torch.equal(table(plain, [9], 64), table(one, [9], 64)),
        "weights": list(one.state_dict()),
    }


def judge_layers_with_the_same_settings_share_one_table(seed, got):
    equal(got["shared"], [True, False, False], "shared with: the same, another base, a scaling")
    equal(got["default"], True, "whether type default gives the plain table")
    equal(got["weights"], [], "the table's weights in a checkpoint")


def probe_other_kinds_of_scaling_are_refused_by_name(seed):
    from minisgl.layers import get_rope

    kinds = ("yarn", "linear", "dynamic", "longrope")
    return [error_of(lambda k=k: get_rope(8, 8, 16, 1e4, (("rope_type", k),))) for k in kinds]


def judge_other_kinds_of_scaling_are_refused_by_name(seed, got):
    for kind, error in zip(("yarn", "linear", "dynamic", "longrope"), got, strict=True):
        refused(error, f"rope type {kind}", repr(kind), "default and llama3", kind="ValueError")


@public_bug("B06")
def probe_rotation_leaves_queries_and_keys_alone(seed):
    from minisgl.layers import get_rope

    found = []
    for dtype in (torch.float32, torch.bfloat16):
        for rotary_dim in (8, 4):
            rope = get_rope(8, rotary_dim, 64, 100.0)
            q, k = (torch.tensor(draw(seed + i, 2, 1, 8)).to(dtype) for i in range(2))
            kept = q.clone(), k.clone()
            results = rope.forward(torch.tensor([0, 3]), q, k)
            for result in results:
                result.fill_(9.0)
            again, _ = rope.forward(torch.tensor([0, 3]), q, k)
            found.append(
                [
                    torch.equal(q, kept[0]),
                    torch.equal(k, kept[1]),
                    torch.equal(again[0], q[0]),
                    *(r.dtype == dtype for r in results),
                ]
            )
    return found


def judge_rotation_leaves_queries_and_keys_alone(seed, got):
    what = "query and key unchanged, position 0 turns nothing, dtypes: dtypes, rotary_dim"
    equal(got, [[True] * 5] * 4, what)


def probe_the_table_is_float32_on_the_rope_device_wherever_it_is_made(seed):
    from minisgl.layers import get_rope
    from minisgl.utils import torch_dtype

    get_rope.cache_clear()
    with torch.device("meta"), torch_dtype(torch.bfloat16):
        rope = get_rope(8, 8, 4096, 100.0)
    q = torch.tensor(draw(seed, 1, 1, 8))
    return rope.forward(torch.tensor([4001]), q, q)[0].tolist()


def judge_the_table_is_float32_on_the_rope_device_wherever_it_is_made(seed, got):
    close(got, rotated(draw(seed, 1, 1, 8), [4001], frequencies(100.0, 8)), 2e-3, "query at 4001")


def probe_a_new_rope_device_makes_new_tables(seed):
    from minisgl.layers import get_rope, set_rope_device

    first = get_rope(8, 8, 16, 50.0)
    set_rope_device(torch.device("cpu"))
    kept = get_rope(8, 8, 16, 50.0) is first
    set_rope_device(torch.device("meta"))
    try:
        moved = get_rope(8, 8, 16, 50.0)
        at = torch.zeros(1, dtype=torch.int64, device="meta")
        q = torch.zeros(1, 1, 8, device="meta")
        device = str(moved.forward(at, q, q)[0].device)
        on_cpu = error_of(lambda: moved.forward(at.new_zeros(1, device="cpu"), q, q)[0].tolist())
    finally:
        set_rope_device(torch.device("cpu"))
    back = get_rope(8, 8, 16, 50.0)
    return {
        "kept": kept,
        "new": moved is not first,
        "device": device,
        "no values": on_cpu is not None,
        "back": table(back, [3], 8).tolist(),
    }


def judge_a_new_rope_device_makes_new_tables(seed, got):
    equal(got["kept"], True, "whether the same device keeps the tables")
    equal([got["new"], got["device"], got["no values"]], [True, "meta", True], "another device")
    angles = 3 * frequencies(50.0, 8)
    close(got["back"], [np.concatenate([np.cos(angles), np.sin(angles)])], 1e-5, "back on the CPU")


def probe_in_bfloat16_only_the_result_of_a_rotation_is_rounded(seed):
    from minisgl.layers import get_rope

    x = torch.from_numpy(draw(seed, 64, 2, 16)).bfloat16()
    rope = get_rope(16, 16, 512, 7321.0)
    return rope.forward(torch.arange(64) * 7, x, x)[0].tolist()


def judge_in_bfloat16_only_the_result_of_a_rotation_is_rounded(seed, got):
    x = torch.from_numpy(draw(seed, 64, 2, 16)).bfloat16()
    angles = (torch.arange(64) * 7)[:, None] / 7321.0 ** (torch.arange(0, 16, 2).double() / 16)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]

    def turned(a, b, c, s):
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1).bfloat16()

    want = turned(*x.double().chunk(2, dim=-1), cos, sin)
    coarse = turned(*x.chunk(2, dim=-1), cos.bfloat16(), sin.bfloat16())
    differ = float((want != coarse).double().mean())
    equals = float((torch.tensor(got) == want.float()).double().mean())
    truth(differ > 0.1, "arithmetic in bfloat16 gives over 10% other values", differ)
    truth(equals > 0.98, "over 98% of the values are rounded once, at the end", equals)
