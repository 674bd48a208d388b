# mypy: ignore-errors
"""A marimo notebook over a lake: the frontiers of a model and scenario, hardware beside hardware.

marimo run tests/recipes/notebook.py -- --lake lake
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import altair as alt
    import duckdb
    import marimo as mo

    return alt, duckdb, mo


@app.cell
def _(duckdb, mo):
    folder = mo.cli_args().get("lake") or "lake"
    lake = duckdb.connect(f"{folder}/agent_pareto.duckdb", read_only=True)

    def column(sql):
        return [row[0] for row in lake.sql(sql).fetchall()]

    return column, lake


@app.cell
def _(column, mo):
    models = column("SELECT DISTINCT model FROM fact_agent_frontier ORDER BY model")
    scenarios = column("SELECT scenario FROM dim_scenario ORDER BY scenario")
    model = mo.ui.dropdown(models, value=models[0], label="model")
    scenario = mo.ui.dropdown(scenarios, value=scenarios[0], label="scenario")
    mo.hstack([model, scenario], justify="start")
    return model, scenario


@app.cell
def _(lake, model, scenario):
    frontier = lake.execute(
        """
        SELECT hardware_name, weight_dtype, configuration, sessions, turn_latency_ms, tasks_per_hour_per_gpu
        FROM fact_agent_frontier
        JOIN dim_hardware USING (hardware)
        JOIN dim_configuration USING (configuration_id)
        WHERE on_frontier AND model = ? AND scenario = ?
        ORDER BY hardware_name, turn_latency_ms
        """,
        [model.value, scenario.value],
    ).df()
    print(f"{model.value}, {scenario.value}: {len(frontier)} points on the frontiers")
    return (frontier,)


@app.cell
def _(alt, frontier):
    alt.Chart(frontier).mark_line(point=True, interpolate="step-after").encode(
        alt.X("turn_latency_ms", title="turn latency (ms)", scale=alt.Scale(type="log")),
        alt.Y("tasks_per_hour_per_gpu", title="tasks an hour per GPU (1/h/GPU)"),
        alt.Color("hardware_name", title="hardware"),
        alt.StrokeDash("weight_dtype", title="weights"),
        tooltip=list(frontier.columns),
    )
    return


if __name__ == "__main__":
    app.run()
