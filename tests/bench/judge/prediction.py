"""What a build says of a setting: the row of ``operating_points`` of the setting's engine."""

from typing import Any

import numpy as np

from schemas.options import MappingOptions
from tests.bench.judge.engines import engine
from tests.bench.judge.settings import Setting
from transforms.agent_points.carry import Setting as Carried
from transforms.agent_points.carry import carry_prepared
from transforms.agent_points.prepare import prepare_points
from transforms.frontier import mark_frontiers
from transforms.operating_points.points import operating_points


def predicted(setting: Setting) -> dict[str, Any]:
    """The operating point, as published."""
    own = engine(setting.engine)
    shared = Carried(setting.scenario, own.spec, own.hardware, MappingOptions())
    prepared = prepare_points(own.points, own.spec, own.hardware)
    with np.errstate(all="ignore"):
        rows = operating_points(mark_frontiers(carry_prepared(prepared, shared)), shared, prepared.lookups)
    return rows.row(0, named=True)
