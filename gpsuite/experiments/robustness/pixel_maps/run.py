"""One image: effects of its pixels on its class, LIME's slopes, and what whitening the negative patch does."""

from __future__ import annotations

import time

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.pixel_maps.patches import largest_patch, middle, random_patch
from gpsuite.experiments.robustness.pixel_maps.plan import PixelMapTask
from gpsuite.experiments.robustness.shared.free_inputs import image_order
from gpsuite.experiments.robustness.shared.several_classes import SeveralClasses, trained_classes
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.explain.lime import lime_weights
from gpsuite.methods.robustness.explain.softmax_lines import softmax_lines
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.seeds import stream

PIXELS = (0.0, 1.0)


def run(task: Task[PixelMapTask], shared: SharedWork) -> Outcome:
    """Explain one image.

    Arrays: delta, delta_low, delta_high, lime, by input [D]; patch, the largest negative one [h, w].
    """
    clock, params = Budget(seconds=task.budget_seconds), task.params
    try:
        found = trained_classes(task.require_dataset(), params.model, shared, task.budget_seconds)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    problem, posterior = found.problem, found.posterior
    point, own = shown_image(found, params.digit, params.shown_probability, params.rank)
    x = problem.X_test[point]
    inputs, started = np.arange(len(x)), time.process_time()
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    lines = softmax_lines(posterior, x[None], inputs, own)
    ranges = one_sided_ranges(lines, x[None], inputs, params.gamma, PIXELS, params.tolerance, budget)
    seconds = time.process_time() - started
    rng = stream(params.model.draw_seed, "pixel_map", params.digit)
    lime = lime_weights(lambda X: posterior.probabilities(X)[:, own], x, rng, params.lime_samples)
    order = image_order(problem.input_names)
    delta, (low, high) = ranges.delta[0], ranges.delta_range
    patch = largest_patch(delta[order] < -params.negative * np.abs(delta).max())
    still_open = int(np.count_nonzero(~ranges.closed))
    metrics = {
        "row": int(problem.test_rows[point]),
        "boxes": ranges.boxes,
        "map_cpu_seconds": seconds,
        "open_intervals": still_open,
        **patch_metrics(found, x, own, order, delta, patch, params),
    }
    status, reason = (BUDGET, f"{still_open} intervals are open") if still_open else (DONE, "")
    arrays = {"delta": delta, "delta_low": low[0], "delta_high": high[0], "lime": lime, "patch": patch}
    return Outcome(metrics, status, reason, arrays, f"map in {seconds:.1f} CPU s, {ranges.boxes} boxes")


def shown_image(
    found: SeveralClasses, digit: str, shown_probability: float, rank: int = 0
) -> tuple[int, int]:
    """Return the digit's test row of this rank by its distance to the probability, and its class; wrong ones last."""
    problem = found.problem
    own = problem.label_names.index(digit)
    rows = np.flatnonzero(problem.y_test == own)
    p = found.posterior.probabilities(problem.X_test[rows])
    distance = np.abs(p[:, own] - shown_probability) + 2.0 * (p.argmax(axis=1) != own)
    return int(rows[np.argsort(distance, kind="stable")[rank]]), own


def patch_metrics(
    found: SeveralClasses,
    x: FloatArray,
    own: int,
    order: IntArray,
    delta: FloatArray,
    patch: BoolArray,
    params: PixelMapTask,
) -> dict[str, float | int | str | bool | None]:
    """Return place and size of the negative patch, and what whitening it does, against random patches of its size."""
    names, size = found.problem.label_names, int(patch.sum())
    rng = stream(params.model.draw_seed, "patches", params.digit)
    others = [random_patch((order.shape[0], order.shape[1]), size, rng) for _ in range(params.random_patches)]
    white = np.array([_whitened(x, order, each) for each in (np.zeros_like(patch), patch, *others)])
    p = found.posterior.probabilities(white)
    drops = p[0, own] - p[1:, own]
    row, column = middle(patch)
    gain = p[1] - p[0]
    quadrant = delta[order] < -params.negative * np.abs(delta).max()
    quadrant[(order.shape[0] + 1) // 2 :] = False
    quadrant[:, (order.shape[1] + 1) // 2 :] = False
    return {
        "correct": bool(p[0].argmax() == own),
        "probability": float(p[0, own]),
        "whitened_probability": float(p[1, own]),
        "drop": float(drops[0]),
        "p_value": float((1 + np.count_nonzero(drops[1:] >= drops[0])) / (1 + len(others))),
        "gains_most": names[int(np.argmax(gain))],
        "patch_size": size,
        "patch_row": float(row) if size else None,
        "patch_column": float(column) if size else None,
        "top_left_size": int(largest_patch(quadrant).sum()),
    }


def _whitened(x: FloatArray, order: IntArray, patch: BoolArray) -> FloatArray:
    white = x.copy()
    white[order[patch]] = PIXELS[1]
    return white
