"""Engine steps of an aggregated replica: a serving point taken apart and put together again.

An aggregated engine alternates mixed steps (the prefill of ``nc`` requests beside everybody's
decode, ``t_mix``) and decode-only steps (``t_dec``). A table row gives TTFT and TPOT: two
equations in these two times. The forms are those that AIConfigurator's schedulers use.
"""

from transforms.numbers import Number, if_else, largest, log_to_base_2, rounded_up, smallest

#: Host-side dispatch of one prefill under vLLM, in ms a layer (AIConfigurator 0.12.0).
VLLM_DISPATCH_MS_PER_LAYER = 0.8


def mixed_steps(batch: Number, prefills_per_mixed_step: Number) -> Number:
    """Mixed steps in one cycle of ``batch`` requests. A batch of one has exactly one.

    ``prefills_per_mixed_step`` is ctx_tokens/isl as the table schedules it (a fraction where a
    prefill takes several steps).
    """
    return if_else(batch <= 1, 1.0, rounded_up(batch / prefills_per_mixed_step - 1e-9))


def decode_only_steps(n_mix: Number, osl_tokens: Number) -> Number:
    """Decode-only steps in one cycle: OSL - n_mix, none where prefill-bound."""
    return largest(osl_tokens - n_mix, 0.0)


def ttft_queue_factor(vllm: Number, batch: Number, n_mix: Number) -> Number:
    """``q`` of ``ttft = t_mix * q``: the wait for the prefills in front of a request.

    TRT-LLM and SGLang: ``min(2 + (n_mix - 3)/20, 4)``; vLLM: ``min(1 + log2(B)/8, 2)``.
    """
    serial = smallest(1.0 + log_to_base_2(largest(batch, 1.0)) / 8.0, 2.0)
    batched = smallest(2.0 + (n_mix - 3.0) / 20.0, 4.0)
    return if_else(vllm, serial, batched)


def tpot_mixed_weight(vllm: Number, batch: Number, n_mix: Number, osl_tokens: Number) -> Number:
    """``m`` of ``tpot = (t_mix*m + t_dec*n_dec)/(m + n_dec)``: mixed steps that delay a token.

    0 for a batch of one and n_mix where prefill-bound; between, TRT-LLM and SGLang leave out the
    three steps of the drain, ``max(1, n_mix - 3)``, vLLM counts all.
    """
    between = if_else(vllm, n_mix, largest(1.0, n_mix - 3.0))
    return if_else(batch <= 1, 0.0, if_else(n_mix >= osl_tokens, n_mix, between))


def mixed_step_of_row(ttft_ms: Number, queue_factor: Number, dispatch_ms: Number) -> Number:
    """``t_mix`` in ms from a row's TTFT."""
    return ttft_ms / queue_factor - dispatch_ms


def decode_step_of_row(tpot_ms: Number, t_mix_ms: Number, m: Number, n_dec: Number) -> Number:
    """``t_dec`` in ms from a row's TPOT; of no meaning where n_dec is 0 (prefill-bound)."""
    return (tpot_ms * (m + n_dec) - t_mix_ms * m) / largest(n_dec, 1.0)


def ttft(t_mix_ms: Number, queue_factor: Number, dispatch_ms: Number) -> Number:
    """TTFT in ms."""
    return (t_mix_ms + dispatch_ms) * queue_factor


def tpot(t_mix_ms: Number, t_dec_ms: Number, m: Number, n_dec: Number) -> Number:
    """TPOT in ms; 0 where a turn has a single output token."""
    steps = m + n_dec
    return if_else(steps > 0, (t_mix_ms * m + t_dec_ms * n_dec) / largest(steps, 1e-12), 0.0)


def requests_per_s(
    batch: Number, stations: Number, n_mix: Number, n_dec: Number, t_mix_ms: Number, t_dec_ms: Number
) -> Number:
    """Requests a second of the replica: ``stations * B`` in one cycle of steps."""
    return 1000.0 * stations * batch / (n_mix * t_mix_ms + n_dec * t_dec_ms)
