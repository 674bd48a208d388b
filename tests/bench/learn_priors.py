"""Writes data/engine_priors.yaml from measured rows. `python -m tests.bench.learn_priors [FOLDER]…`"""

import sys
from pathlib import Path

from pipelines.reading.engines import PRIORS_FILE
from tests.bench.learning import learn_priors, priors_as_text
from tests.bench.measured_deployments import STANDARD, known_deployments, standard_rows

SOURCE = (
    "Learnt by tests/bench/learn_priors.py from measured standard rows of InferenceX (SemiAnalysis, the public API's "
    "dashboard rows to 2026-05; Apache-2.0), deployments with two workloads or more, fitted one by one."
)


def main(folders: list[str]) -> None:
    """Fits all deployments, learns and writes."""
    points = standard_rows(tuple(Path(folder) for folder in folders) or STANDARD)
    models = points["model"].unique(maintain_order=True).to_list()
    known = [each for model in models for each in known_deployments(points, model)]
    priors = learn_priors([each.example for each in known])
    PRIORS_FILE.write_text(priors_as_text(priors, SOURCE), encoding="utf-8")
    print(f"{PRIORS_FILE}: {priors.deployments} deployments at {len(known)} versions")


if __name__ == "__main__":
    main(sys.argv[1:])
