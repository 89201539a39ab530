"""Which keys of the model an experiment takes: those that it reads, so that none is chosen in vain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpsuite.config.explain import explain_settings
from gpsuite.config.files import fitting_models, group_choices, read_file
from gpsuite.config.overrides import read_overrides
from gpsuite.config.request import read_request
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.models.config import ModelSpec

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
        ("active_learning/plan", "model=matern32", "builds its own models; it has kernel="),
        ("wasserstein/regression", "model=matern52", "builds its own models; it has prior="),
        (
            "wasserstein/regression",
            "model.noise_floor=1",
            "model.noise_floor: wasserstein/regression has no such",
        ),
        (
            "robustness/bounds_1d",
            "model=se_ard",
            "model=se_ard: it says ard=True, and robustness/bounds_1d has only",
        ),
        ("robustness/bounds_1d", "model.ard=true", "model.ard: robustness/bounds_1d has no such setting"),
        (
            "pac_bayes/overfit_fitc",
            "model=matern32",
            "it says kernel=matern32, and pac_bayes/overfit_fitc has only",
        ),
    ],
)
def test_a_model_that_would_change_nothing_is_refused(name: str, word: str, message: str) -> None:
    with pytest.raises(UserError, match="model") as caught:
        read_request([f"experiment={name}", "scale=smoke", word])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "word"),
    [("robustness/bounds_1d", "model=matern52"), ("pac_bayes/overfit_fitc", "model=se_ard")],
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
    assert any(setting.key == "model" for setting in sections["parts"]) == bool(keys)


@pytest.mark.parametrize("name", ["pac_bayes/regression", "pac_bayes/inducing_pol", "active_learning/toy"])
def test_the_models_that_help_offers_are_those_that_are_taken(name: str) -> None:
    offered = fitting_models(name)
    parts = explain_settings(name, read_overrides([f"experiment={name}"], group_choices()))["parts"]
    shown = {setting.key: setting.allowed for setting in parts}
    assert shown["model"] == f"one of {', '.join(offered)}"
    for model in group_choices()["model"]:
        words = [f"experiment={name}", "scale=smoke", f"model={model}"]
        if model in offered:
            assert read_request(words, allow_absent=True)[0].model == ModelSpec(**read_file("model", model))
        else:
            with pytest.raises(UserError) as caught:
                read_request(words, allow_absent=True)
            assert str(caught.value).endswith("".join(f"\nvalid: model={each}" for each in offered))
