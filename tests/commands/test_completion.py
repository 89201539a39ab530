"""What Tab proposes: commands, experiments and the settings of the experiment that was typed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gpsuite.commands import COMMANDS
from gpsuite.commands.completion import SCRIPTS, proposals
from tests.commands.conftest import Gpsuite

RUN = "gpsuite run experiment=pac_bayes/regression "


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("gpsuite ru", ["run"]),
        ("gpsuite run exp", ["experiment="]),
        ("gpsuite run experiment=pac_bayes/reg", ["experiment=pac_bayes/regression"]),
        (f"{RUN}eps", ["epsilon="]),
        (f"{RUN}method=kl_pac_g", ["method=kl_pac_gp", "method=kl_pac_gp_restarts"]),
        (f"{RUN}method=lapl", []),
        (f"{RUN}dataset=csv dataset.ta", ["dataset.target=", "dataset.task="]),
        (f"{RUN}dataset.ta", []),
        (f"{RUN}scale=", ["scale=paper", "scale=quick", "scale=smoke"]),
        (f"{RUN}wait=t", ["wait=true"]),
        (f"{RUN}experiment", []),
        ("gpsuite show experiment=to", ["experiment=tour"]),
        ("gpsuite data fet", ["fetch"]),
        ("gpsuite data fetch bost", ["boston"]),
        ("gpsuite list kl_pac_free", ["kl_pac_free_form"]),
        ("gpsuite status perturbation/re", ["perturbation/region"]),
        ("gpsuite guide sec", ["security"]),
        ("gpsuite bench robust", ["robustness"]),
        ("gpsuite bench la", ["large"]),
        ("gpsuite bench pe", ["peers", "perturbation"]),
        ("gpsuite completion z", ["zsh"]),
        ("gpsuite verify po", []),
    ],
)
def test_proposals_complete_or_follow_the_last_word(line: str, found: list[str]) -> None:
    assert proposals(line) == found


def test_every_command_is_proposed() -> None:
    assert set(proposals("gpsuite ")) == {*COMMANDS, "--help", "--version", "-V"}


def test_scripts_are_printed(gpsuite: Gpsuite) -> None:
    for shell, script in SCRIPTS.items():
        assert gpsuite("completion", shell).out == script
    assert gpsuite("completion", "words", "gpsuite ru").out == "run\n"
    assert gpsuite("completion", "words", "gpsuite verify my").out == ""  # the shell then completes files
    for words in (("completion",), ("completion", "csh"), ("completion", "bash", "zsh")):
        assert gpsuite(*words).code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "word", "shown"),
    [
        ("gpsuite run experiment=pac_bayes/re", "experiment=pac_bayes/regression", "pac_bayes/regression"),
        ("gpsuite ru", "run", "run"),
    ],
)
def test_bash_completes_the_part_behind_the_equals_sign(line: str, word: str, shown: str) -> None:
    script = f"""{SCRIPTS["bash"]}
gpsuite() {{ [[ "$*" == "completion words {line}" ]] && echo {word}; }}
COMP_LINE="{line}" COMP_POINT={len(line)} COMP_WORDBREAKS='= '
_gpsuite && echo "${{COMPREPLY[@]}}"
"""
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr) == (shown, "")
