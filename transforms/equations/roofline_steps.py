"""Engine steps from peak rates, preset ``calibrated``: what the article's roofline leaves out.

Attention FLOPs, the experts that a batch really touches, reads at the share of bandwidth that
engines reach, collectives, launches, and the prefills of the others within everybody's decode. All
constants are the system figures of AIConfigurator 0.12.0 or the article's; none is fitted to the
tables that the preset is compared with. Times in seconds, per-GPU rates.
"""

from transforms.equations.roofline import ETA_PREFILL
from transforms.equations.transfer import ATTENTION_EFFICIENCY, KV_READ_EFFICIENCY
from transforms.numbers import Number, if_else, largest, smallest

#: A point-to-point message, and the floor of a kernel (AIConfigurator 0.12.0, ``p2p_latency`` and
#: ``mem_empirical_constant_latency`` in its system files).
MESSAGE_S = 10e-6
KERNEL_S = 3e-6
#: Kernels of a transformer layer: two norms, QKV, rotary, attention, output, two adds, gate-up,
#: activation, down, cache write; and what experts add: router, top-k, permutation, dispatch, two grouped
#: products beside the dense ones, combination, shared expert.
KERNELS_PER_LAYER = 12
KERNELS_PER_MOE_LAYER = 8
ACTIVATION_BYTES = 2


def distinct_experts(tokens: Number, experts_per_token: Number, experts: Number) -> Number:
    """Expected distinct experts of a layer that a step touches: ``E * (1 - (1 - K/E)^B)`` (model.md 3)."""
    return experts * (1.0 - (1.0 - experts_per_token / experts) ** tokens)


def product_s(read_bytes: Number, flops: Number, hbm_bytes_per_s: Number, flops_per_s: Number) -> Number:
    """A matrix product on one GPU: its weights read or its FLOPs done, whatever takes longer."""
    return largest(read_bytes / (hbm_bytes_per_s * KV_READ_EFFICIENCY), flops / (flops_per_s * ETA_PREFILL))


def decode_attention_s(
    contexts: Number, kv_bytes: Number, flops: Number, hbm_bytes_per_s: Number, flops_per_s: Number
) -> Number:
    """Attention of one new token of each context on one GPU: the KV read, or the FLOPs where they are more."""
    return contexts * largest(
        kv_bytes / (hbm_bytes_per_s * KV_READ_EFFICIENCY), flops / (flops_per_s * ATTENTION_EFFICIENCY)
    )


def prefill_attention_s(flops: Number, flops_per_s: Number) -> Number:
    """Attention of a prefill on one GPU."""
    return flops / (flops_per_s * ATTENTION_EFFICIENCY)


def all_reduce_s(tokens: Number, hidden: int, layers: int, gpus: Number, link_bytes_per_s: Number) -> Number:
    """Two all-reduces a layer over the GPUs of a rank, as rings; none on one GPU."""
    moved = 2.0 * (gpus - 1) / gpus * tokens * hidden * ACTIVATION_BYTES
    return if_else(gpus > 1, 2.0 * layers * (MESSAGE_S + moved / link_bytes_per_s), 0.0)


def dispatch_s(tokens: Number, hidden: int, moe_layers: int, ranks: Number, link_bytes_per_s: Number) -> Number:
    """Tokens of all ranks gathered before the experts and scattered after them; none on one rank."""
    moved = (ranks - 1) / ranks * tokens * hidden * ACTIVATION_BYTES
    return if_else(ranks > 1, 2.0 * moe_layers * (MESSAGE_S + moved / link_bytes_per_s), 0.0)


def launch_s(layers: int, moe_layers: int) -> float:
    """Floor of a step: its kernels one after the other."""
    return KERNEL_S * (KERNELS_PER_LAYER * layers + KERNELS_PER_MOE_LAYER * moe_layers)


def mixed_weight(batch: Number) -> Number:
    """``m`` of the step equations (``engine_steps.tpot_mixed_weight``) for a batch that is not whole.

    The same at whole numbers and continuous between them.
    """
    return largest(smallest(batch - 1.0, 1.0), batch - 3.0, 0.0)
