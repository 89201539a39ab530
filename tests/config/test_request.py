from __future__ import annotations

import importlib
import os
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpsuite.config import files
from gpsuite.config.compose import fitting_models
from gpsuite.config.explain import explain_settings
from gpsuite.config.files import conf_dir, group_choices, method_families, read_file
from gpsuite.config.overrides import read_overrides
from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import DataError, UserError
from gpsuite.experiments.base import EXPERIMENTS, METHODS
from gpsuite.experiments.settings import check_settings
from gpsuite.models.config import ModelSpec

REGRESSION = "experiment=pac_bayes/regression"
RUNNABLE = [name for name in group_choices()["experiment"] if name != "tour"]


def table(folder: Path, name: str = "t.csv", shift: float = 0.0) -> Path:
    path = folder / name
    rows = [f"{i},{(i * 7) % 11},{i * 0.5 + (i * 7) % 11 + shift}" for i in range(40)]
    path.write_text("a,b,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("scale", ["smoke", "quick", "paper"])
@pytest.mark.parametrize("experiment", RUNNABLE)
def test_every_shipped_experiment_composes_at_every_scale(
    experiment: str, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    try:
        request, options = read_request([f"experiment={experiment}", f"scale={scale}"])
    except UserError as error:  # without its data only a smoke run is possible
        assert scale != "smoke"
        assert "missing" in str(error)
        return
    assert (request.scale, options.tag, options.changed) == (scale, None, ())
    tasks = EXPERIMENTS.get(experiment).plan(request)
    assert len(tasks) > 0
    # a setting that is varied but stands not in the params would give all its values one record
    apart = {task_key(task): task.axes for task in tasks if task.axes.get("part") != "map"}
    assert all(apart.get(task_key(task), task.axes) == task.axes for task in tasks)


@pytest.mark.parametrize("experiment", RUNNABLE)
def test_an_experiment_file_sets_no_keys_inside_dataset(experiment: str) -> None:
    text = (conf_dir() / "experiment" / f"{experiment}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# @package _global_\n# ")
    content = yaml.safe_load(text)
    assert "dataset" not in content
    assert set(content["scales"]) == {"smoke", "quick", "paper"}
    meta = {"title", "question", "paper", "figure", "cost", "data"}
    assert meta <= set(content["meta"]) <= meta | {"figures", "below_paper", "whole_tables"}
    for note in content["meta"].get("figures", {}).values():
        assert {"shows"} <= set(note) <= {"shows", "of", "values"}


def test_the_scale_is_applied_before_the_users_words() -> None:
    request, _ = read_request([REGRESSION, "scale=smoke"])
    assert request.settings.max_evaluations == 15  # type: ignore[attr-defined]
    request, _ = read_request([REGRESSION, "scale=smoke", "max_evaluations=7"])
    assert request.settings.max_evaluations == 7  # type: ignore[attr-defined]


def test_each_kind_of_variation_gets_a_run_folder_of_its_own(tmp_path: Path) -> None:
    first, second = table(tmp_path, "a.csv"), table(tmp_path, "b.csv", shift=1.0)
    csv = [REGRESSION, "dataset=csv", "dataset.target=y"]
    variations = [
        [REGRESSION],
        [REGRESSION, "seed=1"],
        [REGRESSION, "seed=2"],
        [REGRESSION, "method=kl_pac_gp"],
        [REGRESSION, "method=full_gp"],
        [REGRESSION, "model=se_ard"],
        [REGRESSION, "epsilon=0.3"],
        [*csv, f"dataset.path={first}"],
        [*csv, f"dataset.path={second}"],
        [*csv, f"dataset.path={first}", "dataset.inputs=a"],
    ]
    tags = [read_request(words)[1].tag for words in variations]
    assert len(set(tags)) == len(variations)
    assert tags[0] is None


def test_a_file_without_dataset_csv_is_shown_what_to_add() -> None:
    with pytest.raises(UserError, match=r"diabetes has no settings\. For a file of your own add dataset=csv") as caught:
        read_request([REGRESSION, "dataset=diabetes", "dataset.path=my.csv"])
    assert caught.value.key == "dataset.path"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["repetitions=3"], {"repetitions": "3 of 10 repetitions"}),
        (["repetitions=12"], {}),  # more is not a part
        (["inducing=[5]", "epsilon=0.5"], {"inducing": "M = 10, 15 missing"}),
        (["inducing=[5,20]"], {}),
        (["methods=[kl_pac_sgp,vfe]"], {"methods": "methods = sqrt_pac_sgp, vfe_fitc_posterior, fitc missing"}),
        (["methods=[kl_pac_sgp,sqrt_pac_sgp_restarts]"], {}),  # one that is not among the shipped
        (["method=kl_pac_sgp", "method.objective=quadratic"], {}),  # its options are others
    ],
)
def test_less_of_the_shipped_settings_is_named_as_a_part(words: list[str], parts: dict[str, str]) -> None:
    scale = "paper" if "repetitions" in words[0] else "smoke"
    experiment = "epsilon_boston" if scale == "paper" else "inducing_pol"
    if scale == "paper" and not real_data_there():
        pytest.skip("needs GPSUITE_DATA_PATH")
    _, options = read_request([f"experiment=pac_bayes/{experiment}", f"scale={scale}", *words])
    assert options.parts == parts
    assert set(parts) <= set(options.changed)


def real_data_there() -> bool:
    return bool(os.environ.get("GPSUITE_DATA_PATH"))


def test_the_tag_follows_content_not_place(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    same = table(tmp_path, "a.csv"), table(tmp_path / "other", "moved.csv")
    words = [REGRESSION, "dataset=csv", "dataset.target=y"]
    tags = {read_request([*words, f"dataset.path={path}"])[1].tag for path in same}
    assert len(tags) == 1


def test_comfort_settings_do_not_change_the_tag() -> None:
    comfort = ["parallel=serial", "threads=2", "force=true", "wait=true", "results_dir=elsewhere", "budget.seconds=5"]
    _, options = read_request([REGRESSION, *comfort])
    assert options.tag is None
    assert options.science == read_request([REGRESSION])[1].science


def test_a_run_name_is_the_tag() -> None:
    _, options = read_request([REGRESSION, "seed=4", "run_name=mine"])
    assert (options.tag, options.named, options.changed) == ("mine", True, ("seed",))


def test_one_method_or_a_list_of_them_may_be_named() -> None:
    assert list(read_request([REGRESSION, "method=full_gp"])[0].methods) == ["full_gp"]
    assert list(read_request([REGRESSION, "methods=full_gp"])[0].methods) == ["full_gp"]
    chosen = read_request([REGRESSION, "methods=[full_gp,kl_pac_gp]"])[0].methods
    assert list(chosen) == ["full_gp", "kl_pac_gp"]


def test_methods_are_known_by_name_and_kept_by_family() -> None:
    assert group_choices()["method"] == sorted(method_families())
    assert (method_families()["kl_pac_gp"], method_families()["laplace"]) == ("pac_bayes", "robustness")
    assert read_file("method", "vfe")["builder"] == "sparse_gp"


def test_two_families_cannot_have_a_method_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for family in ("pac_bayes", "robustness"):
        (tmp_path / "method" / family).mkdir(parents=True)
        (tmp_path / "method" / family / "mine.yaml").write_text("builder: full_gp\n", encoding="utf-8")
    monkeypatch.setattr(files, "shipped_conf_dir", lambda: tmp_path)
    with pytest.raises(UserError, match="method=mine: named twice, in conf/method/pac_bayes and robustness"):
        method_families()


@pytest.mark.parametrize("name", sorted(method_families()))
def test_every_method_file_fits_a_method_of_its_family(name: str) -> None:
    importlib.import_module(f"gpsuite.experiments.{method_families()[name]}")
    content = read_file("method", name)
    method = METHODS.get(content["builder"])
    options = method.options(**content)
    check_settings(options, "method.")
    assert options.method is method
    later = {each.name for each in fields(method.options) if each.metadata}  # left out of keys at their default
    expected = {each.name for each in fields(method.options)} - {"title", "reference"} - later
    assert set(options.params) == expected
    family = [EXPERIMENTS.get(each) for each in EXPERIMENTS if each.split("/")[0] == method_families()[name]]
    assert any(each.method_traits and each.takes(method.traits) for each in family)  # no method without an experiment


def test_method_options_reach_every_method_that_has_them() -> None:
    request, options = read_request([REGRESSION, "methods=[kl_pac_gp,full_gp]", "method.objective=sqrt"])
    assert request.methods["kl_pac_gp"].objective == "sqrt"  # type: ignore[attr-defined]
    assert "methods" in options.changed


def test_an_unknown_key_of_a_scale_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(conf_dir(), tmp_path / "conf")
    file = tmp_path / "conf" / "experiment" / "pac_bayes" / "kl_inverse.yaml"
    file.write_text(file.read_text("utf-8").replace("{grid_points: 101}", "{grid_pionts: 101}"), "utf-8")
    monkeypatch.setattr(files, "shipped_conf_dir", lambda: tmp_path / "conf")
    with pytest.raises(UserError, match=r"grid_pionts: unknown key\. Did you mean 'grid_points'"):
        read_request(["experiment=pac_bayes/kl_inverse", "scale=smoke"])
    read_request(["experiment=pac_bayes/kl_inverse", "scale=quick"])


LOSSES = "experiment=pac_bayes/loss_exp"
SMOKE = (LOSSES, "scale=smoke")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without network or files; only what is embedded is there."""
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_shipped_list_is_prepared_in_its_order() -> None:
    request, options = read_request(SMOKE)
    assert list(request.datasets) == ["pol", "kin40k", "sarcos"]
    assert [data.name for data in request.prepared] == ["pol", "kin40k", "sarcos"]
    assert request.dataset is None
    assert all(data.stand_in for data in request.prepared)
    assert (options.tag, options.changed) == (None, ())


def test_the_users_list_takes_its_place_and_is_science() -> None:
    request, options = read_request([LOSSES, "datasets=[diabetes]", "seed=3"])
    [(name, data)] = request.datasets.items()
    assert (name, data.name, data.stand_in, data.rows) == ("diabetes", "diabetes", False, 442)
    assert set(options.changed) == {"datasets", "seed"}
    assert options.tag is not None
    assert list(request.options["datasets"]) == ["diabetes"]


def test_one_name_is_a_list_of_one() -> None:
    assert list(read_request([LOSSES, "datasets=diabetes"])[0].datasets) == ["diabetes"]


def test_names_make_the_tag_their_order_does_not() -> None:
    lists = ("[pol,kin40k]", "[kin40k,pol]", "[pol]", "[sarcos,pol,kin40k]")
    two, turned, one, shipped = (read_request([*SMOKE, f"datasets={names}"])[1].tag for names in lists)
    assert two == turned != one
    assert shipped is None


def test_each_name_is_replaced_by_a_stand_in_on_its_own() -> None:
    request, _ = read_request([*SMOKE, "datasets=[diabetes,pol]"])
    assert [data.stand_in for data in request.prepared] == [False, True]
    assert len({data.content_hash for data in request.prepared}) == 2


def test_the_message_for_a_missing_dataset_says_how_to_go_on_without() -> None:
    with pytest.raises(DataError) as error:
        read_request([LOSSES, "datasets=[diabetes,pol,kin40k]"])
    lines = str(error.value).splitlines()
    assert "pol_train_data.asc" in lines[0]
    assert lines[1] == "leave it out: datasets=[diabetes,kin40k]"  # of a long message the first lines are shown
    with pytest.raises(DataError) as error:
        read_request([LOSSES, "datasets=[pol]"])
    assert "leave it out" not in str(error.value)


def test_an_experiment_with_one_dataset_has_none_of_this() -> None:
    request, _ = read_request(["experiment=pac_bayes/regression"])
    assert request.datasets == {}
    assert [data.name for data in request.prepared] == ["diabetes"]
    assert "datasets" not in request.options


def test_the_list_of_experiments_tells_every_dataset_needed() -> None:
    several = {name: read_file("experiment", name) for name in group_choices()["experiment"]}
    found = {name: content for name, content in several.items() if "datasets" in content}
    assert found
    assert all(content["meta"]["data"] == content["datasets"] for content in found.values())


TOUR = "tour"  # several experiments in one command
NAMES = [name for name in group_choices()["experiment"] if name != TOUR]


class Watched:
    """A model that notes which keys are asked for."""

    def __init__(self, model: Any, keys: set[str]) -> None:
        self.__dict__.update(model=model, keys=keys)

    def __getattr__(self, key: str) -> Any:
        self.keys.add(key)
        return getattr(self.model, key)


@pytest.mark.parametrize("name", NAMES)
def test_the_keys_that_are_taken_are_read(name: str) -> None:
    request, _ = read_request([f"experiment={name}", "scale=smoke"])
    read: set[str] = set()
    watched: Any = Watched(request.model, read)
    entry = EXPERIMENTS.get(name)
    entry.plan(replace(request, model=watched))
    assert read == set(entry.model_keys)


@pytest.mark.parametrize(
    ("name", "word", "message"),
    [
        ("guarantee", "model=se", "model=se: guarantee builds its own models"),
        ("active_learning/plan", "model=matern32", "builds its own models. It has kernel="),
        ("wasserstein/regression", "model=matern52", "builds its own models. It has prior="),
        ("wasserstein/regression", "model.noise_floor=1", "model.noise_floor: wasserstein/regression has no such"),
        ("robustness/bounds_1d", "model=se_ard", "model=se_ard: it says ard=True, and robustness/bounds_1d has only"),
        ("robustness/bounds_1d", "model.ard=true", "model.ard: robustness/bounds_1d has no such setting"),
        ("pac_bayes/overfit_fitc", "model=matern32", "it says kernel=matern32, and pac_bayes/overfit_fitc has only"),
    ],
)
def test_a_model_that_would_change_nothing_is_refused(name: str, word: str, message: str) -> None:
    with pytest.raises(UserError, match="model") as caught:
        read_request([f"experiment={name}", "scale=smoke", word])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "word"), [("robustness/bounds_1d", "model=matern52"), ("pac_bayes/overfit_fitc", "model=se_ard")]
)
def test_what_is_read_can_be_chosen(name: str, word: str) -> None:
    _, options = read_request([f"experiment={name}", "scale=smoke", word])
    assert options.changed


@pytest.mark.parametrize("name", ["guarantee", "robustness/bounds_1d", "robustness/regression"])
def test_help_shows_the_keys_that_are_read(name: str) -> None:
    sections = explain_settings(name, read_overrides([f"experiment={name}"], group_choices()))
    keys = EXPERIMENTS.get(name).model_keys
    shown = [setting.key for setting in sections.get("model", ())]
    assert shown == [f"model.{key}" for key in keys]
    assert any(setting.key == "kernel" for setting in sections["parts"]) == bool(keys)


@pytest.mark.parametrize("name", ["pac_bayes/regression", "pac_bayes/inducing_pol", "active_learning/toy"])
def test_the_models_that_help_offers_are_those_that_are_taken(name: str) -> None:
    offered = fitting_models(name)
    parts = explain_settings(name, read_overrides([f"experiment={name}"], group_choices()))["parts"]
    shown = {setting.key: setting.allowed for setting in parts}
    assert shown["kernel"] == f"one of {', '.join(offered)}"
    for model in group_choices()["model"]:
        words = [f"experiment={name}", "scale=smoke", f"model={model}"]
        if model in offered:
            assert read_request(words, allow_absent=True)[0].model == ModelSpec(**read_file("model", model))
        else:
            with pytest.raises(UserError) as caught:
                read_request(words, allow_absent=True)
            assert str(caught.value).endswith(f"\nvalid: {', '.join(f'model={each}' for each in offered)}")


@pytest.mark.parametrize(
    ("words", "test_rows", "count", "inducing", "told"),
    [
        (["experiment=robustness/regression", "scale=paper"], 5, 5, 9, "test_rows=5: the 23 rows do not allow 50"),
        (["experiment=robustness/regression", "test_rows=4", "count=2"], 4, 2, 9, "19 training rows do not allow"),
        (
            ["experiment=pac_bayes/regression", "method=kl_pac_sgp"],
            None,
            None,
            9,
            "method.inducing=9: 18 training rows",
        ),
        (["experiment=pac_bayes/regression", "method=kl_pac_sgp", "method.inducing=3"], None, None, 3, ""),
    ],
)
def test_shipped_numbers_that_do_not_fit_a_small_table_shrink_and_say_so(
    tmp_path: Path, words: list[str], test_rows: int | None, count: int | None, inducing: int, told: str
) -> None:
    path = tmp_path / "small.csv"
    path.write_text("a,y\n" + "".join(f"{row % 7}.5,{row * row % 11}.25\n" for row in range(23)))
    request, _ = read_request([*words, "dataset=csv", f"dataset.path={path}", "dataset.target=y"])
    assert getattr(request.settings, "test_rows", None) == test_rows
    assert getattr(request.settings, "count", None) == count
    assert inducing in [getattr(options, "inducing", 0) for options in request.methods.values()]
    assert told in " ".join(request.require_dataset().notes)
