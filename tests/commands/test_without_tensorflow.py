"""Small tables are answered without TensorFlow, whose import takes longer than the work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from gpsuite import cli
csv = ["scale=smoke", "dataset=csv", "dataset.path=t.csv", "output=quiet"]
for words in (
    ["experiment=pac_bayes/regression", "dataset.target=y"],
    ["experiment=perturbation/region", "dataset.target=y"],
    ["experiment=active_learning/plan", "dataset.target=y", "particles=4", "dataset.inputs=x",
     "dataset.safety=z", "dataset.limit=<=9", "dataset.candidates=c.csv"],
):
    sys.argv = ["gpsuite", "run", *csv, *words]
    code = cli.main()
    print(words[0], code, [name for name in ("tensorflow", "gpflow", "sklearn") if name in sys.modules])
"""


def test_a_small_table_is_answered_without_tensorflow_in_three_families(tmp_path: Path) -> None:
    rows = "\n".join(f"{i / 7:.3f},{(i * 5) % 11},{i % 5},{(i * 3) % 7}" for i in range(30))
    (tmp_path / "t.csv").write_text(f"x,w,z,y\n{rows}\n", encoding="utf-8")
    (tmp_path / "c.csv").write_text("x\n0.05\n1.55\n", encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    told = [line for line in ended.stdout.splitlines() if line.startswith("experiment=")]
    assert told == [
        f"experiment={name} 0 []"
        for name in ("pac_bayes/regression", "perturbation/region", "active_learning/plan")
    ], ended.stderr
