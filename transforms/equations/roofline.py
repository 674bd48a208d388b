"""The roofline of a replica (Eqs. 1-3c): serving times from peak rates, preset ``article``.

``gpus`` is what the work is split over; times in seconds. Rates are per GPU.
"""

from transforms.numbers import Number, largest, smallest

ETA_PREFILL = 0.65
ETA_DECODE = 0.40
#: Element-wise work and launches beside the memory reads of a decode step (Eq. 3).
ELEMENTWISE_OVERHEAD = 1.10


def prefill_s(active_parameters: Number, new_tokens: Number, gpus: Number, flops_per_s: Number) -> Number:
    """TTFT (Eq. 2): ``2 * P_active * L_prefill / (G * F) / eta_prefill``."""
    return 2.0 * active_parameters * new_tokens / (gpus * flops_per_s) / ETA_PREFILL


def weight_read_s(weight_bytes: Number, gpus: Number, hbm_bytes_per_s: Number) -> Number:
    """Eq. 3a: one read of weights that are spread over the GPUs."""
    return weight_bytes / (gpus * hbm_bytes_per_s)


def active_experts(tokens_in_step: Number, experts_per_token: Number, experts: Number) -> Number:
    """Distinct experts of a layer that a step touches, upper bound: ``min(B * K, E)`` (model.md 9)."""
    return smallest(tokens_in_step * experts_per_token, experts)


def expert_read_s(active: Number, bytes_per_expert: Number, gpus: Number, hbm_bytes_per_s: Number) -> Number:
    """Eq. 3a, MoE: ``E_active/G * P_expert * d / BW``, one expert summed over all MoE layers."""
    return active / gpus * bytes_per_expert / hbm_bytes_per_s


def kv_read_s(batch_per_rank: Number, kv_bytes_per_gpu: Number, hbm_bytes_per_s: Number) -> Number:
    """Eq. 3b: ``B * L * kappa / (min(G, n_kv) * BW)``; the bytes of one context on one GPU are given."""
    return batch_per_rank * kv_bytes_per_gpu / hbm_bytes_per_s


def decode_compute_s(active_parameters: Number, tokens_in_step: Number, gpus: Number, flops_per_s: Number) -> Number:
    """Eq. 3c: ``2 * P_active * B / (G * F)``."""
    return 2.0 * active_parameters * tokens_in_step / (gpus * flops_per_s)


def tpot_s(weight_s: Number, kv_s: Number, compute_s: Number) -> Number:
    """Eq. 3: ``max((t_weight + t_kv) * 1.10, t_compute) / eta_decode``."""
    return largest((weight_s + kv_s) * ELEMENTWISE_OVERHEAD, compute_s) / ETA_DECODE


def latency_s(ttft_s: Number, tpot: Number, osl_tokens: Number) -> Number:
    """``R = TTFT + TPOT * (OSL - 1)``."""
    return ttft_s + tpot * (osl_tokens - 1.0)
