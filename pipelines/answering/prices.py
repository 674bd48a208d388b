"""Prices at reading time: a user's list, or single prices on the command line, over those of the release."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from schemas.catalogue import HardwareCatalogue
from schemas.errors import UserError
from schemas.prices import Price, with_prices


def priced(hardware: HardwareCatalogue, given: Sequence[str], price_list: Path | None) -> HardwareCatalogue:
    """The hardware with the prices of a list, and of texts such as ``h200=3.50``, which count before the list.

    Prices of the build stay where neither names the GPU. Raises ``UserError`` for a price that is none, and for a GPU
    that is not in the catalogue.
    """
    from pipelines.reading.catalogues import load_prices

    prices = {price.hardware: price for price in load_prices(price_list, hardware)}
    named: dict[str, str] = {}
    for text in given:
        price = _price(text, hardware)
        if named.setdefault(price.hardware, text) != text:
            raise UserError(f"--price {named[price.hardware]} and --price {text} are of one GPU: give one of them.")
        prices[price.hardware] = price
    return with_prices(hardware, prices.values())


def _price(text: str, hardware: HardwareCatalogue) -> Price:
    name, equals, usd = text.partition("=")
    try:
        value = float(usd)
    except ValueError:
        value = float("nan")
    if not equals or not 0 < value <= 1e6:
        raise UserError(f"--price {text}: give a GPU and US dollars an hour of one, h200=3.50 say.")
    slug = hardware.find(name.strip()).slug
    return Price.model_validate(
        {"hardware": slug, "usd_per_gpu_hour": value, "source": "--price", "date": date.today().isoformat()}
    )
