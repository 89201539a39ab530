"""A planner is told tables or single points, and a limit is written as what is safe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(-0.5, 0.5, (8, 2)), columns=["speed", "load"])
Y = pd.DataFrame({"torque": np.sin(X.speed) + X.load, "heat": X.load**2})
Z = X.speed**2 + X.load**2
CANDIDATES = pd.DataFrame(RNG.uniform(-0.6, 0.6, (12, 2)), columns=["speed", "load"])


def new() -> MeasurementPlanner:
    smc = SMCSettings(particles=24, moves=1, leapfrog=5)
    return MeasurementPlanner(SafetyLimit("<= 1.0"), np.random.default_rng(1), smc=smc)


@pytest.mark.parametrize(
    ("written", "side"), [("<= 1.0", "below"), ("<1", "below"), ("≤1", "below"), (" >=1e0", "above"), (">1.0", "above")]
)
def test_a_limit_says_what_is_safe(written: str, side: Any) -> None:
    assert SafetyLimit(written) == SafetyLimit(1.0, side) == SafetyLimit(1, written.strip().rstrip("10.e "))


@pytest.mark.parametrize(
    ("written", "message"),
    [("1.0", "side='': say what is safe: above, below, or"), ("<= x", "say what is safe"), ("<=", "say what is safe"),
     ("< inf", "must be finite")],
)  # fmt: skip
def test_a_limit_without_a_side_or_a_number_is_refused(written: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SafetyLimit(written)


def test_tables_points_and_arrays_say_the_same() -> None:
    tables, arrays, points = new(), new(), new()
    tables.tell(X, Y, Z)
    arrays.tell(X.to_numpy(), Y.to_numpy(), Z.to_numpy())
    for row in range(len(X)):
        points.tell(X.iloc[row], Y.iloc[row].tolist(), float(Z[row]))
    plans = [each.ask(CANDIDATES[["load", "speed"]] if each is tables else CANDIDATES.to_numpy(), 2)
             for each in (tables, arrays, points)]  # fmt: skip
    for plan in plans[1:]:
        np.testing.assert_array_equal(plan.probability_safe, plans[0].probability_safe)
        assert [each.row for each in plan.proposals] == [each.row for each in plans[0].proposals]
    found = plans[0].to_frame()
    assert found.columns.tolist() == ["row", "speed", "load", "measure", "entropy", "probability_safe"]
    np.testing.assert_array_equal(found[["speed", "load"]], CANDIDATES.iloc[found["row"]])
    assert set(found["measure"]) <= {"torque", "heat"}
    assert repr(plans[0]).splitlines()[0].startswith("done: 2 proposals; ")
    assert "at speed = " in repr(plans[0])
    assert plans[1].to_frame().columns.tolist()[1:3] == ["x0", "x1"]
    assert plans[0].plot().get_ylabel() == "load"


def test_a_row_of_a_table_is_read_by_its_labels() -> None:
    by_frame, by_series = new(), new()
    for planner in (by_frame, by_series):
        planner.tell(X, Y, Z)
    point, values = pd.Series({"load": 0.1, "speed": 0.4}), pd.Series({"heat": 0.01, "torque": 0.5})
    by_frame.tell([0.4, 0.1], [0.5, 0.01], 0.17)
    by_series.tell(point, values, 0.17)
    assert by_series.n_values == by_frame.n_values
    plans = [planner.ask(CANDIDATES) for planner in (by_frame, by_series)]
    np.testing.assert_array_equal(plans[0].mean, plans[1].mean)
    with pytest.raises(ValueError, match="no column 'torque'"):
        by_series.tell(point, pd.Series({"heat": 0.01, "torq": 0.5}), 0.17)
    with pytest.raises(ValueError, match="no column 'torque'"):
        by_series.tell(X, pd.Series(np.zeros(8), name="heat"), Z)


def test_numbers_beyond_any_unit_are_refused() -> None:
    planner = new()
    with pytest.raises(ValueError, match="must be finite and at most"):
        planner.tell(X * 1e200, Y, Z)
    planner.tell(X, Y, Z)
    with pytest.raises(ValueError, match="candidates must be finite"):
        planner.ask(CANDIDATES * 1e200)


def test_a_limit_in_words_is_no_limit() -> None:
    limit: Any = "<= 1.0"
    with pytest.raises(TypeError, match="must be a SafetyLimit, such as"):
        MeasurementPlanner(limit, np.random.default_rng(1))


def test_one_input_may_be_a_vector() -> None:
    planner, x = new(), np.linspace(-0.5, 0.5, 6)
    planner.tell(x, np.sin(x), x**2)
    planner.tell(0.2, np.sin(0.2), 0.04)
    assert planner.n_values == 14
    plan = planner.ask(np.linspace(-0.6, 0.6, 7))
    assert plan.candidates.shape == (7, 1)
    assert plan.plot().get_xlabel() == "x0"


def test_wrong_columns_and_shapes_are_one_sentence() -> None:
    planner = new()
    planner.tell(X, Y, Z)
    wrong: dict[str, Any] = {
        "no column 'load': the columns speed, load are needed, got speed": lambda: planner.ask(CANDIDATES[["speed"]]),
        "no column 'heat': the columns torque, heat are needed": lambda: planner.tell(X, Y[["torque"]], Z),
        r"must be \[n, D\], \[n, P\] and \[n\], of one point \[D\], \[P\] and a number": lambda: planner.tell(
            X, Y, Z[:1]
        ),
        "3 inputs and 2 outputs: earlier tables had other numbers": lambda: planner.tell(
            [1.0, 2.0, 3.0], [0.0, 0.0], 0.5
        ),
    }
    for message, act in wrong.items():
        with pytest.raises(ValueError, match=message) as found:
            act()
        assert "\n" not in str(found.value)
