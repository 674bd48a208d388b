"""Notes under a table of rows: estimated kernels, and rows several times slower than the roofline."""

from pipelines.answering.row_notes import row_notes
from transforms.synthesis.slower import SlowTable


def row(hardware: str, mode: str | None = None, times: float | None = None) -> dict[str, object]:
    return {"hardware": hardware, "database_mode": mode, "slower_than_roofline": times}


def test_nothing_to_say() -> None:
    assert row_notes([row("b200"), row("b200", "SILICON")]) == []
    assert row_notes([], [SlowTable("b200", "m", "vllm", 3.0)]) == []


def test_some_rows() -> None:
    rows = [row("b200", "HYBRID", 2.64), row("b200", "HYBRID", 3.1), row("b200"), row("h200", None, 4.0)]
    assert row_notes(rows) == [
        "slow, b200: 2 of 3 rows are 2.6 to 3.1 times slower than the roofline of the same configuration",
        "estimated, b200: kernel times of AIConfigurator's database mode HYBRID, not all measured",
        "slow, h200: the row is 4.0 times slower than the roofline of the same configuration",
    ]


def test_a_whole_table_on_hardware_that_is_shown() -> None:
    """Said whether or not the row shown is one of its slow ones."""
    slow = [SlowTable("h200", "m", "aiconfigurator", 3.6), SlowTable("gb200", "m", "vllm", 9.0)]
    assert row_notes([row("h200"), row("b200", None, 2.6)], slow) == [
        "slow, m on h200, aiconfigurator: 3.6 times slower than the roofline of the same configurations",
        "slow, b200: the row is 2.6 times slower than the roofline of the same configuration",
    ]
