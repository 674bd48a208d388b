"""What every InferenceX row says of its deployment: names, precision, engine, shape, and when it ran."""

from dataclasses import dataclass

from schemas.moments import as_text, parse_moment
from schemas.sidecar import Sidecar
from transforms.sources.inferencex_facts import hardware_family, kv_format, weight_formats
from transforms.sources.inferencex_shape import Shape, shape_of
from transforms.sources.record import Record

#: Words for no speculative decoding.
_NO_DRAFTS = ("", "none", "off", "false", "no_spec")


@dataclass(frozen=True)
class Identity:
    """``columns`` are those of a run (``measured.RUN_SCHEMA``), ``beside`` those that only this format has."""

    columns: dict[str, object]
    beside: dict[str, object]
    shape: Shape | None


def identity_of(run: Record, sidecar: Sidecar | None) -> Identity:
    """The deployment of a row; what cannot be used of it becomes the record's problem."""
    framework = (run.text("framework") or "").casefold()
    precision = (run.text("precision") or "").casefold()
    path, prefix = run.text("model"), (run.text("infmax_model_prefix") or run.text("model") or "").casefold()
    prefix = prefix.removesuffix(f"-{precision}")
    family, day = hardware_family(run.text("hw")), _moment(run)
    shape = shape_of(run, framework)
    linear, experts = weight_formats(prefix, precision, family, path)
    if experts is None and not (sidecar and (sidecar.weight_dtype or sidecar.linear_dtype)):
        run.flag(
            "unknown_dtype",
            f"precision {precision!r} of {prefix or path} names no storage format; if you know it, say weight_dtype "
            "and linear_dtype in source.yaml",
        )
    kv = kv_format(prefix, framework, precision, family, day and day[:10])
    said_kv = sidecar is not None and sidecar.kv_dtype is not None
    image = run.text("image") or ""
    columns: dict[str, object] = {
        "hardware": run.text("hw"),
        "precision_name": precision or None,
        "model": path or prefix or None,
        "weight_dtype": experts,
        "linear_dtype": linear,
        "expert_dtype": experts,
        # where no recipe says: a placeholder, replaced by the checkpoint's own when the model is known
        "kv_dtype": kv or "bf16",
        "attention_dtype": "bf16",
        "backend": framework or None,
        "backend_version": image.rpartition(":")[2] or None if ":" in image else None,
        "serving_mode": None if shape is None else "disagg" if shape.disaggregated else "agg",
        **({} if shape is None else shape.columns),
    }
    beside: dict[str, object] = {
        "model_alias": prefix or None,
        "measured_at": day,
        "backend_name": run.text("framework"),
        "kv_dtype_source": "reported" if said_kv else "recipe" if kv else "checkpoint",
        "drafted": (run.text("spec_decoding") or "").casefold() not in _NO_DRAFTS,
    }
    return Identity(columns, beside, shape)


def _moment(run: Record) -> str | None:
    """The day of the row as a moment in UTC."""
    text = run.text("date")
    if text is None:
        return None
    try:
        return as_text(parse_moment(text))
    except ValueError:
        run.flag("not_a_date", f"date is {text!r}, not a date")
        return None
