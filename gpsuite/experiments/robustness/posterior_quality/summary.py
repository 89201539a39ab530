"""What a run of robustness/posterior_quality shows of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.robustness.posterior_quality.claims import converged, quality_claims
from gpsuite.experiments.robustness.posterior_quality.figures import draw
from gpsuite.experiments.robustness.posterior_quality.plan import DELTA, HMC
from gpsuite.experiments.robustness.posterior_quality.settings import PosteriorQualitySettings
from gpsuite.experiments.robustness.posterior_quality.tables import chain_table, distance_table
from gpsuite.experiments.robustness.shared.paper_protocol import STUDIES
from gpsuite.experiments.robustness.shared.records import records_frame, timing_table
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


def summarise(report: Report[PosteriorQualitySettings]) -> list[Statistic]:
    """Write distances and chains, and the ratios; draw both; return means and the paper's claims over datasets."""
    settings, titles = report.settings, report.titles
    deltas, sampled = delta_frames(report), report.records(part=HMC)
    by_training = [converged(sampled, name) for name in settings.hmc_trained_by]
    found, ratio = by_training[0], settings.test_rows / settings.train_rows
    caption = (
        f"Distance to HMC, mean ± standard error over random splits, corrected for shared rows, at the hyperparameters "
        f"that the named method learned in {settings.hmc_evaluations} evaluations; draws whose chains did not converge "
        "are left out"
    )
    if sampled:
        report.table(distance_table(sampled, titles, ratio), "posterior_quality", caption)
        report.table(chain_table(sampled, titles), "posterior_quality_chains", "HMC chains")
    timing = timing_table(report.records(), ["part", "dataset", "method", "evaluations"], titles)
    report.table(timing, "posterior_quality_timing", "CPU seconds per task; the first of a model trains it")
    statistics = quality_claims(by_training, deltas, settings.hmc_evaluations, ratio)
    draw(report, statistics, found, deltas)
    return statistics


def delta_frames(report: Report[PosteriorQualitySettings]) -> dict[str, pd.DataFrame]:
    """Return the records of delta per dataset's title; the column rank is a radius's place in its study."""
    frames = {}
    for name in report.request.datasets:
        study = STUDIES[name]
        own = report.records(part=DELTA, dataset=study.title, training=report.settings.trainings[0])
        if own:
            frame = records_frame(own)
            frames[study.title] = frame.assign(rank=[study.radii.index(radius) for radius in frame["radius"]])
    return frames
