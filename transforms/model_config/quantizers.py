"""The quantisation configs of the common tools: which format each linear layer is stored in.

Understood: Hugging Face ``fp8``, ``mxfp4``, ``fbgemm_fp8``, ``awq`` and ``gptq``, compressed-tensors, ModelOpt
(in config.json or hf_quant_config.json) and Quark. Anything else is an error that names it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from transforms.model_config import formats
from transforms.model_config.formats import Format
from transforms.model_config.modules import ModulePatterns, ancestors, bare
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor

_MODELOPT: dict[str, Format] = {
    "FP8": formats.fp8_tensor(static_inputs=True),
    "FP8_PB_WO": formats.fp8_block(128, 128, 4),
    "FP8_PER_CHANNEL_PER_TOKEN": formats.fp8_channel(4),
    "NVFP4": formats.nvfp4(),
    "W4A16_NVFP4": formats.nvfp4(tensor_scales=4),
    "NVFP4_AWQ": formats.nvfp4(),
    "MXFP4": formats.mxfp4(),
    "MXFP8": formats.fp8_block(1, 32, 1),
    "W4A8_MXFP4_FP8": formats.mxfp4(),
    "W4A16_AWQ": formats.int4(128),
    "W4A8_AWQ": formats.int4(128),
    "INT8_SQ": formats.int8_channel(),
    "W8A16": formats.int8_channel(),
}

#: Gives the format of a linear layer; None where it is left in 16 bits.
Chooser = Callable[[Tensor], Format | None]


def choose_formats(config: RawConfig, quantization: RawConfig) -> Chooser:
    """The format of each linear layer under a checkpoint's quantisation config.

    Raises ``UserError`` that names an unknown method, algorithm or format.
    """
    method = quantization.text("quant_method", default="modelopt" if quantization.has("quant_algo") else "")
    readers: dict[str, Callable[[RawConfig, RawConfig], Chooser]] = {
        "fp8": _fp8,
        "fbgemm_fp8": lambda _, q: _everywhere(q, formats.fp8_channel(4)),
        "mxfp4": lambda _, q: _experts_only(q, formats.mxfp4()),
        "compressed-tensors": _compressed_tensors,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
        "awq": _weight_only,
        "gptq": _weight_only,
        "quark": _quark,
    }
    if method not in readers:
        raise config.wrong(("quantization_config.quant_method",), method, f"one of {', '.join(readers)}")
    return readers[method](config, quantization)


def _left_out(quantization: RawConfig, *keys: str) -> ModulePatterns:
    return ModulePatterns(str(item) for item in quantization.items(*keys) or [])


def _everywhere(quantization: RawConfig, chosen: Format) -> Chooser:
    left_out = _left_out(quantization, "modules_to_not_convert", "exclude_modules", "ignore")
    return lambda tensor: None if left_out.match(tensor.module) else chosen


def _experts_only(quantization: RawConfig, chosen: Format) -> Chooser:
    left_out = _left_out(quantization, "modules_to_not_convert")

    def choose(tensor: Tensor) -> Format | None:
        return None if tensor.part != "routed_experts" or left_out.match(tensor.module) else chosen

    return choose


def _fp8(config: RawConfig, quantization: RawConfig) -> Chooser:
    """FP8 of DeepSeek and its like; the experts may be FP4 (``expert_dtype``, or ModelOpt on top)."""
    block = quantization.items("weight_block_size")
    if block is None:
        static = quantization.text("activation_scheme", default="dynamic") == "static"
        dense = formats.fp8_tensor(static_inputs=static)
    elif len(block) == 2 and all(isinstance(size, int) and size > 0 for size in block):
        dense = formats.fp8_block(block[0], block[1], _scale_bytes(config, quantization))
    else:
        raise quantization.wrong(("weight_block_size",), block, "two whole numbers")
    experts = dense
    if quantization.has("moe_quant_algo"):
        experts = _algorithm(quantization, quantization.text("moe_quant_algo"))
    elif config.has("expert_dtype"):
        name = config.text("expert_dtype")
        if name not in ("fp4", "fp8"):
            raise config.wrong(("expert_dtype",), name, "'fp4' or 'fp8'")
        experts = formats.mxfp4() if name == "fp4" else dense
    left_out = _left_out(quantization, "modules_to_not_convert")

    def choose(tensor: Tensor) -> Format | None:
        if left_out.match(tensor.module):
            return None
        return experts if tensor.part == "routed_experts" else dense

    return choose


def _scale_bytes(config: RawConfig, quantization: RawConfig) -> int:
    """DeepSeek-V4 stores its scales as 8-bit exponents; V3.2 rounds them to powers of two but stores 4 bytes."""
    if quantization.items("weight_block_size") == [1, 32]:
        return 1  # MXFP8: an 8-bit exponent for 32 values
    exponents = quantization.text("scale_fmt", default="") == "ue8m0"
    return 1 if exponents and config.has("compress_ratios") else 4


def _algorithm(quantization: RawConfig, name: str) -> Format:
    if name not in _MODELOPT:
        raise quantization.wrong(("quant_algo",), name, f"one of {', '.join(_MODELOPT)}, MIXED_PRECISION")
    return _MODELOPT[name]


def _modelopt(config: RawConfig, quantization: RawConfig) -> Chooser:
    name = quantization.text("quant_algo")
    if name != "MIXED_PRECISION":
        return _everywhere(quantization, _algorithm(quantization, name))
    layers = quantization.section("quantized_layers") or {}
    chosen = {
        bare(module): _algorithm(quantization, RawConfig(config.model, entry).text("quant_algo"))
        for module, entry in layers.items()
    }

    def choose(tensor: Tensor) -> Format | None:
        return next((chosen[name] for name in ancestors(bare(tensor.module)) if name in chosen), None)

    return choose


def _compressed_tensors(config: RawConfig, quantization: RawConfig) -> Chooser:
    left_out = _left_out(quantization, "ignore")
    groups = []
    for name, entry in (quantization.section("config_groups") or {}).items():
        group = RawConfig(config.model, entry)
        targets = [str(target) for target in group.items("targets") or ["Linear"]]
        everything = "Linear" in targets
        groups.append((everything, ModulePatterns(targets), _compressed_format(config, quantization, group, name)))

    def choose(tensor: Tensor) -> Format | None:
        if left_out.match(tensor.module):
            return None
        return next(
            (chosen for all_of_them, targets, chosen in groups if all_of_them or targets.match(tensor.module)),
            None,
        )

    return choose


def _compressed_format(config: RawConfig, quantization: RawConfig, group: RawConfig, name: str) -> Format:
    weights = RawConfig(config.model, group.section("weights") or {})
    bits, kind = weights.positive("num_bits"), weights.text("type", default="int")
    layout = group.text("format", default=quantization.text("format", default=""))
    strategy = weights.text("strategy", default="tensor")
    size = weights.integer("group_size", default=0)
    if (bits, kind) == (8, "float") and layout != "mxfp8-quantized":
        if strategy == "block":
            rows, columns = weights.items("block_structure") or [128, 128]
            return formats.fp8_block(rows, columns, 4)
        return formats.fp8_channel(2) if strategy == "channel" else formats.fp8_tensor(static_inputs=True)
    if (bits, kind) == (8, "int"):
        return formats.int8_channel()
    if (bits, kind) == (4, "int"):
        zero_points = not weights.flag("symmetric", default=True)
        return formats.int4(size or 128, zero_points=zero_points, shape_bytes=8)
    if (bits, kind) == (4, "float") and ("mxfp4" in layout or size == 32):
        return formats.mxfp4()
    if (bits, kind) == (4, "float") and size == 16:
        return formats.nvfp4()
    shown = f"{bits} bits, type {kind!r}, strategy {strategy!r}, group_size {size}, format {layout!r}"
    raise quantization.wrong((f"config_groups.{name}.weights",), shown, "FP8, NVFP4, MXFP4, INT4 or INT8")


def _weight_only(config: RawConfig, quantization: RawConfig) -> Chooser:
    """AWQ and GPTQ."""
    bits = quantization.positive("bits", "w_bit")
    if bits == 8:
        return _everywhere(quantization, formats.int8_channel())
    if bits != 4:
        raise quantization.wrong(("bits",), bits, "4 or 8")
    group = quantization.positive("group_size", "q_group_size", default=128)
    return _everywhere(quantization, formats.int4(group, zero_points=True))


def _quark(config: RawConfig, quantization: RawConfig) -> Chooser:
    left_out = _left_out(quantization, "exclude")
    default = _quark_format(config, quantization.section("global_quant_config"))
    named = [
        (ModulePatterns([pattern]), _quark_format(config, entry))
        for pattern, entry in (quantization.section("layer_quant_config") or {}).items()
    ]

    def choose(tensor: Tensor) -> Format | None:
        if left_out.match(tensor.module):
            return None
        return next((chosen for pattern, chosen in named if pattern.match(tensor.module)), default)

    return choose


def _quark_format(config: RawConfig, section: Mapping[str, Any] | None) -> Format | None:
    weight = (section or {}).get("weight")
    if weight is None:
        return None
    weights = RawConfig(config.model, weight[0] if isinstance(weight, list) else weight)
    name = weights.text("dtype")
    if name == "fp4" and weights.positive("group_size", default=32) == 32:
        return formats.mxfp4()
    if name.startswith("fp8"):
        scheme = weights.text("qscheme", default="per_tensor")
        return formats.fp8_channel(4) if scheme == "per_channel" else formats.fp8_tensor(static_inputs=True)
    if name in ("int4", "uint4"):
        return formats.int4(weights.positive("group_size", default=128), zero_points=name == "uint4")
    if name == "int8":
        return formats.int8_channel()
    raise weights.wrong(("dtype",), name, "fp4 with groups of 32, fp8, int4 or int8")
