"""Records of delta with a known relation between methods and evaluations."""

from __future__ import annotations

import numpy as np
import pandas as pd


def delta_frame(
    scale: dict[tuple[str, int], float], draws: int = 2, points: int = 30, seed: int = 0, apart: float = 1e-9
) -> pd.DataFrame:
    """Return one row per (method, evaluations), draw and point: scale times a value of the draw and point.

    The scale differs from draw to draw by parts `apart`: draws that agree to the last bit have no deviation to test by.
    """
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.05, 0.1, (draws, points))
    part = dict(zip(scale, 1.0 + apart * rng.standard_normal((len(scale), draws)), strict=True))
    rows = [
        {
            "method": method,
            "evaluations": evaluations,
            "draw": draw,
            "point": point,
            "radius": 0.5,
            "rank": 0,
            "delta": part[method, evaluations][draw] * factor * base[draw, point],
            "deviation": 0.8 * part[method, evaluations][draw] * factor * base[draw, point],
        }
        for (method, evaluations), factor in scale.items()
        for draw in range(draws)
        for point in range(points)
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(delta_proved=frame["delta"] + 0.001, deviation_proved=frame["deviation"] + 0.001)
