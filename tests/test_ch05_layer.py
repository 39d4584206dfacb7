"""Chapter 05: the attention layer splits, normalizes and rotates, then hands on to the backend."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from pairs import close, draw, equal, public_bug

QUERIES, KEYS, DIM, BASE, EPS = 4, 2, 8, 500.0, 0.1
POSITIONS = [0, 5, 6, 300]
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


class Recorder:
    """Stands where a backend would: notes what comes in; its answer is q + 1."""

    def forward(self, q: Any, k: Any, v: Any, layer_id: int, batch: Any) -> torch.Tensor:
        self.q, self.k, self.v, self.layer_id, self.batch = q, k, v, layer_id, batch
        return q + 1.0


def layer(scaling: Any = None, rotary_dim: int = DIM, **norms: Any) -> Any:
    from minisgl.layers import AttentionLayer
    from minisgl.models import RotaryConfig

    rotary = RotaryConfig(DIM, rotary_dim, 512, BASE, scaling)
    return AttentionLayer(3, QUERIES, KEYS, DIM, rotary, **norms)


def norm(weight: torch.Tensor) -> Any:
    from minisgl.layers import RMSNorm

    made = RMSNorm(DIM, EPS)
    made.weight = weight
    return made


def passed(made: Any, qkv: torch.Tensor, positions: list[int]) -> tuple[Recorder, torch.Tensor]:
    """Run the layer on a batch with these positions, with a recorder for a backend."""
    from minisgl.core import Batch, Context, set_global_ctx

    ctx = Context(1)
    set_global_ctx(ctx)
    ctx.attn_backend = recorder = Recorder()
    batch = Batch([], "prefill")
    batch.positions = torch.tensor(positions)
    with ctx.forward_batch(batch):
        out = made.forward(qkv)
    assert recorder.batch is batch
    return recorder, out


def drawn(seed: int) -> np.ndarray:
    return draw(seed, len(POSITIONS), (QUERIES + 2 * KEYS) * DIM)


def split(qkv: np.ndarray) -> list[np.ndarray]:
    """q, k and v: (tokens, heads, DIM), as float64"""
    ends = [QUERIES * DIM, (QUERIES + KEYS) * DIM]
    return [x.reshape(len(x), -1, DIM).astype(np.float64) for x in np.split(qkv, ends, axis=1)]


def normalized(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight


def rotated(x: np.ndarray, positions: list[int], scaled: bool = False, dim: int = DIM) -> Any:
    """Turn channels i and i + dim / 2 as one complex number."""
    freqs = np.array([BASE ** (-2 * i / dim) for i in range(dim // 2)])
    if scaled:
        turns = LLAMA3["original_max_position_embeddings"] * freqs / (2 * math.pi)
        kept = np.clip((turns - 1.0) / 3.0, 0.0, 1.0)
        freqs = kept * freqs + (1.0 - kept) * freqs / 8.0
    pairs = x[..., : dim // 2] + 1j * x[..., dim // 2 : dim]
    turned = pairs * np.exp(1j * np.outer(positions, freqs))[:, None]
    return np.concatenate((turned.real, turned.imag, x[..., dim:]), axis=-1)


def seen(recorder: Recorder) -> list[Any]:
    return [x.tolist() for x in (recorder.q, recorder.k, recorder.v)]


def probe_q_and_k_are_rotated_by_their_positions_and_v_is_not(seed):
    found = []
    for made in (layer(), layer(rotary_dim=4)):
        recorder, out = passed(made, torch.from_numpy(drawn(seed)), POSITIONS)
        found.append([seen(recorder), recorder.layer_id, out.tolist()])
    return found


def judge_q_and_k_are_rotated_by_their_positions_and_v_is_not(seed, got):
    q, k, v = split(drawn(seed))
    for dim, (seen_by_backend, layer_id, out) in zip((DIM, 4), got, strict=True):
        turned = [rotated(x, POSITIONS, dim=dim) for x in (q, k)]
        close(seen_by_backend, [*turned, v], 1e-4, f"q, k, v with {dim} of {DIM} channels rotated")
        equal(layer_id, 3, "the layer's number")
        close(out, turned[0].reshape(len(out), -1) + 1.0, 1e-4, "the backend's answer, flat")


def probe_llama3_scaling_slows_the_slow_waves(seed):
    return seen(passed(layer(LLAMA3), torch.from_numpy(drawn(seed)), POSITIONS)[0])


def judge_llama3_scaling_slows_the_slow_waves(seed, got):
    q, k, v = split(drawn(seed))
    want = [*(rotated(x, POSITIONS, scaled=True) for x in (q, k)), v]
    close(got, want, 1e-4, "q, k, v")


def probe_norms_are_applied_to_each_head_before_the_rotation(seed):
    q_norm, k_norm = (norm(torch.from_numpy(w)) for w in draw(seed + 1, 2, DIM))
    found = []
    for norms in ({"q_norm": q_norm, "k_norm": k_norm}, {"q_norm": q_norm}, {"k_norm": k_norm}):
        qkv = torch.from_numpy(drawn(seed))
        found.append(seen(passed(layer(**norms), qkv, POSITIONS)[0]))
    return found


def judge_norms_are_applied_to_each_head_before_the_rotation(seed, got):
    q, k, v = split(drawn(seed))
    q_weight, k_weight = draw(seed + 1, 2, DIM)
    plain = [rotated(x, POSITIONS) for x in (q, k)]
    both = [
        rotated(normalized(q, q_weight), POSITIONS),
        rotated(normalized(k, k_weight), POSITIONS),
    ]
    close(got[0], [*both, v], 1e-4, "q, k, v with both norms")
    close(got[1], [both[0], plain[1], v], 1e-4, "q, k, v with q's norm alone")
    close(got[2], [plain[0], both[1], v], 1e-4, "q, k, v with k's norm alone")


@public_bug("B06")
def probe_without_norms_the_merged_input_is_left_alone(seed):
    qkv = torch.from_numpy(drawn(seed))
    passed(layer(), qkv, POSITIONS)
    return qkv.tolist()


def judge_without_norms_the_merged_input_is_left_alone(seed, got):
    equal(got, drawn(seed), "qkv after the layer ran")


def probe_a_token_s_result_doesnt_depend_on_its_neighbors_in_the_batch(seed):
    qkv = torch.from_numpy(drawn(seed))
    made = layer()
    together = seen(passed(made, qkv, POSITIONS)[0])
    alone = [seen(passed(made, qkv[i : i + 1], [p])[0]) for i, p in enumerate(POSITIONS)]
    return [together, alone]


def judge_a_token_s_result_doesnt_depend_on_its_neighbors_in_the_batch(seed, got):
    together, alone = got
    for part in range(3):
        close([x[part][0] for x in alone], together[part], 1e-6, "qkv"[part])


def probe_an_attention_layer_has_no_weights_of_its_own(seed):
    made = layer(q_norm=norm(torch.ones(DIM)), k_norm=norm(torch.ones(DIM)))
    return sorted(made.state_dict())


def judge_an_attention_layer_has_no_weights_of_its_own(seed, got):
    equal(got, [], "names in its state dict: the norms are the caller's")


@public_bug("B12")
def probe_decode_steps_after_3_tokens_are_at_positions_3_and_4(seed):
    from minisgl.core import Req, SamplingParams

    req = Req(torch.zeros(3, dtype=torch.int32), 0, 0, 2, 0, SamplingParams(), SimpleNamespace())
    row = torch.from_numpy(drawn(seed)[:1])
    steps = []
    for _ in range(3):
        span = list(range(req.cached_len, req.device_len))
        recorder, _ = passed(layer(), row.expand(len(span), -1), span)
        steps.append(recorder.q[:, 0].tolist())
        req.complete_one()
    return steps


def judge_decode_steps_after_3_tokens_are_at_positions_3_and_4(seed, got):
    q = split(drawn(seed)[:1])[0]
    for step, positions in enumerate(([0, 1, 2], [3], [4])):
        want = rotated(np.repeat(q, len(positions), axis=0), positions)[:, 0]
        close(got[step], want, 1e-4, f"q of the first head in pass {step}, at {positions}")
