"""Options that several commands have in common."""

from pathlib import Path
from typing import Annotated, Literal

import typer

DEFAULT_LAKE = Path("lake")

LakeOption = Annotated[Path, typer.Option("--lake", help="The lake: a folder, or s3://bucket/prefix.")]
ModelOption = Annotated[str, typer.Option("--model", help="Model: slug or alias.")]
ScenarioOption = Annotated[str, typer.Option("--scenario", help="Scenario of the lake: slug.")]
AskedScenarioOption = Annotated[
    str, typer.Option("--scenario", help="Scenario: slug, of the lake or shipped, or a YAML file of one.")
]
HardwareOption = Annotated[
    list[str] | None,
    typer.Option("--hardware", help="GPU: slug or alias; may be repeated. Default: all that have the model."),
]
WeightsOption = Annotated[
    str | None,
    typer.Option("--weight-dtype", help="Weights in this precision alone, bf16 say. Default: whichever is best."),
]
RecordsFormatOption = Annotated[
    Literal["table", "json", "csv"], typer.Option("--format", help="json and csv give every figure and digit.")
]
AnswerFormatOption = Annotated[
    Literal["table", "json", "csv"], typer.Option("--format", help="json: all of it; csv: a line for each row of it.")
]
PriceOption = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="GPU=USD", help="US dollars for one GPU and hour; may be repeated: h200=3.50."),
]
PriceListOption = Annotated[
    Path | None, typer.Option("--prices", help="Your price list (YAML), in place of the release's.")
]
