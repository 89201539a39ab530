"""Roughly what the tasks of guarantee take, measured on tables of 3 to 80 inputs and 2 to 5 classes."""

from __future__ import annotations

import math

from gpsuite.data.loading import load
from gpsuite.experiments.base import Request
from gpsuite.experiments.guarantee.settings import GuaranteeSettings
from gpsuite.experiments.guarantee.tasks import ROWS
from gpsuite.experiments.robustness.classifiers import class_count

REGRESSION, CLASSIFICATION = 3.5, 30.0  # seconds of training on 1000 rows
BOX, SOFTMAX_BOX = 1.1e-3, 2e-3  # seconds of a box at which the level bound, or three classes, are bounded
ALL_BOXES, ALL_SOFTMAX_BOXES = 80, 13  # inputs from which on searches take all boxes that they may
DECIDING = 0.3  # what telling a class takes, of its range
LINE = 0.05  # seconds of an input's effect for each of several classes
MOST_PROVED = 3  # of more classes no probability is proved, so that only effects are searched


def seconds_of(request: Request[GuaranteeSettings], part: str) -> float:
    """Return the seconds of a part's task: training, and the searches of its rows."""
    settings, dataset = request.settings, request.require_dataset()
    data = load(dataset)
    classes = class_count(data, []) if data.task == "classification" else 0
    thousands = min(dataset.rows, settings.most_rows) / 1000
    training = (CLASSIFICATION if classes else REGRESSION) * thousands**2 + 1.0
    if part == ROWS:
        return training + settings.count * _row_seconds(settings, data.X.shape[1], classes)
    if not classes:
        return training
    tests = max(round(settings.test_share * dataset.rows), dataset.rows - settings.most_rows)
    point = DECIDING * _range_seconds(settings, data.X.shape[1], classes)
    return training + min(settings.points, tests) * point


def _row_seconds(settings: GuaranteeSettings, inputs: int, classes: int) -> float:
    effects = LINE * inputs * classes if classes > 2 else 0.0
    return effects + _range_seconds(settings, inputs, classes)


def _range_seconds(settings: GuaranteeSettings, inputs: int, classes: int) -> float:
    """Return what the ranges of one row take at every tolerance."""
    boxes = len(settings.tolerances) * settings.boxes
    if classes > MOST_PROVED:
        return 0.0
    if classes > 2:
        return SOFTMAX_BOX * boxes * min(1.0, math.sqrt(inputs / ALL_SOFTMAX_BOXES))
    share = inputs / ALL_BOXES
    once = BOX * boxes * min(1.0, share**2) * max(1.0, share)
    return 0.1 * once if classes else once  # two classes close sooner
