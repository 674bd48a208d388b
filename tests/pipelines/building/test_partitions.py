"""Points divided by model."""

import polars as pl

from pipelines.building.carrying import split_partitions


def test_every_row_is_in_the_partition_of_its_model_in_its_order_the_largest_first() -> None:
    """Points come in a chunk for each file: a partition is one piece, not as many as there are files."""
    models = [f"model-{number % 7}" for number in range(300)]
    points = pl.concat([pl.DataFrame({"model": [model], "row": [row]}) for row, model in enumerate(models)])
    assert points.n_chunks() == 300
    partitions = split_partitions(points)
    assert [partition.points.height for partition in partitions] == [43] * 6 + [42]
    assert {partition.points.n_chunks() for partition in partitions} == {1}
    for partition in partitions:
        assert partition.points["model"].unique().to_list() == [partition.model]
        assert partition.points["row"].to_list() == [
            row for row, model in enumerate(models) if model == partition.model
        ]
    assert split_partitions(points.clear()) == []
