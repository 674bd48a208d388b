"""Which layer is of which kind: the patterns that configs write down in different ways."""

from collections.abc import Collection, Mapping

from transforms.model_config.raw import RawConfig


def layer_count(config: RawConfig) -> int:
    """Number of layers; there is no default."""
    return config.positive("num_hidden_layers")


def layer_types(config: RawConfig, known: Collection[str]) -> list[str] | None:
    """``layer_types``, one known name a layer; None where the config has none."""
    types = config.items("layer_types")
    if types is None:
        return None
    _must_have_one_a_layer(config, "layer_types", len(types))
    for index, name in enumerate(types):
        if name not in known:
            raise config.wrong(("layer_types",), name, f"one of {', '.join(sorted(known))} (layer {index})")
    return [str(name) for name in types]


def flags_of_layers(config: RawConfig, key: str) -> list[bool] | None:
    """A list of 0 and 1, one a layer; None where the config has none."""
    values = config.items(key)
    if values is None:
        return None
    _must_have_one_a_layer(config, key, len(values))
    for index, value in enumerate(values):
        if value not in (0, 1):
            raise config.wrong((key,), value, f"0 or 1 (layer {index})")
    return [bool(value) for value in values]


def coded_layers(config: RawConfig, key: str, codes: Mapping[str, str]) -> list[str]:
    """The layers of a pattern string such as ``M-M*E``. Raises ``UserError`` for an unknown code."""
    pattern = config.text(key)
    for index, code in enumerate(pattern):
        if code not in codes:
            known = ", ".join(f"{code!r} ({name})" for code, name in codes.items())
            raise config.wrong((key,), code, f"made of the layer codes {known} (layer {index})")
    return [codes[code] for code in pattern]


def windows(config: RawConfig, types: list[str] | None, *, windowed: Collection[int] = ()) -> list[int | None]:
    """Window of each layer in tokens: of ``sliding_attention`` layers, else of the layers ``windowed``."""
    count = layer_count(config)
    if types is not None:
        windowed = [index for index, name in enumerate(types) if name == "sliding_attention"]
    if not windowed:
        return [None] * count
    window = config.positive("sliding_window")
    return [window if index in set(windowed) else None for index in range(count)]


def expert_layers(config: RawConfig) -> list[bool]:
    """Which layers are mixtures, in the manner of DeepSeek: dense first, then every ``moe_layer_freq``-th."""
    count = layer_count(config)
    types = config.items("mlp_layer_types")
    if types is not None:
        _must_have_one_a_layer(config, "mlp_layer_types", len(types))
        for index, name in enumerate(types):
            if name not in ("dense", "sparse"):
                raise config.wrong(("mlp_layer_types",), name, f"'dense' or 'sparse' (layer {index})")
        return [name == "sparse" for name in types]
    if isinstance(config.fields.get("moe_layer_freq"), list):
        return flags_of_layers(config, "moe_layer_freq") or []
    first, every = (
        config.integer("first_k_dense_replace", default=0),
        config.positive("moe_layer_freq", default=1),
    )
    return [index >= first and index % every == 0 for index in range(count)]


def _must_have_one_a_layer(config: RawConfig, key: str, found: int) -> None:
    count = layer_count(config)
    if found != count:
        raise config.wrong((key,), f"a list of {found}", f"a list of num_hidden_layers = {count}")
