"""How a checkpoint stores its weights: the format and the bytes of each of its tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.dtypes import WEIGHT_DTYPES, KvDtype, WeightDtype
from schemas.errors import UserError
from transforms.model_config import formats
from transforms.model_config.formats import Format
from transforms.model_config.quantizers import Chooser, choose_formats
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor

#: Parts whose linear layers engines quantise.
QUANTISED_PARTS = frozenset({"attention", "dense_mlp", "shared_experts", "routed_experts", "mtp"})
_NATIVE_DTYPES: dict[str, WeightDtype] = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class Quantization:
    """The formats of a checkpoint's weights and the KV format that it was calibrated for."""

    native: WeightDtype
    choose: Chooser
    kv_dtype: KvDtype | None = None

    def dtype_of(self, tensor: Tensor) -> WeightDtype:
        """Format of the tensor; 16 bits for everything that is not a quantised linear layer."""
        chosen = self._format(tensor)
        return self.native if chosen is None else chosen.dtype

    def bytes_of(self, tensor: Tensor) -> int:
        """Stored bytes of the tensor, all copies, scales included."""
        chosen = self._format(tensor)
        if chosen is not None:
            rows, columns = tensor.shape
            return chosen.matrix_bytes(rows, columns) * tensor.copies
        width = {"float32": 4, "int64_buffer": 8}.get(tensor.storage, 2)
        return tensor.elements * width

    def _format(self, tensor: Tensor) -> Format | None:
        if tensor.storage != "linear" or tensor.part not in QUANTISED_PARTS:
            return None
        return self.choose(tensor)


def read_quantization(config: RawConfig, hf_quant_config: Mapping[str, Any] | None = None) -> Quantization:
    """The quantisation of config.json, else of a ModelOpt hf_quant_config.json, else 16 bits.

    Raises ``UserError`` for a method, an algorithm or a native dtype that is not known.
    """
    native = _native_dtype(config)
    beside = _modelopt_section(config, hf_quant_config)
    section = config.section("quantization_config") or beside
    if section is None:
        return Quantization(native, lambda tensor: None)
    quantization = RawConfig(config.model, section)
    kv_dtype = _kv_dtype(quantization)
    if kv_dtype is None and beside is not None:
        kv_dtype = _kv_dtype(RawConfig(config.model, beside))
    return Quantization(native, choose_formats(config, quantization), kv_dtype)


def with_weight_dtype(quantization: Quantization, dtype: str, *, mixture: bool) -> Quantization:
    """The same checkpoint served in another weight format.

    On a mixture a 4-bit format is the routed experts' and the rest stays as it is stored (the recipe of
    Kimi-K2.5 and gpt-oss); otherwise every linear layer takes it. Raises ``UserError`` for an unknown one.
    """
    if dtype not in formats.BY_NAME:
        raise UserError(f"Unknown weight format {dtype!r}; known: {', '.join(WEIGHT_DTYPES)}.")
    served = formats.BY_NAME[dtype]
    experts_only = mixture and dtype in ("int4", "nvfp4", "mxfp4")

    def choose(tensor: Tensor) -> Format | None:
        if experts_only and tensor.part != "routed_experts":
            return quantization.choose(tensor)
        return served

    return Quantization(quantization.native, choose, quantization.kv_dtype)


def _native_dtype(config: RawConfig) -> WeightDtype:
    """16-bit format of what is not quantised; BF16 where the config does not say."""
    name = config.text("dtype", "torch_dtype", default="bfloat16")
    if name not in _NATIVE_DTYPES:
        raise config.wrong(("torch_dtype",), name, f"one of {', '.join(_NATIVE_DTYPES)}")
    return _NATIVE_DTYPES[name]


def _modelopt_section(config: RawConfig, hf_quant_config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if hf_quant_config is None:
        return None
    section = hf_quant_config.get("quantization")
    if not isinstance(section, Mapping):
        raise UserError(f"hf_quant_config.json of {config.model}: `quantization` is missing.")
    return section


def _kv_dtype(quantization: RawConfig) -> KvDtype | None:
    """KV format that a quantisation config asks for; None where it says nothing."""
    scheme = quantization.fields.get("kv_cache_scheme") or quantization.fields.get("kv_cache_quant_algo")
    if scheme is None:
        return None
    if isinstance(scheme, Mapping):
        bits = (scheme.get("num_bits"), scheme.get("type"))
        known: dict[Any, KvDtype] = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "nvfp4"}
        if bits in known:
            return known[bits]
    named: dict[Any, KvDtype] = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}
    if isinstance(scheme, str) and scheme in named:
        return named[scheme]
    raise quantization.wrong(("kv_cache_scheme",), scheme, "FP8, INT8 or NVFP4")
