"""Run by the Python of an environment with Apache Superset: a lake as its database, a dataset and a chart, by its API.

    superset_chart.py LAKE

Superset itself must have been set up (``superset db upgrade``, ``superset init``; ``SUPERSET_CONFIG_PATH`` names its
configuration). Prints a line of JSON with the columns and the chart's rows; for each line on standard input one more
with the rows as they are then. Imports nothing of Agent Pareto.
"""

import importlib
import json
import sys
from typing import Any

USER = {"username": "recipe", "password": "recipe"}
#: A dataset of a query: facts and what is said of their keys, as a chart would want them.
DATASET_SQL = """
SELECT f.*, h.hardware_name, s.scenario_name, c.configuration
FROM fact_agent_frontier f
JOIN dim_hardware h USING (hardware)
JOIN dim_scenario s USING (scenario)
JOIN dim_configuration c USING (configuration_id)
"""
BEST = {
    "expressionType": "SIMPLE", "aggregate": "MAX", "label": "best", "column": {"column_name": "tasks_per_hour_per_gpu"}
}  # fmt: skip
GROUPED_BY = ["hardware_name", "scenario_name", "configuration"]


class Superset:
    """Superset's REST API, answered in this process."""

    def __init__(self) -> None:
        app = importlib.import_module("superset.app").create_app()
        with app.app_context():
            manager = importlib.import_module("superset").security_manager
            if manager.find_user(USER["username"]) is None:
                admin = manager.find_role("Admin")
                manager.add_user(USER["username"], "Re", "Cipe", "recipe@example.com", admin, USER["password"])
        self._client = app.test_client()
        self._headers: dict[str, str] = {}
        token = self.call("POST", "security/login", {**USER, "provider": "db"})["access_token"]
        self._headers = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        response = self._client.open(f"/api/v1/{path}", method=method, json=body, headers=self._headers)
        if response.status_code >= 300:
            sys.exit(f"{method} {path}: {response.status_code} {response.get_data(as_text=True)}")
        answer: dict[str, Any] = response.get_json()
        return answer


def add_chart(superset: Superset, lake: str) -> tuple[int, int, int]:
    """The ids of a dataset of a table, of one of a query, and of a chart on that."""
    read_only = {"engine_params": {"connect_args": {"read_only": True}}}
    database = superset.call("POST", "database/", {
        "database_name": "Agent Pareto", "sqlalchemy_uri": f"duckdb:///{lake}/agent_pareto.duckdb",
        "extra": json.dumps(read_only),
    })["id"]  # fmt: skip
    dataset = {"database": database, "schema": "main"}
    plain = superset.call("POST", "dataset/", {**dataset, "table_name": "fact_agent_frontier"})["id"]
    joined = superset.call("POST", "dataset/", {**dataset, "table_name": "frontiers", "sql": DATASET_SQL})["id"]
    query = {
        "columns": GROUPED_BY, "metrics": [BEST], "orderby": [[BEST, False]], "row_limit": 10_000,
        "filters": [{"col": "on_frontier", "op": "IS TRUE"}],
    }  # fmt: skip
    context = {"datasource": {"id": joined, "type": "table"}, "queries": [query], "result_format": "json",
               "result_type": "full", "force": True}  # fmt: skip
    parameters = {"viz_type": "table", "query_mode": "aggregate", "groupby": GROUPED_BY, "metrics": [BEST]}
    chart = superset.call("POST", "chart/", {
        "slice_name": "Best tasks an hour per GPU", "viz_type": "table", "datasource_id": joined,
        "datasource_type": "table", "params": json.dumps(parameters), "query_context": json.dumps(context),
    })["id"]  # fmt: skip
    return plain, joined, chart


def rows_of(superset: Superset, chart: int) -> list[list[object]]:
    (result,) = superset.call("GET", f"chart/{chart}/data/?force=true")["result"]
    return [[row[name] for name in (*GROUPED_BY, "best")] for row in result["data"]]


def main(lake: str) -> None:
    superset = Superset()
    plain, _, chart = add_chart(superset, lake)
    columns = superset.call("GET", f"dataset/{plain}")["result"]["columns"]
    described = {column["column_name"]: column["description"] for column in columns}
    print(json.dumps({"columns": described, "rows": rows_of(superset, chart)}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"rows": rows_of(superset, chart)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
