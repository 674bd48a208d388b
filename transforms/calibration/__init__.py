"""Engines fitted to measured rows: the step model of a deployment, its prior, its fit, and what it predicts.

    for deployment in deployments(serving_points, models, hardware):
        calibration = calibrate(deployment, priors)                # priors: pipelines.reading.engines.load_priors()
        if calibration.engine is not None:                         # two rows or more are left
            calibration.engine.predict(Load(in_flight, isl, osl))  # bands of TTFT, latency and throughput

``prior_engine`` is what is expected without a row; ``Engine.predict_work`` takes any work, as turns of agents.
"""

from transforms.calibration.deployments import Calibration, Deployment, calibrate, deployments
from transforms.calibration.engine import Band, Engine, Prediction, fit_engine, prior_engine
from transforms.calibration.facts import Facts, Load, deployment_facts
from transforms.calibration.fit import Measured
from transforms.calibration.prior import LearntPriors, Prior
from transforms.calibration.step_model import Work

__all__ = [
    "Band",
    "Calibration",
    "Deployment",
    "Engine",
    "Facts",
    "LearntPriors",
    "Load",
    "Measured",
    "Prediction",
    "Prior",
    "Work",
    "calibrate",
    "deployment_facts",
    "deployments",
    "fit_engine",
    "prior_engine",
]
