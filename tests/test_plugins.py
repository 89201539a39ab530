"""Packages of somebody else: one built, installed and used; broken ones named, without harm to anything else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from gpsuite import plugins
from gpsuite.commands.plugins import plugin_faults
from gpsuite.config import files
from gpsuite.data.sources import LOADERS, get_loader
from gpsuite.experiments.base import EXPERIMENTS, METHODS, import_family

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "tests/plugin_example"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def command(site: Path, work: Path) -> Command:
    """Return what runs gpsuite in a process of its own, in which the packages in `site` are installed."""
    path = os.pathsep.join([str(ROOT), str(site)])
    environment = {**os.environ, "PYTHONPATH": path, "GPSUITE_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def gpsuite(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        run = [sys.executable, "-P", "-m", "gpsuite.cli", *words]
        ended = subprocess.run(run, cwd=work, env=environment, capture_output=True, text=True)
        assert ended.returncode == code, ended.stderr
        return ended

    return gpsuite


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the example is installed from its wheel."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = folder.glob("gpsuite_example-1.0-*.whl")
    install = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(folder / "site")]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    shutil.rmtree(source)  # nothing is read from there
    return folder / "site"


@pytest.fixture
def example(site: Path, tmp_path: Path) -> Command:
    return command(site, tmp_path)


@pytest.mark.slow
def test_everything_is_listed(example: Command) -> None:
    ended = example("list")
    assert ended.stderr == ""
    for name in ("example/slopes", "steps", "spread_gp", "least_squares"):
        assert f"\n{name}\t" in ended.stdout
    assert "Slopes of halves" in example("list", "example/slopes").stdout
    [found] = [line for line in example("doctor").stdout.splitlines() if "plug-in" in line]
    assert found.startswith("ok\tplug-in gpsuite-example 1.0\t") and "least_squares" in found
    assert "experiment=example/slopes" in example("completion", "words", "gpsuite run experiment=ex").stdout


@pytest.mark.slow
def test_its_experiment_gets_workers_resume_tables_figures_comparison_and_the_page(
    example: Command, tmp_path: Path
) -> None:
    words = ("run", "experiment=example/slopes", "scale=smoke")
    assert "/2] done  half " in example(*words, "parallel=processes").stderr  # lines of quick tasks are left out
    assert "2 of 2 tasks are stored" in example(*words, "parallel=serial").stderr
    folder = tmp_path / "results/example/slopes/smoke"
    assert pd.read_csv(folder / "tables/slopes.csv")["slope"].between(1.9, 2.1).all()
    assert (folder / "figures/slopes.png").exists()
    assert "gpsuite-example: '1.0'" in yaml.safe_dump(yaml.safe_load((folder / "run.json").read_text())["versions"])
    example("run", "experiment=example/slopes", "scale=paper", "parallel=serial")
    compared = pd.read_csv(tmp_path / "results/example/slopes/paper/comparison.csv")
    assert list(compared["id"]) == ["N1"] and list(compared["verdict"]) == ["reproduced"]
    assert "example/slopes" in example("compare", "example").stdout
    example("report")
    page = (tmp_path / "results/report.html").read_text(encoding="utf-8")
    assert "Slopes of halves" in page and "A line with steps" in page


@pytest.mark.slow
def test_its_dataset_and_its_regressor_run_with_ours(example: Command, tmp_path: Path) -> None:
    words = ("run", "experiment=pac_bayes/regression", "scale=smoke", "method=spread_gp", "dataset=steps")
    assert "[1/1] done  spread GP" in example(*words, "repetitions=1", "parallel=processes").stderr
    [folder] = (tmp_path / "results/pac_bayes/regression").iterdir()
    assert set(pd.read_csv(folder / "tables/regression.csv")["method"]) == {"spread GP"}
    assert "spread_gp" in example("run", "experiment=pac_bayes/regression", "--help").stdout


@pytest.mark.slow
def test_its_classifier_runs_with_ours(example: Command, tmp_path: Path) -> None:
    words = ("dataset=breast_cancer", "features=first3", "method=least_squares", "count=1", "radius=0.1")
    ended = example("run", "experiment=robustness/safety", "scale=smoke", *words, "parallel=processes")
    assert "done  least squares" in ended.stderr
    [folder] = (tmp_path / "results/robustness/safety").iterdir()
    assert set(pd.read_csv(folder / "tables/safety_points.csv")["method"]) == {"least squares"}
    assert (folder / "certificates/least_squares_point_0.npz").exists()


ENTRY = "[gpsuite.methods]\nodd = odd:METHOD\n"
ODD = "METHOD = 1\n"
ODD_YAML = "builder: odd\ntitle: odd\nreference: nobody\n"
FILE = "conf/method/pac_bayes/odd.yaml"
GOOD = """
from gpsuite.experiments.base import Method, MethodOptions
METHOD = Method(MethodOptions, ("regression",), frozenset({"full", "risk_bound"}))
"""


def write_plugin(
    site: Path, entries: str = ENTRY, code: str = GOOD, conf: dict[str, str] | None = None, package: str = "odd"
) -> None:
    (site / package).mkdir(parents=True)
    (site / package / "__init__.py").write_text(code, encoding="utf-8")
    for name, text in ({FILE: ODD_YAML} if conf is None else conf).items():
        (site / package / name).parent.mkdir(parents=True, exist_ok=True)
        (site / package / name).write_text(text, encoding="utf-8")
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entries, encoding="utf-8")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Return what makes the packages of a folder known to this process, until the end of the test."""
    caches = (plugins.plugins, files._choices, files._families)
    import_family("pac_bayes")  # what registers only now would be undone with the copies
    get_loader("boston")
    for registry in (METHODS, LOADERS, EXPERIMENTS):
        monkeypatch.setattr(registry, "_items", dict(registry._items))

    def install(site: Path) -> None:
        monkeypatch.syspath_prepend(site)
        for each in caches:
            each.cache_clear()

    yield install
    monkeypatch.undo()
    plugins._refused.clear()
    for name in [name for name in sys.modules if name.split(".")[0] in ("odd", "even")]:
        del sys.modules[name]
    for each in caches:
        each.cache_clear()


BROKEN = {
    "import error": ({"code": "import no_such_module"}, "odd:METHOD, its 'odd' of gpsuite.methods, cannot be imported: "
                     "ModuleNotFoundError: No module named 'no_such_module'"),
    "exit": ({"code": "raise SystemExit(3)"}, "odd:METHOD, its 'odd' of gpsuite.methods, cannot be imported: System"),
    "no such object": ({"code": ""}, "cannot be imported: AttributeError: module 'odd' has no attribute 'METHOD'"),
    "other kind": ({"code": ODD}, "odd:METHOD, its 'odd' of gpsuite.methods, is of the class int"),
    "no folder": ({"conf": {}}, "its package 'odd' has no folder conf with its YAML files"),
    "no package": ({"entries": "[gpsuite.methods]\nodd = absent.x:METHOD\n"}, "its package 'absent' is not installed"),
    "two packages": ({"entries": ENTRY + "even = even:METHOD\n"},
                     "its entry points are in several packages, even, odd. Use one"),
    "no file": ({"conf": {"conf/method/pac_bayes/odd.yaml": "builder: pac_gp\n"}},
                "'odd' of gpsuite.methods has no file conf/method/FAMILY/*.yaml with builder: odd"),
    "no experiment": ({"entries": "[gpsuite.experiments]\na/b = odd:METHOD\n", "conf": {"conf/model/x.yaml": "a: 1"}},
                      "'a/b' of gpsuite.experiments has no file conf/experiment/a/b.yaml"),
    "unknown builder": ({"conf": {FILE: ODD_YAML, "conf/method/pac_bayes/b.yaml": "builder: nothing"}},
                        "conf/method/pac_bayes/b.yaml needs 'nothing', which is no entry point of gpsuite.methods"),
    "our method's name": ({"conf": {"conf/method/wasserstein/kl_pac_gp.yaml": ODD_YAML}},
                          "conf/method/wasserstein/kl_pac_gp.yaml is a name of gpsuite. Choose another one"),
    "our file": ({"conf": {FILE: ODD_YAML, "conf/dataset/boston.yaml": "loader: boston"}},
                 "conf/dataset/boston.yaml is a name of gpsuite. Choose another one"),
    "our builder": ({"entries": "[gpsuite.methods]\npac_gp = odd:METHOD\n", "conf": {FILE: "builder: pac_gp\n"}},
                    "'pac_gp' is a name of gpsuite. Choose another one"),
    "our loader": ({"entries": "[gpsuite.datasets]\nboston = odd:METHOD\n",
                    "conf": {"conf/dataset/other.yaml": "loader: boston"}},
                   "'boston' is a name of gpsuite. Choose another one"),
    "not YAML": ({"conf": {FILE: "a: [1"}}, "conf/method/pac_bayes/odd.yaml cannot be read: "),
    "not text": ({"conf": {FILE: "- 1"}}, "conf/method/pac_bayes/odd.yaml holds no keys"),
    "unknown option": ({"conf": {FILE: ODD_YAML + "speed: 3\n"}},
                       "conf/method/pac_bayes/odd.yaml: method=odd: speed: unknown key"),
    "no dataset": ({"conf": {FILE: ODD_YAML, "conf/dataset/odd.yaml": "loader: boston\nspeed: 3"}},
                   "conf/dataset/odd.yaml: "),
    "no paper": ({"conf": {FILE: ODD_YAML, "conf/paper/odd.yaml": "paper: odd"}}, "needs a list 'entries'"),
    "odd figures": ({"conf": {FILE: ODD_YAML, "conf/experiment/odd.yaml": "meta: {data: 3}"}, 
                     "entries": ENTRY + "[gpsuite.experiments]\nodd = odd:METHOD\n"}, "conf/experiment/odd.yaml: "),
    "acting letters": ({"entries": "[gpsuite.methods]\no\x1b[31md\u202ed = odd:METHOD\n"},
                       r"'o\x1b[31md\u202ed' of gpsuite.methods has no file "),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_plugin_is_named_in_one_sentence(
    tmp_path: Path, installed: Callable[[Path], None], changes: dict[str, Any], said: str
) -> None:
    write_plugin(tmp_path, **changes)
    installed(tmp_path)
    from gpsuite.config.compose import fitting_methods
    from gpsuite.data.catalogue import describe
    from gpsuite.reporting.catalogue import read_experiments

    assert describe(files.conf_dir(), tmp_path) and read_experiments(files.conf_dir())
    assert "kl_pac_gp" in fitting_methods("pac_bayes/regression")
    assert METHODS.get("pac_gp") and get_loader("boston").__module__ == "gpsuite.data.sources.tables"
    found = plugin_faults()
    assert found and all(each.startswith("plug-in odd 1.0: ") and each.isprintable() for each in found)
    assert any(said in each for each in found), found


def test_a_right_one_has_no_fault(tmp_path: Path, installed: Callable[[Path], None]) -> None:
    write_plugin(tmp_path)
    installed(tmp_path)
    assert plugin_faults() == []


def test_of_two_with_a_name_in_common_the_second_is_left_out(tmp_path: Path, installed: Callable[[Path], None]) -> None:
    write_plugin(tmp_path)
    write_plugin(tmp_path, "[gpsuite.methods]\nodd = even:METHOD\n", package="even")
    installed(tmp_path)
    assert plugin_faults() == [f"plug-in odd 1.0: {FILE} is a name of even 1.0. Choose another one"]


def test_unreadable_entry_points_are_no_plugin(tmp_path: Path, installed: Callable[[Path], None]) -> None:
    write_plugin(tmp_path)
    (tmp_path / "odd-1.0.dist-info/entry_points.txt").write_bytes(b"[gpsuite.methods]\n\xff\xfe = 3")
    installed(tmp_path)
    assert plugins.plugins() == ()


@pytest.mark.slow
def test_list_and_doctor_name_it_and_the_rest_works(tmp_path: Path) -> None:
    write_plugin(tmp_path / "site", code="import no_such_module")
    write_plugin(tmp_path / "site", "[gpsuite.methods]\npac_gp = even:METHOD\n", conf={FILE: ODD_YAML}, package="even")
    gpsuite = command(tmp_path / "site", tmp_path)
    ended = gpsuite("list", "methods")
    assert "\nkl_pac_gp\t" in ended.stdout
    sentences = ended.stderr.splitlines()
    assert len(sentences) == 2
    assert sentences[0].startswith("gpsuite: plug-in even 1.0: 'pac_gp' is a name of gpsuite")
    assert sentences[1].startswith("gpsuite: plug-in odd 1.0: odd:METHOD, its 'odd' of gpsuite.methods, cannot be imp")
    doctor = gpsuite("doctor", code=1).stdout
    assert all(f"problem\tplug-in\t{each.removeprefix('gpsuite: ')}" in doctor for each in sentences)
    ended = gpsuite("run", "experiment=pac_bayes/regression", "scale=smoke", "method=odd", code=2)
    assert ended.stderr == f"{sentences[1]}\n"
    ended = gpsuite("run", "experiment=pac_bayes/regression", "scale=smoke", "method=even", code=2)
    assert "unknown method" in ended.stderr and sentences[0] in ended.stderr
    gpsuite("run", "experiment=pac_bayes/kl_inverse", "scale=smoke", "parallel=serial")
