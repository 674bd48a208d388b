"""Memory that an engine leaves for KV: each reckons it in its own way (model.md 4).

Every function takes floats, NumPy arrays or Polars expressions; figures are of ONE GPU. All rules have one form,
``usable - of_weights * weights``: bytes that would be left without weights, and what a byte of weights takes of them.
The constants are the engines' defaults, read in their sources (vLLM 0.32 ``v1/worker/gpu_worker.py``,
``config/cache.py``, ``engine/arg_utils.py``; SGLang 0.5 ``srt/arg_groups/memory_hook.py``; TensorRT-LLM 1.x
``_torch/pyexecutor/_util.py``), and what their logs say where only a run can tell.
"""

from typing import Final

from transforms.numbers import Number, if_else, largest

GIB: Final = 2.0**30
MIB: Final = 2.0**20
#: Share of the memory kept where the engine's rule is not known.
ASSUMED_RESERVE: Final = 0.10
#: Share of the memory printed that CUDA offers: 79.2 of 80 GiB (H100), 139.8 of 141 (H200), 178.4 of 180 (B200).
OFFERED_BY_CUDA: Final = 0.99

#: ``gpu_memory_utilization`` of vLLM, until 0.20 and from 0.21 on, which takes its CUDA graphs out of it.
VLLM_UTILIZATION: Final = (0.90, 0.92)
VLLM_COUNTS_GRAPHS_FROM: Final = 21
#: Bytes of the sampler for each request and token of the vocabulary. Sorting them took 1.25 GiB for 256 requests of
#: 131,072 tokens, the kernels of 0.17 take 0.38 GiB (vLLM#32558, #33538); beside them the logits in 16 bits.
VLLM_SAMPLER_BYTES: Final = (40.0, 16.0)
VLLM_SAMPLES_BY_KERNEL_FROM: Final = 17
#: CUDA graphs of an engine that runs up to 1,024 requests, and of one that runs 256.
VLLM_GRAPH_BYTES: Final = (1.5 * GIB, 0.4 * GIB)
#: Memory of libraries: NCCL's buffers where several GPUs make a rank, workspaces.
VLLM_RUNTIME_BYTES: Final = (0.5 * GIB, 2.0 * GIB)

#: What is taken before SGLang loads weights: 139.8 - 137.9 GiB on 8 H200 (InferenceX#2128).
SGLANG_RUNTIME_BYTES: Final = (1.0 * GIB, 2.0 * GIB)
#: ``free_gpu_memory_fraction``: of what is free once weights are loaded and a largest step has run.
TRTLLM_FREE_FRACTION: Final = 0.90
TRTLLM_MAX_TOKENS: Final = 8192.0
TRTLLM_MAX_REQUESTS: Final = 2048.0
TRTLLM_SAMPLER_BYTES: Final = 4.0
TRTLLM_RUNTIME_BYTES: Final = (1.0 * GIB, 2.0 * GIB)

#: Tensors as wide as the hidden state that are alive at once: residual, norm, Q and K and V, attention's result.
HIDDEN_TENSORS: Final = 6.0


def forward_bytes(tokens: Number, hidden: float, experts_per_token: float, mlp_width: float, tp: Number) -> Number:
    """Largest activations of a step of so many tokens, in 16 bits.

    A mixture of experts copies the hidden state for each expert of a token; ``mlp_width`` is that of gate, up and
    their product together, which tensor parallelism splits.
    """
    return 2.0 * tokens * (hidden * (HIDDEN_TENSORS + experts_per_token) + mlp_width / tp)


def vllm_step_tokens(offered_bytes: Number, is_small: Number) -> Number:
    """``max_num_batched_tokens`` of ``vllm serve``: 16,384 from 160 GiB on, 8,192 from 70, else 2,048.

    ``is_small``: whether vLLM treats the GPU as a small one whatever its memory, as the A100.
    """
    large = if_else(offered_bytes >= 160.0 * GIB, 16384.0, 8192.0)
    return if_else((offered_bytes < 70.0 * GIB) | is_small, 2048.0, large)


def vllm_requests(offered_bytes: Number, is_small: Number) -> Number:
    """``max_num_seqs`` of ``vllm serve``: 1,024 from 70 GiB on, else 256."""
    return if_else((offered_bytes < 70.0 * GIB) | is_small, 256.0, 1024.0)


def vllm_usable_bytes(
    offered_bytes: Number, version: Number, forward: Number, requests: Number, vocabulary: float, gpus: Number
) -> Number:
    """``utilization * memory - peak of a profile run - libraries (- CUDA graphs)``; weights count in full.

    ``version`` is n of vLLM 0.n. The profile run is one step of ``max_num_batched_tokens`` and then a sampling of
    ``max_num_seqs`` requests: the larger of the two counts.
    """
    sampler_bytes = if_else(version >= VLLM_SAMPLES_BY_KERNEL_FROM, VLLM_SAMPLER_BYTES[1], VLLM_SAMPLER_BYTES[0])
    peak = largest(forward, requests * vocabulary * sampler_bytes)
    counts_graphs = version >= VLLM_COUNTS_GRAPHS_FROM
    graphs = if_else(counts_graphs, if_else(requests > 256.0, VLLM_GRAPH_BYTES[0], VLLM_GRAPH_BYTES[1]), 0.0)
    utilization = if_else(counts_graphs, VLLM_UTILIZATION[1], VLLM_UTILIZATION[0])
    return utilization * offered_bytes - peak - graphs - _runtime(gpus, VLLM_RUNTIME_BYTES)


def sglang_static_fraction(
    offered_bytes: Number, tp_size: Number, pp: Number, dp: Number, is_latent: bool, role: str
) -> Number:
    """``mem_fraction_static`` of SGLang, the share of memory for weights and KV.

    Kept are 0.5 GiB, 1.5 MiB for each token of a prefill chunk (2 to 16 thousand by memory), 1 GiB for 8 GPUs, and
    CUDA graphs: 2 MiB for each request of the largest decode batch, 3 or 4.5 more for each rank of data parallelism,
    and those of prefill; at least 10 GiB on GPUs above 60 GiB. ``role``: agg, prefill or decode.
    """
    memory = offered_bytes / MIB
    gib = memory / 1024.0
    chunk = if_else(gib < 20, 2048.0, if_else(gib < 60, 4096.0, if_else(gib < 160, 8192.0, 16384.0)))
    few, many = tp_size < 4, if_else(gib < 60, 160.0, 512.0)
    of_few = if_else(gib < 35, 48.0, if_else(gib < 60, 32.0, if_else(gib < 160, 256.0, 512.0)))
    requests = if_else(gib < 20, 8.0, if_else(few, of_few, many))
    reserved = 512.0 + 1.5 * (largest(requests, 2048.0) if role == "decode" else chunk)
    reserved = reserved + tp_size * pp / 8.0 * 1024.0
    if role != "prefill":
        of_ranks = requests * dp * if_else(requests > 300, 4.5, 3.0)
        reserved = reserved + 2.0 * requests + if_else(dp > 1, of_ranks, 0.0)
    if role != "decode":
        reserved = reserved + (1.5 * 1024.0 if is_latent else 480.0)  # of 60 sizes of a chunk, 8 MiB each
    reserved = if_else(gib > 60, largest(reserved, 10.0 * 1024.0), reserved)
    return 1.0 - reserved / memory


def sglang_usable_bytes(offered_bytes: Number, static_fraction: Number, gpus: Number) -> Number:
    """``mem_fraction_static`` of what is free before the weights are loaded; weights count in full."""
    return static_fraction * (offered_bytes - _runtime(gpus, SGLANG_RUNTIME_BYTES))


def trtllm_usable_bytes(offered_bytes: Number, forward: Number, vocabulary: float, gpus: Number) -> Number:
    """``0.9 * (memory - peak of a largest step - libraries)``; of weights 0.9 counts too, as the share is of the rest.

    The largest step has ``max_num_tokens`` tokens and gives logits for ``max_batch_size`` requests.
    """
    peak = largest(forward, TRTLLM_MAX_REQUESTS * vocabulary * TRTLLM_SAMPLER_BYTES)
    return TRTLLM_FREE_FRACTION * (offered_bytes - peak - _runtime(gpus, TRTLLM_RUNTIME_BYTES))


def server_bytes_per_rank(kv_tokens: Number, ranks: Number, session_bytes: Number, session_tokens: Number) -> Number:
    """Bytes of one rank that hold its share of the tokens that the server states for its replica.

    A token takes what it takes of a session of so many tokens: where KV is linear that is the same for all, elsewhere
    the server's figure is of whole sessions too.
    """
    return kv_tokens / ranks * session_bytes / session_tokens


def _runtime(gpus: Number, of_one_and_several: tuple[float, float]) -> Number:
    return if_else(gpus > 1, of_one_and_several[1], of_one_and_several[0])
