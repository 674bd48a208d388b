"""The shipped hardware catalogue: right figures, each with a source, and names that match exactly."""

import json
import os
from pathlib import Path

import pytest

from pipelines.reading.catalogues import load_hardware
from schemas.errors import UserError
from schemas.hardware import Hardware

TERA = 1e12

# model.md 8: bytes/s, FP16, FP8, FP4 FLOP/s, printed GB, bytes a driver reports.
# MI355X: the driver reports 16 MiB less than the nominal 288 GiB.
ARTICLE = {
    "h100-sxm": (3.35e12, 989e12, 1979e12, None, 80, 85_899_345_920),
    "h200-sxm": (4.8e12, 989e12, 1979e12, None, 141, 151_397_597_184),
    "b200": (8e12, 2250e12, 4500e12, 9000e12, 192, 193_273_528_320),
    "mi355x": (8e12, 2500e12, 5000e12, 10_000e12, 288, 288 * 2**30 - 16 * 2**20),
}

# AIConfigurator 0.12.0 systems/*.yaml (mem_bw, *_tc_flops, mem_capacity) and AMD's data sheets.
OTHERS = {
    "gb200": (8e12, 2500e12, 5000e12, 10_000e12, 189_471 * 2**20),
    "b300": (7.75e12, 2250e12, 4500e12, 14_000e12, 275_040 * 2**20),
    "gb300": (8e12, 2500e12, 5000e12, 15_000e12, 284_208 * 2**20),
    "a100-sxm": (2.039e12, 312e12, None, None, 80 * 2**30),
    "l40s": (864e9, 362.05e12, 733e12, None, 46_068 * 2**20),
    "h100-pcie": (2e12, 756.5e12, 1513e12, None, 80 * 2**30),
    "mi300x": (5.3e12, 1307.4e12, 2614.9e12, None, 206_141_652_992),
    "mi325x": (6e12, 1307.4e12, 2614.9e12, None, 262_128 * 2**20),
    "mi350x": (8e12, 2306.9e12, 4613.7e12, 9227.5e12, 288 * 2**30 - 16 * 2**20),
    "rtx-pro-6000": (1.792e12, 467.8e12, 935.6e12, 1871.2e12, 97_887 * 2**20),
    "b60": (456e9, 98.304e12, None, None, 24 * 2**30),
}

# What the vendors print WITH sparsity (TFLOP/s, BF16): twice what the catalogue must hold.
SPARSE_BF16 = {
    "h100-sxm": 1979,
    "h200-sxm": 1979,
    "b200": 4500,
    "b300": 4500,
    "gb200": 5000,
    "gb300": 5000,
    "a100-sxm": 624,
    "l40s": 733,
    "h100-pcie": 1513,
    "mi300x": 2614.9,
    "mi325x": 2614.9,
    "mi350x": 4613.7,  # at its 2.2 GHz what MI355X prints at 2.4
    "mi355x": 5033.2,
}


@pytest.mark.parametrize("slug", ARTICLE)
def test_the_articles_four_carry_its_figures(slug: str) -> None:
    bandwidth, bf16, fp8, fp4, printed, reported = ARTICLE[slug]
    gpu = load_hardware().get(slug)
    assert gpu.hbm_bandwidth_bytes_per_s == bandwidth
    assert (gpu.flops_per_s.bf16, gpu.flops_per_s.fp8, gpu.flops_per_s.fp4) == (bf16, fp8, fp4)
    assert gpu.hbm_printed_gb == printed
    assert gpu.hbm_bytes == reported


@pytest.mark.parametrize("slug", OTHERS)
def test_the_others_carry_their_sources_figures(slug: str) -> None:
    bandwidth, bf16, fp8, fp4, reported = OTHERS[slug]
    gpu = load_hardware().get(slug)
    assert gpu.hbm_bandwidth_bytes_per_s == bandwidth
    assert (gpu.flops_per_s.bf16, gpu.flops_per_s.fp8, gpu.flops_per_s.fp4) == (bf16, fp8, fp4)
    assert gpu.hbm_bytes == reported


def test_nothing_else_is_shipped() -> None:
    assert {gpu.slug for gpu in load_hardware()} == set(ARTICLE) | set(OTHERS)


@pytest.mark.parametrize("slug", SPARSE_BF16)
def test_rates_are_dense(slug: str) -> None:
    assert load_hardware().get(slug).flops_per_s.bf16 == pytest.approx(SPARSE_BF16[slug] * TERA / 2, rel=0.015)


@pytest.mark.parametrize("gpu", list(load_hardware()), ids=lambda gpu: gpu.slug)
def test_every_figure_has_a_source(gpu: Hardware) -> None:
    assert set(gpu.sources) == {*gpu.figures, "aliases"}
    assert all(source.strip() for source in gpu.sources.values())


@pytest.mark.parametrize("gpu", list(load_hardware()), ids=lambda gpu: gpu.slug)
def test_memory_is_near_what_is_printed(gpu: Hardware) -> None:
    """A driver reports GiB where a data sheet prints GB, or a little less than the stacks hold."""
    assert 1.0 <= gpu.hbm_bytes / (gpu.hbm_printed_gb * 1e9) <= 2**30 / 1e9 + 1e-9


def test_links_of_a_rack_reach_further_than_a_node() -> None:
    catalogue = load_hardware()
    assert {gpu.slug for gpu in catalogue if gpu.scale_up_gpus > gpu.gpus_per_node} == {"gb200", "gb300"}
    assert catalogue.get("gb200").scale_up_gpus == 72
    assert catalogue.get("mi300x").scale_up_bytes_per_s == 7 * 64e9  # 7 links, one direction
    assert catalogue.get("mi355x").scale_up_bytes_per_s == pytest.approx(7 * 76.8e9)


def test_fp4_weights_compute_at_fp8_where_there_is_no_fp4() -> None:
    catalogue = load_hardware()
    assert catalogue.get("h100-sxm").compute_flops_per_s("nvfp4") == 1979e12
    assert catalogue.get("b200").compute_flops_per_s("nvfp4") == 9000e12
    assert catalogue.get("a100-sxm").compute_flops_per_s("fp8") == 312e12


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("h100-sxm", "h100-sxm"),
        ("H100 SXM", "h100-sxm"),
        ("h100_sxm", "h100-sxm"),  # AIConfigurator
        ("h200_sxm", "h200-sxm"),
        ("b200_sxm", "b200"),
        ("b300_sxm", "b300"),
        ("rtx_pro_6000_server", "rtx-pro-6000"),
        ("b60", "b60"),
        ("gb200", "gb200"),
        ("gb200_sxm", "gb200"),  # AIConfigurator before 0.8
        ("gb300", "gb300"),
        ("a100_sxm", "a100-sxm"),
        ("l40s", "l40s"),
        ("h200", "h200-sxm"),  # InferenceX
        ("mi300x", "mi300x"),
        ("h200-nv", "h200-sxm"),
        ("H200-nv_3", "h200-sxm"),  # case 05
        ("h200-dgxc-slurm_5", "h200-sxm"),
        ("h200-dgxc-slurm", "h200-sxm"),
        ("b200-nv", "b200"),
        ("b200-nb_1", "b200"),
        ("b200-dgxc-slurm_08", "b200"),
        ("mi355x-amds", "mi355x"),
        ("MI355-gbt350-odcdh5-wbb3", "mi355x"),
        ("cluster:b300-nv", "b300"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),  # nvidia-smi
        ("nvidia h200", "h200-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm"),
        ("AMD Instinct MI325X", "mi325x"),
        ("  mi325x ", "mi325x"),
    ],
)
def test_names_in_the_table_are_found(name: str, slug: str) -> None:
    assert load_hardware().find(name).slug == slug


@pytest.mark.parametrize(
    "name",
    [
        "h200-acme",  # case 05: an unknown host is never the GPU that it is named after
        "h200-acme_3",
        "h200-nv_",
        "h200-nv_3_4",
        "h200-nv-3",
        "_3",
        "h200_3",  # an index belongs to a runner
        "a100_40",  # the smaller A100 is another GPU
        "NVIDIA A100-SXM4-40GB",
        "h100-nvl",
        "cluster:",
        "cluster:h200-acme",
        "mi455x",
        "h100 ; h200",
        "",
    ],
)
def test_names_outside_the_table_are_refused(name: str) -> None:
    assert load_hardware().lookup(name) is None
    with pytest.raises(UserError, match="Unknown hardware"):
        load_hardware().find(name)


def test_an_unknown_name_is_answered_with_the_nearest_and_what_to_do() -> None:
    with pytest.raises(UserError) as caught:
        load_hardware().find("h10-sxm")
    message = str(caught.value)
    assert "Unknown hardware 'h10-sxm'. Did you mean 'h100-sxm'?" in message
    assert "Known: h100-sxm, h200-sxm, b200, mi355x" in message
    assert "--hardware FILE" in message


def test_get_takes_slugs_only() -> None:
    with pytest.raises(UserError, match="Unknown hardware 'h200-nv'"):
        load_hardware().get("h200-nv")


SHARED = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[3] / "shared"))


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no shared tables at {SHARED} (AGENT_PARETO_SHARED)")
def test_every_name_in_the_measured_tables_is_found() -> None:
    """InferenceX's rows: nine GPUs of the dashboard, and the runners of its result files."""
    rows = json.loads((SHARED / "tables/measured/inferencex_api/benchmarks.json").read_text())
    names = {row["hardware"] for row in rows if row["hardware"]}
    for path in (SHARED / "tables/measured").glob("*/*__agg_*.json"):
        names.add(path.stem.rsplit("_conc", 1)[1].split("_", 1)[1])  # ..._conc16_b200-dgxc-slurm_5
    assert {"mi355x", "b200-nb_1", "b200-dgxc-slurm_7", "MI355-gbt350-odcdh5-wbb3"} <= names
    found = {name: load_hardware().find(name).slug for name in names}
    assert len(set(found.values())) == 9
