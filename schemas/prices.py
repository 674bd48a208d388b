"""A price list: what an hour of one GPU costs, by whom and when it was asked (a user's file; none is shipped)."""

from collections.abc import Iterable
from datetime import date
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from schemas.catalogue import HardwareCatalogue
from schemas.hardware import Hardware
from schemas.sentences import show
from schemas.slugs import PAIR


def _day(value: Any) -> date:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"date is {show(value)}, must be a date: 2026-03-01") from None


Day = Annotated[date, BeforeValidator(_day)]


class Price(BaseModel):
    """One entry of a price list."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    hardware: str = Field(min_length=1, description="GPU: slug, name or alias")
    usd_per_gpu_hour: float = Field(gt=0.0, le=1e6, description="US dollars for one GPU for one hour")
    source: str = Field(min_length=1, max_length=300, description="who asks that price, or where it was read")
    date: Day = Field(description="when the price was valid")


class PricedHardware(Hardware):
    """A GPU with its price. No catalogue file has one: prices age faster than data sheets."""

    usd_per_gpu_hour: float = Field(gt=0.0)


def with_prices(hardware: HardwareCatalogue, prices: Iterable[Price]) -> HardwareCatalogue:
    """The catalogue with the prices on its GPUs; ``hardware`` of a price is a slug."""
    usd = {price.hardware: price.usd_per_gpu_hour for price in prices}
    return HardwareCatalogue(
        tuple(
            PricedHardware.model_validate({**dict(gpu), "usd_per_gpu_hour": usd[gpu.slug]}) if gpu.slug in usd else gpu
            for gpu in hardware
        )
    )


def unpriced(prices: Iterable[Price], hardware: Iterable[str]) -> tuple[str, ...]:
    """The GPUs of these slugs, of pairs too, that a price list leaves out; none where it is empty."""
    priced = {price.hardware for price in prices}
    gpus = {gpu for slug in hardware for gpu in slug.split(PAIR)}
    return tuple(sorted(gpus - priced)) if priced else ()


def prices_of(hardware: HardwareCatalogue) -> dict[str, float]:
    """USD per GPU-hour by slug, of the GPUs that have a price."""
    return {gpu.slug: gpu.usd_per_gpu_hour for gpu in hardware if isinstance(gpu, PricedHardware)}
