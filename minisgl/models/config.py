"""What the engine needs to know of a model, from any style of Hugging Face config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import PretrainedConfig

QKV_BIAS = ("qwen2",)  # biases on q, k, v, which the config doesn't mention
QK_NORM = ("qwen3", "qwen3_moe")
NO_WINDOW = ("llama",)  # a stray sliding_window in the config means nothing there


@dataclass(frozen=True)
class RotaryConfig:
    """The rotary embedding: pairs among rotary_dim of head_dim channels, frequencies from base.

    scaling: the checkpoint's rope settings when their rope_type is llama3, None for the default.
    """

    head_dim: int
    rotary_dim: int
    max_position: int
    base: float
    scaling: dict[str, Any] | None


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and switches of a decoder.

    qkv_bias, o_bias, mlp_bias: which projections add a bias. qk_norm: whether each head of q and
    k is normalized. layer_windows: for each layer how many keys a query sees, itself included;
    None for all.
    """

    num_layers: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    intermediate_size: int
    rms_norm_eps: float
    rotary_config: RotaryConfig
    hidden_act: str
    tie_word_embeddings: bool
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool
    model_type: str
    architectures: list[str]
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    layer_windows: tuple[int | None, ...] = ()

    @property
    def is_moe(self) -> bool:
        """Whether the MLPs are mixtures of experts."""
        return self.num_experts > 0

    @classmethod
    def from_hf(cls, config: PretrainedConfig) -> ModelConfig:
        """Read a config of transformers 4 or 5, which is left as it is.

        Raises ValueError for a quantized checkpoint, for a rope type other than default and
        llama3, and when there is no rope_theta.
        """
        if (scheme := getattr(config, "quantization_config", None)) is not None:
            method = dict(scheme).get("quant_method", "unnamed")
            raise ValueError(
                f"quantized checkpoints are not supported (this one is {method}): "
                "load the original weights"
            )
        heads: int = config.num_attention_heads
        bias = bool(getattr(config, "attention_bias", False))
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(
            num_layers=config.num_hidden_layers,
            num_qo_heads=heads,
            num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=head_dim,
            hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            intermediate_size=config.intermediate_size,
            rms_norm_eps=config.rms_norm_eps,
            rotary_config=_rotary_config(config, head_dim),
            hidden_act=config.hidden_act,
            tie_word_embeddings=bool(getattr(config, "tie_word_embeddings", False)),
            num_experts=getattr(config, "num_experts", None) or 0,
            num_experts_per_tok=getattr(config, "num_experts_per_tok", None) or 0,
            moe_intermediate_size=getattr(config, "moe_intermediate_size", None) or 0,
            norm_topk_prob=bool(getattr(config, "norm_topk_prob", False)),
            model_type=config.model_type,
            architectures=list(config.architectures or []),
            qkv_bias=bias or config.model_type in QKV_BIAS,
            o_bias=bias,
            mlp_bias=bool(getattr(config, "mlp_bias", False)),
            qk_norm=config.model_type in QK_NORM,
            layer_windows=_layer_windows(config),
        )


def _rotary_config(config: PretrainedConfig, head_dim: int) -> RotaryConfig:
    """Read rope_parameters (transformers 5), or rope_theta and rope_scaling (transformers 4)."""
    rope = dict(getattr(config, "rope_scaling", None) or {})
    rope |= getattr(config, "rope_parameters", None) or {}
    base = rope.pop("rope_theta", None) or getattr(config, "rope_theta", None)
    if base is None:
        raise ValueError("the config has no rope_theta, at its top or in rope_parameters")
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind not in ("default", "llama3"):
        raise ValueError(f"rope type {kind!r} is not supported: only default and llama3 are")
    factor = rope.pop("partial_rotary_factor", None) or getattr(
        config, "partial_rotary_factor", None
    )
    return RotaryConfig(
        head_dim=head_dim,
        rotary_dim=int(head_dim * (factor or 1.0)),
        max_position=config.max_position_embeddings,
        base=float(base),
        scaling={**rope, "rope_type": kind} if kind != "default" else None,
    )


def _layer_windows(config: PretrainedConfig) -> tuple[int | None, ...]:
    """Return each layer's sliding window, None where it sees everything."""
    layers: int = config.num_hidden_layers
    window: int | None = getattr(config, "sliding_window", None)
    is_off = getattr(config, "use_sliding_window", True) is False
    if not window or is_off or config.model_type in NO_WINDOW:
        return (None,) * layers
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)
