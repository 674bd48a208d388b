"""The explorer in a browser: what the chart holds is what the lake holds, and sliders do what the pipeline does."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Browser

from pipelines.answering.release_contents import open_contents
from pipelines.explorer.site import Site
from pipelines.explorer.write import write_site
from pipelines.lake.reader import current_release
from tests.explorer.browser import Watched, chromium, needs_chromium, screenshot, served, watched_page
from tests.explorer.page_equations import (
    hit_differences,
    latency_at_hit_rate,
    miss_differences,
    ms_per_flop,
    rate_at_hit_rate,
    session_figures,
)
from transforms.agent_points.prepare import prepare_points
from transforms.agent_points.rows.lookups import stations
from transforms.agent_points.single_turns import ON_HIT, ON_MISS, turn_differences, turn_work
from transforms.configurations import schedule_number
from transforms.equations.curve import sessions_that_fit
from transforms.equations.kv_memory import session_bytes_on_rank
from transforms.frontier import mark_frontiers

WALL_REASONS = ("kv_capacity", "kv_capacity_below_table", "host_memory_capacity")
FIRST_CHART_S = 2.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    needs_chromium()
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def address(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The written page, from Python's own file server."""
    needs_chromium()
    folder = tmp_path_factory.mktemp("page") / "site"
    write_site(Site(lake), folder)
    with served(folder) as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: Browser, address: str) -> Iterator[Watched]:
    """One tab for all tests: files that it has fetched stay in its cache."""
    with watched_page(browser, address) as watched:
        yield watched


@pytest.fixture
def page(tab: Watched) -> Iterator[Watched]:
    """The explorer, opened anew; whatever a test does, it must neither complain nor ask elsewhere."""
    tab.open()
    yield tab
    assert tab.complaints == []
    assert tab.outside == []


@pytest.fixture(scope="module")
def points(lake: Path) -> pl.DataFrame:
    """The lake's agent points."""
    folder = current_release(lake).path / "agent_points"
    return pl.read_parquet(folder / "**/*.parquet", hive_partitioning=True)


def of_scenario(points: pl.DataFrame, scenario: str = "code-agent") -> pl.DataFrame:
    return points.filter(pl.col("scenario") == scenario)


def coordinates(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    return sorted((row["series"], row["x"], row["y"]) for row in rows)


def assert_same_points(drawn: list[dict[str, Any]], wanted: pl.DataFrame, x: pl.Expr, y: pl.Expr) -> None:
    """The chart holds exactly these rows, each coordinate within 1e-9."""
    series = pl.concat_str("hardware", "weight_dtype", separator=" ")
    expected = sorted(wanted.select(series, x.alias("x"), y.alias("y")).rows())
    found = coordinates(drawn)
    assert [row[0] for row in found] == [row[0] for row in expected]
    np.testing.assert_allclose([row[1:] for row in found], [row[1:] for row in expected], rtol=1e-9)


PARTITION = "agent_points/hardware=h100-sxm/model=llama-3-1-70b/scenario=code-agent/part-0.parquet"
LATENCY_S = pl.col("turn_latency_ms") / 1e3


def test_the_chart_holds_the_lake_s_frontiers_and_counts_its_rows(page: Watched, points: pl.DataFrame) -> None:
    rows = of_scenario(points)
    assert page.js("explorer.worked.counts.rows") == rows.height
    assert f"{rows.height:,} rows of the release" in page.page.inner_text("#status")
    assert_same_points(page.drawn("frontier"), rows.filter("on_frontier"), LATENCY_S, pl.col("tasks_per_hour_per_gpu"))
    counts = page.js("explorer.worked.counts")
    assert counts["below"] == rows.filter(pl.col("feasible") & ~pl.col("on_frontier")).height
    assert counts["beyond"] == rows.filter(pl.col("infeasible_reason").is_in(WALL_REASONS)).height
    assert counts["impossible"] == rows.filter(
        ~pl.col("feasible") & ~pl.col("infeasible_reason").is_in(WALL_REASONS)
    ).height  # fmt: skip


@pytest.mark.parametrize(
    ("x", "column", "lower", "scale"),
    [("task", "task_time_s", True, 1), ("e2e", "e2e_tokens_per_s_per_user", False, 1),
     ("decode", "decode_tokens_per_s_per_user", False, 1)],
)  # fmt: skip
def test_other_axes(page: Watched, points: pl.DataFrame, x: str, column: str, lower: bool, scale: float) -> None:
    """The frontier is worked out anew on the chosen axes."""
    page.after(lambda: page.page.select_option("[name=scenario]", "research-agent"))
    page.after(lambda: page.page.select_option("[name=x]", x))
    page.after(lambda: page.page.select_option("[name=y]", "sessions"))
    rows = of_scenario(points, "research-agent")
    cost = pl.col(column) if lower else -pl.col(column)
    swapped = rows.with_columns(turn_latency_ms=cost, turns_per_s_per_gpu="sessions_per_gpu")
    best = mark_frontiers(swapped.with_columns(turns_per_s_per_cluster_gpu=pl.lit(None, pl.Float64)))
    wanted = rows.filter(best["on_frontier"])
    assert_same_points(page.drawn("frontier"), wanted, pl.col(column) * scale, pl.col("sessions_per_gpu"))


def test_cost(page: Watched, points: pl.DataFrame) -> None:
    """Least cost against turn latency, at the published pause and at another."""
    page.after(lambda: page.page.select_option("[name=y]", "cost"))
    rows = of_scenario(points)
    swapped = rows.with_columns(turns_per_s_per_gpu=1 / pl.col("usd_per_task"))
    best = mark_frontiers(swapped.with_columns(turns_per_s_per_cluster_gpu=pl.lit(None, pl.Float64)))
    assert_same_points(page.drawn("frontier"), rows.filter(best["on_frontier"]), LATENCY_S, pl.col("usd_per_task"))
    page.after(lambda: page.page.fill("#z", "10"))
    costs = page.js(
        """explorer.worked.points.map(({row, figures}) =>
             [explorer.rows.hardware[row], figures.usd_per_task * figures.tasks_per_hour_per_gpu])"""
    )
    assert {(gpu, round(price, 9)) for gpu, price in costs} == {("h100-sxm", 2.5), ("h200-sxm", 3.25)}


CHANGED = ("sessions", "activity_fraction", "turn_latency_ms", "task_time_s", "tasks_per_hour_per_gpu",
           "output_tokens_per_s_per_gpu", "e2e_tokens_per_s_per_user", "sessions_per_gpu", "max_sessions")  # fmt: skip


def assert_page_has(page: Watched, rows: pl.DataFrame, rate: pl.Expr, latency_s: pl.Expr, think_time_s: float) -> None:
    """The page's figures of every row are what the pipeline's functions make of these, within 1e-9."""
    figures = session_figures(rate, latency_s, think_time_s, 8, 128, stations(), pl.col("gpus_per_replica"))
    figures["max_sessions"] = sessions_that_fit(
        pl.col("max_parked_sessions"), pl.col("max_in_flight_requests"), figures["activity_fraction"]
    )
    wanted = rows.with_columns(**figures, key=pl.col("hardware") + pl.col("point_id")).sort("key")
    found = page.js(
        """explorer.worked.points.filter((point) => !point.atWall).map(({row, figures, feasible}) => ({
             key: explorer.rows.hardware[row] + explorer.rows.value(row, 'point_id'), feasible, ...figures}))"""
    )
    by_key = sorted(found, key=lambda point: str(point["key"]))
    assert [point["key"] for point in by_key] == wanted["key"].to_list()
    for name in CHANGED:
        np.testing.assert_allclose([point[name] for point in by_key], wanted[name], rtol=1e-9, err_msg=name)
    stays = wanted["infeasible_reason"].is_null() | wanted["infeasible_reason"].is_in(WALL_REASONS)
    fits = stays & (wanted["sessions"] <= wanted["max_sessions"] * (1 + 1e-9))
    assert [point["feasible"] for point in by_key] == fits.to_list()


def test_the_pause_slider_does_what_the_pipeline_does(page: Watched, points: pl.DataFrame) -> None:
    page.set_slider("z-range", 60)
    z = page.js("explorer.state.z")
    assert z == pytest.approx(60 * 0.6**2)
    rows = of_scenario(points).filter(~pl.col("interpolated"))
    assert_page_has(page, rows, pl.col("serving_requests_per_s"), LATENCY_S, z)
    page.after(lambda: page.page.click("#reset"))
    assert_same_points(
        page.drawn("frontier"), of_scenario(points).filter("on_frontier"), LATENCY_S, pl.col("tasks_per_hour_per_gpu")
    )


@pytest.mark.parametrize("hit_rate", [0, 0.5, 0.98, 1])
def test_the_hit_rate_slider_does_what_the_pipeline_does(page: Watched, points: pl.DataFrame, hit_rate: float) -> None:
    """From all misses to all hits, through the published 0.95."""
    page.set_slider("h-range", hit_rate)
    rows, c = of_scenario(points).filter(~pl.col("interpolated")), pl.col
    latency = latency_at_hit_rate(
        hit_rate, c("cache_hit_rate"), LATENCY_S, c("turn_latency_all_hits_ms") / 1e3,
        c("turn_latency_all_misses_ms") / 1e3,
    )  # fmt: skip
    rate = rate_at_hit_rate(
        hit_rate, c("cache_hit_rate"), c("serving_requests_per_s"), c("serving_requests_per_s_all_hits"),
        c("serving_requests_per_s_all_misses"),
    )  # fmt: skip
    assert_page_has(page, rows, rate, latency, 0.5)
    # decode speed does not follow from these columns: there the published rate stands
    page.after(lambda: page.page.select_option("[name=x]", "decode"))
    assert page.page.is_disabled("#h-range")
    assert_page_has(page, rows, c("serving_requests_per_s"), LATENCY_S, 0.5)


def test_the_published_pause_gives_the_published_wall(page: Watched, points: pl.DataFrame) -> None:
    """The page's own wall points, put where the lake has them: at a pause that is a hair off the scenario's."""
    page.after(lambda: page.page.fill("#z", "0.500000001"))
    found = page.js(
        """explorer.worked.points.filter((point) => point.atWall).map(({row, figures}) => ({
             hardware: explorer.rows.hardware[row], sessions: figures.sessions, x: figures.turn_latency_ms,
             tpot: figures.tpot_ms}))"""
    )
    wanted = of_scenario(points).filter(pl.col("interpolated") & pl.col("feasible"))
    for name, column in (("sessions", "sessions"), ("x", "turn_latency_ms"), ("tpot", "tpot_ms")):
        np.testing.assert_allclose(sorted(point[name] for point in found), wanted[column].sort(), rtol=1e-6)


def test_fixed_sessions_are_the_operating_points(page: Watched, lake: Path) -> None:
    """32 code agents on 8 GPUs, as the scenario has them."""
    page.after(lambda: page.page.check("#c-on"))
    assert page.js("[explorer.state.c, explorer.state.g]") == [32, 8]
    assert page.page.inner_text("#chart-heading") == "Llama 3.1 70B, Code agent, at 32 sessions on 8 GPUs"
    folder = current_release(lake).path / "operating_points"
    table = pl.read_parquet(folder / "**/*.parquet", hive_partitioning=True)
    solved = table.filter((pl.col("scenario") == "code-agent") & pl.col("feasible"))
    found = page.js(
        """explorer.worked.points.map(({row, figures}) => [explorer.rows.hardware[row], figures.sessions,
             figures.turn_latency_ms, figures.turns_per_s_per_gpu, figures.ttft_ms, figures.task_time_s])"""
    )
    columns = ["hardware", "sessions", "turn_latency_ms", "turns_per_s_per_gpu", "ttft_ms", "task_time_s"]
    expected = sorted(solved.select(columns).rows())
    assert len(found) == len(expected) > 10
    for row, wanted in zip(sorted(tuple(row) for row in found), expected, strict=True):
        assert row[0] == wanted[0]
        assert row[1:] == pytest.approx(wanted[1:], rel=1e-9), row


def test_limits_give_the_best_feasible_configuration(page: Watched, points: pl.DataFrame) -> None:
    page.after(lambda: page.page.fill("[name=turnLimit]", "3"))
    rows = of_scenario(points).filter(pl.col("feasible") & (pl.col("turn_latency_ms") <= 3000))
    best = rows.group_by("hardware").agg(pl.col("tasks_per_hour_per_gpu").max()).sort("hardware")
    found = page.js("explorer.worked.best.map((one) => one.point.figures.tasks_per_hour_per_gpu)")
    np.testing.assert_allclose(found, best["tasks_per_hour_per_gpu"], rtol=1e-9)
    assert page.js("explorer.chart.view.data('limits').map(({x}) => x)") == [3]
    lines = page.page.locator("#best tbody tr").all_inner_texts()
    assert [line.split("\t")[0] for line in lines] == ["H100 SXM", "H200 SXM"]
    # 8 turns of at most 2 s and a pause of 0.5 s each
    page.after(lambda: page.page.fill("[name=taskLimit]", "20"))
    assert page.js("explorer.chart.view.data('limits').map(({x}) => x)") == [2]
    page.after(lambda: page.page.fill("[name=turnLimit]", "0.001"))
    assert "none within the limits" in page.page.inner_text("#best")


def test_standard_serving_stands_beside_the_agents(page: Watched, lake: Path, points: pl.DataFrame) -> None:
    page.page.wait_for_function("() => explorer.sides !== undefined")
    serving = pl.read_parquet(current_release(lake).path / "serving_points/**/*.parquet", hive_partitioning=True)
    swapped = serving.with_columns(
        turn_latency_ms="tpot_ms", turns_per_s_per_gpu="output_tokens_per_s_per_gpu", scenario=pl.lit("standard"),
        turns_per_s_per_cluster_gpu=pl.lit(None, pl.Float64), feasible=True, kv_bytes_per_gpu=pl.lit(0.0),
        unmeasured_load=pl.lit(None, pl.String),
    )  # fmt: skip
    wanted = mark_frontiers(swapped).filter("on_frontier")
    drawn = page.js("explorer.sides.standard.map(({x, y, series}) => ({x, y, series}))")
    assert_same_points(drawn, wanted, 1e3 / pl.col("tpot_ms"), pl.col("output_tokens_per_s_per_gpu"))
    agents = page.js("explorer.sides.agents.map(({y}) => y)")
    assert max(agents) == pytest.approx(of_scenario(points).filter("feasible")["output_tokens_per_s_per_gpu"].max())


def test_turn_by_turn(page: Watched, lake: Path, points: pl.DataFrame) -> None:
    """Of a row and of a wall point: context, KV, TTFT and R of each turn, on a hit and on a miss."""
    page.after(lambda: page.page.select_option("[name=scenario]", "research-agent"))
    contents = open_contents(lake)
    asked, spec = contents.scenarios["research-agent"], contents.models.get("llama-3-1-70b")
    served = contents.read("serving_points", ["h100-sxm", "h200-sxm"], "llama-3-1-70b")
    rows = of_scenario(points, "research-agent")
    added = turn_differences(prepare_points(served, spec, contents.hardware), asked, rows)
    frontier = rows.filter(pl.col("on_frontier") & (pl.col("serving_mode") == "agg")).sort("turn_latency_ms")
    work = turn_work(asked, spec.attention)
    for row in (frontier.filter(~pl.col("interpolated")).row(3, named=True),
                frontier.filter("interpolated").row(0, named=True)):  # fmt: skip
        page.js("delete explorer.turns")
        point = f"#scenario=research-agent&hardware=h100-sxm,h200-sxm&point={row['hardware']}:{row['point_id']}"
        page.page.evaluate("hash => { location.hash = hash }", point)
        page.page.wait_for_function("() => explorer.turns !== undefined")
        turns = pl.DataFrame(page.js("explorer.turns"))
        ends = _ends(rows, row)
        on_hit, on_miss = (
            tuple(
                sum(share * added.filter(hardware=row["hardware"], point_id=id_)[name].item() for id_, share in ends)
                for name in names
            )
            for names in (ON_HIT, ON_MISS)
        )
        slope = ms_per_flop(on_hit[1], on_hit[2], work.flops_on_hit[1], work.flops_on_hit[-1])
        hit = hit_differences(on_hit, work.flops_on_hit)
        miss = miss_differences(on_miss, work.evaluated_on_miss, work.new_on_miss, work.flops_on_miss, slope)
        for name, added_ms in (("hit", hit), ("miss", miss)):
            np.testing.assert_allclose(turns[f"latency_on_{name}_ms"], row["turn_latency_ms"] + added_ms, rtol=1e-9)
            np.testing.assert_allclose(turns[f"ttft_on_{name}_ms"], row["ttft_ms"] + added_ms, rtol=1e-9)
        np.testing.assert_allclose(turns["context_tokens"], work.context_tokens)
        kv = session_bytes_on_rank(spec.attention, work.context_tokens, 2.0, row["tp"])
        np.testing.assert_allclose(turns["kv_bytes"], kv, rtol=1e-9)
    assert page.page.locator("#turns canvas").count() == 4
    assert page.page.locator("#turns-table tbody tr").count() == 15


def _ends(rows: pl.DataFrame, row: dict[str, Any]) -> list[tuple[str, float]]:
    """A row itself, or the two rows between which a wall point lies, with their shares."""
    if not row["interpolated"]:
        return [(row["point_id"], 1.0)]
    low_id = row["point_id"].removesuffix("-wall")
    on_gpu = rows.filter(pl.col("hardware") == row["hardware"])
    curve = on_gpu.with_columns(schedule_number().alias("curve")).filter(
        (pl.col("curve") == pl.col("curve").filter(point_id=low_id).first()) & ~pl.col("interpolated")
    )
    curve = curve.sort("batch_per_rank")
    place = curve["point_id"].to_list().index(low_id)
    low, high = curve["sessions"][place], curve["sessions"][place + 1]
    share = (row["sessions"] - low) / (high - low)
    return [(low_id, 1 - share), (curve["point_id"][place + 1], share)]


def test_an_address_brings_the_view_back(page: Watched, browser: Browser, address: str) -> None:
    page.after(lambda: page.page.select_option("[name=scenario]", "deep-reasoning"))
    page.after(lambda: page.page.uncheck("input[value=h200-sxm]"))
    page.set_slider("z-range", 40)
    page.after(lambda: page.page.fill("[name=e2eLimit]", "20"))
    page.page.locator("#table tbody button").first.click()
    state, shown = page.js("explorer.state"), page.drawn("frontier")
    with watched_page(browser, address) as other:
        other.open(page.page.url.removeprefix(f"{address}/"))
        assert other.js("explorer.state") == state
        assert other.drawn("frontier") == shown
        assert "llama" in other.page.inner_text("#point") or "tables" in other.page.inner_text("#point")
        # what an address says wrongly is left out
        other.open("#model=none&hardware=h100-sxm,none&z=-1&h=7&x=nothing&logX=0")
        assert other.js("[explorer.state.model, explorer.state.hardware.join(), explorer.state.x]") == [
            "llama-3-1-70b", "h100-sxm", "turn"]  # fmt: skip
        assert other.js("[explorer.state.z, explorer.state.h, explorer.state.logX]") == [None, None, False]
        assert other.complaints == []


def test_files_of_another_release_are_said(page: Watched) -> None:
    """Somebody writes the page anew while it is open."""
    partition = "**/agent_points/hardware=h100-sxm/**/scenario=research-agent/**"
    other = page.page.request.get(f"{page.address}/{PARTITION}").body()
    page.page.route(partition, lambda route: route.fulfill(body=other))
    page.page.select_option("[name=scenario]", "research-agent")
    page.page.wait_for_selector("#problem:not([hidden])")
    assert "reload it" in page.page.inner_text("#problem")
    page.page.unroute(partition)


def test_csv_has_every_point_with_every_digit(page: Watched, points: pl.DataFrame, tmp_path: Path) -> None:
    page.page.select_option("#table-kind", "all")
    with page.page.expect_download() as download:
        page.page.click("#csv")
    download.value.save_as(tmp_path / "points.csv")
    with (tmp_path / "points.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    rows = of_scenario(points)
    assert len(lines) == rows.height
    wanted = dict(rows.select(pl.concat_str("hardware", "point_id"), "tasks_per_hour_per_gpu").rows())
    for line in lines:
        assert float(line["tasks_per_hour_per_gpu"]) == pytest.approx(wanted[line["hardware"] + line["point_id"]])
    assert sum(line["on_drawn_frontier"] == "true" for line in lines) == rows.filter("on_frontier").height


def test_keyboard_and_screen_reader(page: Watched) -> None:
    chart = page.page.locator("#chart")
    assert chart.get_attribute("role") == "application"  # so that arrow keys reach it
    assert "Tasks/hour per GPU against turn latency" in str(chart.get_attribute("aria-label"))
    chart.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.page.keyboard.press(key)
    said = page.page.inner_text("#spoken")
    assert "Configuration: " in said
    assert "Binding limit: " in said
    page.page.keyboard.press("Enter")
    assert page.page.locator("#point dt").count() > 10
    unlabelled = page.js(
        """[...document.querySelectorAll('input, select, button')].filter((element) =>
             !element.labels?.length && !element.getAttribute('aria-label') && !element.textContent.trim()).length"""
    )
    assert unlabelled == 0
    for heading in ("h1", "h2"):
        assert page.page.locator(heading).count() > 0


def test_hover_tells_the_configuration(page: Watched) -> None:
    place = page.js("(() => { const {chart} = explorer; return chart.place(chart.layers.frontier[3]) })()")
    box = page.page.locator("#chart").bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + place["x"] + 2, box["y"] + place["y"])
    told = page.page.inner_text("#tip")
    for word in ("Configuration", "TP", "Sessions", "Binding limit", "expected error"):
        assert word in told


def is_dark(watched: Watched) -> bool:
    """Whether the page's background is."""
    colour = str(watched.js("getComputedStyle(document.body).backgroundColor"))
    return sum(int(part) for part in colour[4:-1].split(",")) < 200


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen(browser: Browser, address: str, tmp_path: Path, width: int, dark: bool) -> None:
    with watched_page(browser, address, width, dark) as watched:
        watched.open()
        watched.page.wait_for_function("() => explorer.sides !== undefined")
        assert watched.js("document.documentElement.scrollWidth") == width
        canvas = watched.page.locator("#chart canvas").bounding_box()
        assert canvas is not None
        assert canvas["width"] <= width
        assert is_dark(watched) == dark
        path = screenshot(watched, f"explorer-{width}-{'dark' if dark else 'light'}", tmp_path)
        assert path.stat().st_size > 20_000
        watched.page.click("#theme")
        assert is_dark(watched) != dark
        assert watched.complaints == []
        assert watched.outside == []


def test_the_first_chart_is_quick(browser: Browser, address: str) -> None:
    """The best of three, as other tests run beside this one."""
    with watched_page(browser, address) as watched:
        times = []
        for _ in range(3):
            watched.open()
            times.append(watched.js("performance.getEntriesByName('first-chart')[0].startTime") / 1e3)
    assert min(times) < FIRST_CHART_S
    assert not any(math.isnan(time) for time in times)
