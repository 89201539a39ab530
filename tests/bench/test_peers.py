"""`gpsuite bench peers` with workers made up here: no other library is needed."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.bench import peers
from gpsuite.bench.peers import (
    AGAIN,
    SCRIPTS,
    Accuracy,
    Measured,
    PeerCase,
    PeerRow,
    cases,
    compare,
    distance_of_means,
    ratio_interval,
    same_numbers,
    verdict_of,
)

# answers as scripts/peers/protocol.py does, but says what it took instead of taking it
FAKE = """
import json, sys
import numpy as np
total, seconds = float(np.load(sys.argv[-1])["x"].sum()), float(sys.argv[1])
print(json.dumps({"set_up": 3.0, "value": total}), flush=True)
for line in sys.stdin:
    if seconds < 0: sys.exit(5)
    print(json.dumps({"seconds": seconds * (1 + .01 * (int(line) % 4)), "value": total}), flush=True)
"""


def same(answer: Any, ours: Any) -> Accuracy:
    assert answer["value"] == ours["value"] == 6.0
    return Accuracy(1.0, "equal")


def made_up(folder: Path, **seconds: float) -> list[PeerRow]:
    script = folder / "fake.py"
    script.write_text(FAKE, encoding="utf-8")
    case = PeerCase("sum", tuple(seconds), 0.4, lambda: ({"x": np.arange(4.0)}, same), 6)
    taken = {"ours": 0.2, AGAIN: 0.2, **seconds}
    commands = {name: [sys.executable, str(script), str(each)] for name, each in taken.items()}
    return list(compare([case], lambda _: commands))


def test_each_peer_has_its_ratio_and_the_first_row_is_the_noise(tmp_path: Path) -> None:
    again, slow, equal = made_up(tmp_path, slow=1.0, equal=0.201)
    assert (again.peer, again.verdict) == (AGAIN, "noise")
    assert again.ratio == pytest.approx(1.0, abs=0.03) and 1.005 < again.noise < 1.05
    assert slow.ratio == pytest.approx(0.2, rel=0.05) and slow.low <= slow.ratio <= slow.high < 0.22
    assert (slow.verdict, slow.peer_accuracy, slow.peer_set_up) == ("goal reached", "equal", 3.0)
    assert slow.cost == pytest.approx(0.2, rel=0.05) and slow.peer_cost == pytest.approx(1.0, rel=0.05)
    assert equal.verdict == "within the noise"


def test_a_worker_that_ends_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"fake\.py -1\.0.* ended with code 5"):
        made_up(tmp_path, broken=-1.0)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.98, 1.2, "within the noise"),
        (0.5, 0.96, "within the noise"),
        (0.3, 0.39, "goal reached"),
        (0.41, 0.5, "faster, goal missed"),
        (0.39, 0.41, "faster"),
        (1.06, 1.1, "slower"),
    ],
)
def test_a_verdict_claims_what_the_interval_and_the_noise_allow(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high, goal=0.4, noise=1.05) == verdict


def test_drift_that_both_sides_share_cancels_where_rounds_are_pairs() -> None:
    drift = np.linspace(1.0, 3.0, 9)
    ours, theirs = (Measured(each * drift, np.ones(9), "", 0.0) for each in (1.0, 4.0))
    assert ratio_interval(ours, theirs) == pytest.approx((0.25, 0.25))


def test_a_sampler_allows_for_its_error() -> None:
    """Half as many effective samples in the same time: twice the cost of one."""
    errors = np.full(8, 0.01)
    ours, theirs = (Measured(np.full(8, 2.0), each * errors, "", 0.0) for each in (1.0, 2.0))
    assert ours.costs(slice(None)) == pytest.approx(0.02)
    assert ratio_interval(ours, theirs) == pytest.approx((0.5, 0.5))


def test_independent_draws_count_as_that_many_effective_samples() -> None:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((20_000, 5))
    quantities = partial(np.multiply, 1.0)
    errors = [
        distance_of_means(quantities, reference, {"draws": rng.standard_normal((50, 5)).tolist()}, {}).error
        for _ in range(200)
    ]
    assert 1.0 / np.mean(errors) == pytest.approx(50.0, rel=0.15)


@pytest.mark.parametrize(("value", "slope"), [(1.0 + 1e-5, 0.0), (1.0, 1e-5), (float("nan"), 0.0)])
def test_other_numbers_are_no_comparison(value: float, slope: float) -> None:
    ours = {"value": 1.0, "gradient": [1.0, 2.0]}
    assert same_numbers(ours, ours).error == 1.0
    with pytest.raises(ArithmeticError, match="differ"):
        same_numbers({"value": value, "gradient": [1.0 + slope * 2.0, 2.0]}, ours)
    with pytest.raises(ArithmeticError, match="1 numbers"):
        same_numbers({"value": 1.0, "gradient": [1.0]}, ours)


def test_every_peer_of_a_case_has_its_script() -> None:
    named = {peer for case in cases() for peer in case.peers}
    assert {f"with_{each}.py" for each in named} == {each.name for each in SCRIPTS.glob("with_*.py")}
    assert [case.goal for case in cases()] == [0.4] * 4 + [0.2]


def test_what_libraries_print_does_not_reach_the_answers(tmp_path: Path) -> None:
    arrays, script = tmp_path / "arrays.npz", tmp_path / "noisy.py"
    np.savez(arrays, x=np.arange(4.0))
    script.write_text(
        f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n"
        "from protocol import serve\n"
        "def prepare(arrays):\n"
        "    print('compiling')\n"
        "    return lambda number: {'value': float(arrays['x'].sum()) + number * len(str(print('running')))}\n"
        "serve(prepare)\n",
        encoding="utf-8",
    )
    with peers.Worker([sys.executable, str(script)], arrays) as worker:
        assert worker.answer()["value"] == 6.0
        assert worker.run(2)["value"] == 14.0


@pytest.mark.slow
def test_our_worker_answers(tmp_path: Path) -> None:
    arrays = tmp_path / "arrays.npz"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 2))
    np.savez(arrays, task="likelihood", X=X, y=X[:, 0], theta=np.zeros(4))
    with peers.Worker([sys.executable, str(SCRIPTS / "ours.py")], arrays) as worker:
        set_up, found = worker.answer(), worker.run(1)
    assert set_up["set_up"] > 0.0 and found["seconds"] > 0.0
    assert found["value"] == set_up["value"] and len(found["gradient"]) == 4
