"""Looked-up figures: every field of the bundles has its column, and every private column its field."""

from pipelines.reading.catalogues import load_hardware
from schemas.options import Pool
from tests.transforms import factory
from transforms.agent_points.rows.columns import ROW_FIGURES
from transforms.agent_points.rows.gpu import POOLS, Gpu
from transforms.agent_points.rows.lookups import Deployed, add_private_columns
from transforms.agent_points.rows.rows import LookedUp, Rows


def fields(bundle: type) -> set[str]:
    return {name for name, field in vars(bundle).items() if isinstance(field, LookedUp)}


def test_fields_and_private_columns_are_the_same() -> None:
    points = factory.shipped_points(factory.MIXED_BACKENDS).rename(ROW_FIGURES)
    looked_up = add_private_columns(points, factory.model("llama-3-1-8b"), load_hardware())
    private = {name for name in looked_up.columns if name.startswith("_")}
    of_gpus = {f"_{pool}_{name}" for pool in POOLS for name in fields(Gpu)}
    assert private == of_gpus | {f"_{name}" for name in fields(Deployed)}


def test_a_figure_is_the_one_of_its_own_pool_and_row() -> None:
    points = factory.shipped_points(factory.MIXED_BACKENDS).rename(ROW_FIGURES)
    rows = Rows(add_private_columns(points, factory.model("llama-3-1-8b"), load_hardware()))
    h200 = factory.hardware("h200-sxm")
    pool: Pool
    for pool in POOLS:
        assert set(Gpu(rows, pool).hbm_bytes) == {float(h200.hbm_bytes)}
    serial = (points["backend"] == "vllm").to_list()
    assert Deployed(rows).is_serial.tolist() == serial
