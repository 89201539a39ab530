"""Write tests/equations.json: the equations and derivations that the specifications name, for the index's test.

    python scripts/list_equations.py FOLDER_OF_SPECIFICATIONS

A heading of a derivation that is not listed here is an error, so that a new one is not overlooked.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[1] / "tests" / "equations.json"

PAPERS = {
    "pac_bayes": "Reeb et al. 2018",
    "pac_search": "Reeb et al. 2018",
    "robustness": "Blaas et al. 2020",
    "perturbation": "Csáji & Kis 2019",
    "active_learning": "Li et al. 2022",
    "planner_safety": "Li et al. 2022",
    "gwi": "Wild et al. 2022",
}

# specification -> beginning of a heading -> the name of what is derived there
DERIVED = {
    "pac_bayes_gradients": {
        "1.": "inverse kl and its derivatives",
        "2.": "whitened sparse posterior",
        "3.": "gradient of the sparse bound",
        "4.": "kernel contraction",
        "5.": "sweeps over the data",
        "6.": "free-form posterior",
        "7.": "gradient of the full GP's bound",
    },
    "pac_search": {"Algorithm": "staged search for sparse GPs"},
    "robustness_bounds": {
        "1.": "operator form of a posterior",
        "2.": "squared exponential expansion and tail",
        "3.": "mean over a box",
        "4.": "variance over a box",
        "5.": "quadratic form over a box",
        "6.": "class probability from mean and variance",
        "7.": "stationary kernels to degree 1",
        "8.": "sums and products of kernels",
        "9.": "sparse variational posteriors",
        "10.": "softmax of several classes",
        "11.": "L1 and L2 balls",
        "12.": "rounding of the expansion",
    },
    "robustness_bounds_2": {
        "1.": "squared exponential mean of degree 3",
        "2.": "squared exponential variance of degree 3",
        "3.": "level function",
        "4.": "upper bound of a cubic",
        "5.": "search with the level bound",
        "6.": "Matérn expansion in data space",
        "7.": "rounding of the level bound",
    },
    "perturbation": {
        "Test": "rank test",
        "Objectives and gradients": "objectives and gradients",
        "What the region is about": "ideal representation and norm ball",
        "Unboundedness": "unbounded regions",
        "Ellipsoidal outer approximation": "outer ellipsoid",
        "Exact boundary by rays": "boundary along rays",
    },
    "active_learning_smc": {
        "Recipe": "sequential Monte Carlo over hyperparameters",
        "Likelihood and gradient": "likelihood and gradient for all particles",
        "Pool cache": "predictions of the pool by one more row",
    },
    "planner_safety": {"The rule": "guard of the safety model", "Formulas": "guard of the safety model"},
}

# headings without formulas of their own
OTHER = re.compile(
    r"(0\.|8\. (Measured|What was)|9\. (Checked|Tests)|1[01]\. (Traps|Weak)|1[34]\. |Accuracy|Correction|Coverage"
    r"|Figures|How it|Peers|Results|Speed|Tests it|Tests$|The |Traps|Wall|Weak|What was|When )"
)

_KINDS = {"Eq": "Eq. ({})", "Prop": "Prop. {}", "App": "App. {}"}
_KINDS |= {kind: f"{kind} {{}}" for kind in ("Theorem", "Lemma", "Definition")}
_NAMED = re.compile(r"\b(Eqs?|Theorem|Lemma|Prop|App|Definition)s?\.? (\d+|[A-Z](?![.a-z]))((?:, | and |–|/)\d+)*")

# appendices that describe experiments: what they say is in conf/paper
EXPERIMENTS = {("Reeb et al. 2018", "App. E")}


def listed(folder: Path) -> list[dict[str, str]]:
    """Return what the specifications name: reference and locator, sorted, each once.

    Raises:
        ValueError: for a heading that is in no list above.
    """
    found: set[tuple[str, str]] = set()
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        paper = next(paper for start, paper in PAPERS.items() if path.stem.startswith(start))
        found |= {(paper, locator) for locator in _locators(text)}
        if path.stem in DERIVED:
            found |= {("derived", name) for name in _derivations(path.stem, text)}
    return [{"reference": a, "locator": b} for a, b in sorted(found - EXPERIMENTS)]


def _locators(text: str) -> set[str]:
    found = set()
    for match in _NAMED.finditer(text):
        kind = _KINDS[match[1].removesuffix("s")]
        numbers = [int(number) for number in re.findall(r"\d+", match[0])]
        if "–" in match[0]:
            numbers = list(range(numbers[0], numbers[-1] + 1))
        found |= {kind.format(number) for number in numbers or [match[2]]}
    return found


def _derivations(spec: str, text: str) -> set[str]:
    names = DERIVED[spec]
    found = set()
    for heading in re.findall(r"^## (.+)$", text, flags=re.MULTILINE):
        begun = [name for start, name in names.items() if heading.startswith(start)]
        if not begun and not OTHER.match(heading):
            raise ValueError(f"{spec}: {heading!r} is neither a derivation listed here nor one of the others")
        found |= set(begun)
    return found


if __name__ == "__main__":
    entries = listed(Path(sys.argv[1]))
    OUTPUT.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(entries)} in {OUTPUT}")
