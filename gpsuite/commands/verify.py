"""`gpsuite verify`: an independent check of a robustness certificate."""

from __future__ import annotations

from pathlib import Path

from gpsuite.errors import UserError

HELP = """
gpsuite verify CERTIFICATE

Checks the certified class probabilities of a region (CERTIFICATE.npz with CERTIFICATE.json beside it; either name
will do) without the code that found them: the boxes are rebuilt from the cuts, every bound is computed again in
extended precision, and the witnesses are evaluated.
Exit code 0: confirmed; 1: refuted, with the reason; 2: not a usable certificate.
"""


def main(words: list[str]) -> int:
    """Check the certificate named and print what follows from it."""
    if len(words) != 1 or words[0].startswith("-"):
        raise UserError("verify: name one certificate, for example: gpsuite verify point_7.npz")
    from gpsuite.methods.robustness.certificate import read_certificate
    from gpsuite.methods.robustness.checker import check_certificate

    path = Path(words[0])
    certificate = read_certificate(path)
    report = check_certificate(certificate)
    if not report.confirmed:
        print(f"{path}\trefuted")
        for problem in report.problems:
            print(problem)
        return 1
    print(f"{path}\tconfirmed\t{report.leaves} leaves, {report.boxes} bounds computed again")
    for claim in certificate.claims:
        side, no = ("maximum", "above") if claim.sign > 0 else ("minimum", "below")
        attained = "" if claim.inner is None else f"; {claim.inner:.10g} is attained"
        print(f"{side}\tno class probability in the region is {no} {claim.outer:.10g}{attained}")
    return 0
