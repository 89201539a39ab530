"""What the panels of a region's figure and its table say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.data.loading import load
from gpsuite.engine.keys import task_key
from gpsuite.engine.runner import run_experiment
from gpsuite.errors import UserError
from gpsuite.experiments.base import BUDGET, DONE, EXPERIMENTS, Outcome, Record, Report, SharedWork, Task
from gpsuite.experiments.perturbation import region
from gpsuite.experiments.perturbation.region import _draw_bands, size_table
from gpsuite.experiments.perturbation.region_problem import distinguished, input_number, read_problem, split_rows
from gpsuite.methods.perturbation.rays import sample_members

NAME = "experiment=perturbation/region"


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request([NAME, "scale=smoke", *words])
    return EXPERIMENTS.get(request.experiment).plan(request)


def write_csv(folder: Path, rows: int = 60, copies: int = 0, bad: str = "") -> list[str]:
    """A table of a line with Laplace noise, some rows repeated, and the words that name it."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (rows, 2))
    y = 3.0 + X @ [1.0, -0.5] + 0.3 * rng.laplace(size=rows)
    table = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
    lines = ["a,b,out", *table, *table[:copies], *([bad] if bad else [])]
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return ["dataset=csv", f"dataset.path={path}", "dataset.target=out"]


def test_every_model_has_one_task() -> None:
    tasks = plan()
    assert [task.axes["model"] for task in tasks] == ["krr_sparse", "lssvm_linear"]
    assert len({task_key(task) for task in tasks}) == 2


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["excluded=[20]", "m=20"], "0 < q < m"),
        (["excluded=[0]"], "0 < q < m"),
        (["excluded=[-2]"], "0 < q < m"),
        (["group=rotations"], "permutations"),
        (["models=[krr]"], "krr_sparse"),
        (["preparation=1.0"], "between 0 and 1"),
        (["along=nothing"], "along"),
        (["rows=1"], "1 rows leave"),
        (["centres=100"], "at least 100"),
        (["penalty=0.0"], "between 1e-100 and"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        plan(*words)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [({"rows": 1}, "row"), ({"bad": "1.0,1.5x,2.0"}, "1.5x"), ({"bad": "1,inf,2"}, "inf")],
    ids=["one row", "no number", "infinity"],
)
def test_bad_tables_are_refused(wrong: dict[str, int], fault: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=fault):
        plan(*write_csv(tmp_path, **wrong))  # type: ignore[arg-type]


def repeat(folder: Path, times: int, shift: float) -> list[str]:
    """The table with its first two inputs measured `times` further times, and the words that name it."""
    words = write_csv(folder)
    lines = (folder / "table.csv").read_text().split()
    for row in lines[1:3]:
        a, b, y = map(float, row.split(","))
        lines += [f"{a!r},{b!r},{y + (number + 1) * shift!r}" for number in range(times)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    return words


def test_repeated_inputs_are_averaged_for_kernel_models_and_kept_for_linear_ones(tmp_path: Path) -> None:
    words = write_csv(tmp_path)
    once = load(plan(*words)[0].require_dataset())
    tasks = plan(*repeat(tmp_path, times=2, shift=1.5))
    data = load(tasks[0].require_dataset())
    kernel, linear = (split_rows(data, task.params) for task in tasks)
    assert (kernel.merged, linear.merged) == (4, 0)
    np.testing.assert_array_equal(kernel.X, once.X)
    np.testing.assert_allclose(kernel.y[:2], once.y[:2, 0] + 1.5, rtol=1e-14)  # (0 + 1.5 + 3) / 3
    np.testing.assert_array_equal(kernel.y[2:], once.y[2:, 0])
    assert [task.version for task in tasks] == [3, 3]


def test_copies_of_rows_count_once_in_every_model(tmp_path: Path) -> None:
    tasks = plan(*repeat(tmp_path, times=1, shift=0.0))
    data = load(tasks[0].require_dataset())
    assert [split_rows(data, task.params).merged for task in tasks] == [2, 2]
    assert [task.version for task in tasks] == [4, 4], "earlier records held copies as measurements"


def test_means_are_refused_where_noise_is_permuted(tmp_path: Path) -> None:
    words = repeat(tmp_path, times=1, shift=1.0)
    with pytest.raises(UserError, match="line 2 and line 62 have equal inputs") as caught:
        plan("group=permutations", *words)
    assert plan(*words, *(f"{key}={value}" for key, value in caught.value.fix.items()))


def test_equal_rows_that_cannot_be_permuted_are_shown_what_can(tmp_path: Path) -> None:
    words = write_csv(tmp_path, copies=3)
    path = tmp_path / "table.csv"
    first = path.read_text().splitlines()[1].rsplit(",", 1)[0]
    path.write_text(f"{path.read_text()}{first},9.0\n")
    with pytest.raises(UserError, match="have equal inputs") as caught:
        plan("group=permutations", "models=[krr_sparse]", *words)
    assert plan("models=[krr_sparse]", *words, *(f"{key}={value}" for key, value in caught.value.fix.items()))


def test_few_different_inputs_are_a_linear_models(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(0, 3)},{value}" for value in rng.normal(size=100)]
    (tmp_path / "few.csv").write_text("\n".join(["a,out", *lines]) + "\n")
    words = ["dataset=csv", f"dataset.path={tmp_path / 'few.csv'}", "dataset.target=out"]
    with pytest.raises(UserError, match="or the linear model, which averages none:") as caught:
        plan(*words)
    assert plan(*words, *(f"{key}={value}" for key, value in caught.value.fix.items()))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_inputs_of_long_tails_have_the_centres_that_their_rows_distinguish(seed: int, tmp_path: Path) -> None:
    """Of k-means' centres some lie where there is nothing: the design was refused, or its band unbounded."""
    rng = np.random.default_rng(seed)
    X = np.exp(1.5 * rng.normal(size=(200, 3)))
    table = np.column_stack([X, np.log(X[:, 1]) + 0.3 * rng.normal(size=200)])
    np.savetxt(tmp_path / "long.csv", table, delimiter=",", header="a,b,c,out", comments="")
    words = ["dataset=csv", f"dataset.path={tmp_path / 'long.csv'}", "dataset.target=out"]
    (task,) = plan(*words, "models=[krr_sparse]", "centres=8")
    outcome = region.run(task, SharedWork())
    assert 2 <= outcome.metrics["coefficients"] < 8
    assert outcome.status == "done"


def test_one_value_far_from_all_others_leaves_the_band_finite() -> None:
    rng = np.random.default_rng(0)
    near = rng.normal(size=(400, 3))
    centres = np.vstack([rng.normal(size=(7, 3)), [[100.0, 0.0, 0.0]]])
    kept = distinguished(centres, near, 2.0)
    np.testing.assert_array_equal(kept, centres[:7])
    np.testing.assert_array_equal(distinguished(np.repeat(kept, 2, axis=0), near, 2.0), kept)
    with pytest.raises(ValueError, match="are one"):
        distinguished(centres, near, 1e9)


def test_a_dependent_column_is_refused(tmp_path: Path) -> None:
    words = write_csv(tmp_path)
    path = tmp_path / "table.csv"
    head, *rows = path.read_text().split()
    path.write_text("\n".join([head.replace("a,", "a,twice,"), *(_doubled(row) for row in rows)]))
    with pytest.raises(UserError, match="'twice': constant in the region's rows or a combination") as caught:
        plan("models=[lssvm_linear]", *words)
    assert caught.value.fix == {"dataset.ignore": "[twice]"}


def test_a_category_has_as_many_columns_in_a_linear_model_as_are_independent(tmp_path: Path) -> None:
    words = write_csv(tmp_path)
    path = tmp_path / "table.csv"
    head, *rows = path.read_text().split()
    colours = ("red", "green", "blue")
    path.write_text("\n".join([f"colour,{head}", *(f"{colours[k % 3]},{row}" for k, row in enumerate(rows))]))
    sparse, linear = plan(*words)
    data = load(linear.require_dataset())
    assert data.input_names[:3] == ("colour=blue", "colour=green", "colour=red")
    problem = read_problem(linear.require_dataset(), linear.params)
    assert len(problem.columns) == 4
    assert len(read_problem(sparse.require_dataset(), sparse.params).columns) == 5
    outcome = region.run(linear, SharedWork())
    assert outcome.metrics["coefficients"] == 5
    # any three of the four functions span the same: a level's own curve is there whichever is left out
    for along in ("colour=blue", "colour=red"):
        (chosen,) = plan("models=[lssvm_linear]", f"along='{along}'", *words)
        kept = read_problem(chosen.require_dataset(), chosen.params).columns
        assert data.input_names.index(along) in kept


@pytest.mark.parametrize(
    ("words", "key"),
    [(["centres=40"], "centres"), (["preparation=0.01"], "preparation"), (["rows=6"], "rows"),
     (["lengthscale=1e9"], "lengthscale")],
)  # fmt: skip
def test_a_refusal_names_the_setting_that_is_at_fault(words: list[str], key: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        plan(*write_csv(tmp_path), *words)
    assert caught.value.key == key
    assert str(caught.value).startswith(f"{key}=")


def _doubled(row: str) -> str:
    first, rest = row.split(",", 1)
    return f"{first},{2 * float(first)},{rest}"


def test_a_share_of_the_rows_that_are_taken_prepares(tmp_path: Path) -> None:
    task = plan(*write_csv(tmp_path), "rows=40", "preparation=0.25", "centres=4")[0]
    rows = split_rows(load(task.require_dataset()), task.params)
    assert (len(rows.first), len(rows.remainder)) == (10, 30)
    assert not set(rows.first) & set(rows.remainder)


def test_rows_of_the_region_choose_nothing(tmp_path: Path) -> None:
    """The offset, scales and centres come from rows that are not in the region."""
    task = plan(*write_csv(tmp_path))[0]
    prepared = task.require_dataset()
    problem, data = read_problem(prepared, task.params), load(prepared)
    raw = problem.X * problem.spread + problem.mean
    used = np.array([np.flatnonzero(np.all(np.isclose(data.X, row), axis=1))[0] for row in raw])
    rest = np.setdiff1d(np.arange(len(data.X)), used)
    assert (len(used), len(rest)) == (48, 12)
    assert problem.offset == pytest.approx(data.y[rest, 0].mean())
    np.testing.assert_allclose(problem.region.y * problem.unit + problem.offset, data.y[used, 0])


def test_bands_nest_and_hold_the_line(tmp_path: Path) -> None:
    task = plan("models=[lssvm_linear]", "m=100", "excluded=[50,5]", "along=a", *write_csv(tmp_path))[0]
    outcome = region.run(task, SharedWork())
    arrays, metrics = outcome.arrays, outcome.metrics
    for end, sign in (("lower", -1.0), ("upper", 1.0)):
        tight, wide, outer = (arrays[f"{name}_{end}_{q}"] for name, q in _bands())
        assert np.all(sign * wide >= sign * tight)
        assert np.all(sign * outer >= sign * wide)
    assert metrics["members_outside_ellipsoid_5"] == metrics["unbounded_share_5"] == 0
    slope = np.polyfit(arrays["x"], arrays["estimate"], 1)[0]
    assert slope == pytest.approx(1.0, abs=0.2)
    assert arrays["ranks"][0] == 1
    assert arrays["ranks"][2] == 100  # the line is not the zero function


def _bands() -> list[tuple[str, int]]:
    return [("pointwise", 50), ("pointwise", 5), ("ellipsoid", 5)]


def test_the_input_that_follows_the_target_is_drawn() -> None:
    task = plan()[0]
    assert task.dataset is not None
    data = load(task.dataset)
    assert data.input_names[input_number(data, "")] in ("bmi", "s5")
    assert input_number(data, data.input_names[3]) == 3


@pytest.mark.parametrize(
    ("group", "noise"), [("signs", "noise is symmetric and"), ("permutations", "take group=signs")]
)
def test_a_small_run_is_summarised(tmp_path: Path, group: str, noise: str) -> None:
    words = ["models=[lssvm_linear]", f"group={group}", *write_csv(tmp_path)]
    request, _ = read_request([NAME, "scale=smoke", *words])
    records = []
    for task in plan(*words):
        outcome = region.run(task, SharedWork())
        parts = {"arrays": outcome.arrays, "timing": {}, "reason": "", "status": outcome.status}
        records.append(
            Record(task_key(task), task.experiment, task.label, task.axes, metrics=outcome.metrics, **parts)  # type: ignore[arg-type]
        )
    report = Report(request, records, tmp_path, "note")
    found = region.summarise(report)  # type: ignore[arg-type]
    assert noise in " ".join(report.answer)
    assert found[0].value == 0
    shares = [each for each in found if each.name.startswith("unbounded_share")]
    assert {share.n for share in shares} == {request.settings.rays}  # type: ignore[attr-defined]
    assert all(share.judged("low") <= share.value < share.judged("high") for share in shares)
    for name in ("tables/region.csv", "tables/region_candidates.csv", "figures/region.png"):
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize("group", ["permutations", "signed_permutations"])
def test_copies_cannot_be_exchanged(tmp_path: Path, group: str) -> None:
    """Noise of -1 or 9 at x = 0: of its equal rows one is left, and exchanging the others covers .77, not .9."""
    path = tmp_path / "copies.csv"
    path.write_text("a,out\n0,-1\n0,9\n0,-1\n" + "".join(f"{row},{row % 7}\n" for row in range(1, 60)))
    words = ["dataset=csv", f"dataset.path={path}", "dataset.target=out", "models=[lssvm_linear]"]
    with pytest.raises(UserError, match=r"line 2 and line 4 are equal") as caught:
        plan(*words, f"group={group}")
    assert (caught.value.key, caught.value.fix) == ("group", {"group": "signs"})
    assert len(plan(*words, "group=signs")) == 1


def test_few_different_inputs_are_called_the_cause_of_few_rows(tmp_path: Path) -> None:
    """120 rows at two inputs are two means for a kernel model."""
    lines = ["a,out", *(f"{row % 2},{row % 7 + 0.5 * row % 3}" for row in range(120))]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"2 rows \(118 more repeat their inputs and are averaged with them\) leave"):
        plan("dataset=csv", f"dataset.path={path}", "dataset.target=out", "models=[krr_sparse]")


@pytest.mark.parametrize(
    ("before", "offered"), [("id1", "[id1, b]"), ("[id1, u]", "[id1, u, b]"), ('["x,1", u]', '["x,1", u, b]')]
)
def test_the_offered_command_keeps_what_was_ignored(tmp_path: Path, before: str, offered: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(60)
    lines = ['id1,u,"x,1",a,b,out', *(f"{i},{i % 3},{i % 5},{v},{2 * v},{v + 0.1 * (i % 4)}" for i, v in enumerate(a))]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    words = ["dataset=csv", f"dataset.path={path}", "dataset.target=out", "models=[lssvm_linear]"]
    with pytest.raises(UserError, match="not full rank") as caught:
        plan(*words, f"dataset.ignore={before}")
    assert caught.value.fix == {"dataset.ignore": offered}
    again = [f"{key}={value}" for key, value in caught.value.fix.items()]
    assert len(plan(*words, *again)) == 1


def test_more_inputs_than_rows_are_not_all_named(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((40, 61))
    path = tmp_path / "wide.csv"
    np.savetxt(path, X, delimiter=",", header=",".join([*(f"x{i}" for i in range(60)), "out"]), comments="")
    words = ["dataset=csv", f"dataset.path={path}", "dataset.target=out"]
    with pytest.raises(
        UserError, match=r"29 of 60 inputs do not count, 'x31' first. .* the region's 32 rows"
    ) as caught:
        plan(*words, "models=[lssvm_linear]")
    assert len(str(caught.value)) < 300
    assert len(plan(*words, *(f"{key}={value}" for key, value in caught.value.fix.items()))) == 1


def lines_of(folder: Path, scale: float = 1.0, shift: float = 0.0) -> list[str]:
    """Return the words of a table whose second input is far from 0, its target in another unit."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (80, 2)) ** 3 + [0.0, 50.0]
    y = 3.0 + X @ [1.0, -0.5] + 0.3 * rng.laplace(size=80)
    path = folder / f"by_{scale:g}.csv"
    rows = [f"{a},{b},{scale * c + shift}" for (a, b), c in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join(["a,b,out", *rows]) + "\n")
    return ["dataset=csv", f"dataset.path={path}", "dataset.target=out", "models=[lssvm_linear]", "along=a"]


def test_bands_and_widths_are_in_the_targets_unit(tmp_path: Path) -> None:
    plain, moved = (region.run(plan(*lines_of(tmp_path, *by))[0], SharedWork()) for by in ((1.0, 0.0), (10.0, 7000.0)))
    for name in plain.arrays:
        if name.startswith(("estimate", "pointwise", "ellipsoid")):
            assert moved.arrays[name] == pytest.approx(10.0 * plain.arrays[name] + 7000.0, rel=1e-6), name
    widths = [name for name in plain.metrics if name.startswith(("pointwise_width", "ellipsoid_width"))]
    assert widths
    for name in widths:
        assert moved.metrics[name] == pytest.approx(10.0 * plain.metrics[name], rel=1e-6)
    assert np.array_equal(moved.arrays["ranks"], plain.arrays["ranks"])


def test_every_level_has_a_band_of_its_own(tmp_path: Path) -> None:
    """A band of a higher confidence is wider, and the curve is where the other input has its median."""
    (task,) = plan(*lines_of(tmp_path), "m=20", "excluded=[8,2]", "points=5")
    found = region.run(task, SharedWork())
    assert found.metrics["pointwise_width_2"] > found.metrics["pointwise_width_8"]
    assert (found.arrays["pointwise_upper_2"] > found.arrays["pointwise_upper_8"]).all()
    assert task.dataset is not None
    problem, data = read_problem(task.dataset, task.params), load(task.dataset)
    rows = split_rows(data, task.params)
    x = np.column_stack([found.arrays["x"], np.full(5, np.median(rows.X[rows.remainder][:, 1]))])
    scaled = (x - rows.X[rows.first].mean(axis=0)) / rows.X[rows.first].std(axis=0)
    standardised = problem.features(scaled) @ problem.region.estimate
    own = rows.y[rows.first]
    assert found.arrays["estimate"] == pytest.approx(own.mean() + own.std() * standardised)


def test_the_widest_band_is_reported_and_members_are_those_of_low_rank(tmp_path: Path) -> None:
    words = [*lines_of(tmp_path), "m=20", "excluded=[10,1]"]
    request, _ = read_request([NAME, "scale=smoke", *words])
    (task,) = plan(*words)
    outcome = region.run(task, SharedWork())
    arrays = {**outcome.arrays, "ranks": np.array([10, 11, 19, 20])}  # members at .5 up to 10, at .95 up to 19
    parts: Any = {"arrays": arrays, "timing": {}, "reason": "", "status": outcome.status}
    record = Record(task_key(task), task.experiment, task.label, task.axes, metrics=outcome.metrics, **parts)
    report: Any = Report(request, [record], tmp_path, "note")
    (said,) = region._sentences(report)
    assert "probability 95 % or more" in said
    assert f"mean width {outcome.metrics['pointwise_width_1']:.4g} (out)" in said
    table = region.candidate_table([record], report.settings)
    assert table["member at 0.5"].tolist() == ["yes", "no", "no", "no"]
    assert table["member at 0.95"].tolist() == ["yes", "yes", "yes", "no"]


LEVELS = [f"pointwise extremes, 1 - q/m = {level}" for level in (0.95, 0.8)]
ELLIPSOID = "ellipsoid, 1 - q/m = 0.95"


@pytest.mark.parametrize(
    ("height", "outer", "named", "unbounded"),
    [
        ((1.0, 0.5), 2.0, [*LEVELS, ELLIPSOID], []),
        ((np.inf, 0.5), np.inf, LEVELS[1:], [LEVELS[0], ELLIPSOID]),
        ((np.inf, np.inf), np.inf, [], [*LEVELS, ELLIPSOID]),
    ],
)
def test_what_is_unbounded_is_in_the_panel_and_not_in_the_legend(
    height: tuple[float, float], outer: float, named: list[str], unbounded: list[str]
) -> None:
    x = np.arange(3.0)
    arrays: dict[str, Any] = {"x": x, "estimate": x}
    heights = {"ellipsoid_{end}_5": outer, "pointwise_{end}_5": height[0], "pointwise_{end}_20": height[1]}
    for name, by in heights.items():
        arrays |= {name.format(end="lower"): x - by, name.format(end="upper"): x + by}
    figure, ax = plt.subplots()
    record: Any = SimpleNamespace(arrays=arrays)
    settings: Any = SimpleNamespace(excluded=[20, 5], m=100)
    _draw_bands(ax, record, settings)
    assert ax.get_legend_handles_labels()[1] == [*named, "estimate"]
    written = [line for text in ax.texts for line in text.get_text().splitlines()]
    assert written == (["unbounded:", *unbounded] if unbounded else [])
    plt.close(figure)


def test_what_is_unbounded_is_infinite_in_the_table() -> None:
    widths = {"radius_1": None, "pointwise_width_1": 2.5, "ellipsoid_width_1": None}
    counts = {"unbounded_share_1": 0.5, "members_1": 3, "members_outside_ellipsoid_1": 0, "n": 9, "coefficients": 2}
    axes: dict[str, str | int | float] = {"model": "lssvm_linear"}
    record = Record("key", "perturbation/region", "", axes, "done", "", {**widths, **counts}, {})
    settings: Any = SimpleNamespace(excluded=[1], m=20)
    row = size_table([record], settings).iloc[0]
    assert (row["radius"], row["pointwise_width"], row["ellipsoid_width"]) == (np.inf, 2.5, np.inf)


# What a region is when its seconds end: bands stay outer ones, and fewer rays are looked along.


def outcome(words: list[str], seconds: float | None) -> Outcome:
    (task,) = plan("models=[lssvm_linear]", "m=20", "excluded=[8,2]", "rays=250", *words)
    object.__setattr__(task, "budget_seconds", seconds)
    return region.run(task, SharedWork())


def test_without_seconds_bands_are_the_ellipsoids_and_no_ray_is_seen(tmp_path: Path) -> None:
    words = write_csv(tmp_path)
    whole, ended = outcome(words, None), outcome(words, 0.0)
    assert (whole.status, whole.reason) == (DONE, "")
    assert ended.status == BUDGET
    assert ended.reason.startswith("0 seconds used up: ellipsoid band for pointwise one at q=8, 0 of 250 rays")
    for q in (8, 2):
        for end in ("lower", "upper"):
            outer = whole.arrays[f"ellipsoid_{end}_{q}"]
            np.testing.assert_array_equal(ended.arrays[f"pointwise_{end}_{q}"], outer)
            np.testing.assert_array_equal(ended.arrays[f"ellipsoid_{end}_{q}"], outer)
        assert ended.metrics[f"pointwise_width_{q}"] == whole.metrics[f"ellipsoid_width_{q}"]
        assert [ended.metrics[f"{name}_{q}"] for name in ("rays", "members", "unbounded_share")] == [0, 0, None]
    np.testing.assert_array_equal(ended.arrays["ranks"], whole.arrays["ranks"])


def test_rays_end_between_two_looks_at_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, sample = write_csv(tmp_path), sample_members
    whole, late = outcome(words, None), outcome(words, 1000.0)
    assert late.metrics == pytest.approx(whole.metrics) and late.status == DONE

    def slow(*given: Any) -> Any:
        monkeypatch.setattr(Budget, "elapsed", property(lambda budget: time.monotonic() - budget.started + 1000.0))
        return sample(*given)

    monkeypatch.setattr(region, "sample_members", slow)
    cut = outcome(words, 1000.0)
    assert cut.status == BUDGET and cut.metrics["rays_8"] == 100 and cut.metrics["members_8"] == 100
    assert "100 of 250 rays at q=8" in cut.reason and "for pointwise one at q=2" in cut.reason
    np.testing.assert_array_equal(cut.arrays["pointwise_upper_8"], whole.arrays["pointwise_upper_8"])


def test_a_run_that_the_seconds_end_is_summarised(tmp_path: Path) -> None:
    words = [*write_csv(tmp_path), "models=[lssvm_linear]", "budget.seconds=0.0001", f"results_dir={tmp_path}/r"]
    request, options = read_request([NAME, "scale=smoke", *words])
    report = run_experiment(request, options)
    assert report.exit_code == 0
    (table,) = (tmp_path / "r").glob("**/records.csv")
    assert f",{BUDGET}," in table.read_text()
    assert any(line.startswith("Band: Assume the true function is linear") for line in report.answer)
