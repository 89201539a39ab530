"""What `gpsuite verify` does with a robustness certificate: check it, and say in words what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpsuite.data.dataset import Dataset
from gpsuite.methods.robustness.certificate import read_certificate
from gpsuite.methods.robustness.certificate_form import MalformedError
from gpsuite.methods.robustness.checker import check_certificate
from gpsuite.untrusted import UnusableFileError


def verify_certificate(
    path: Path, description: dict[str, Any], dataset: Dataset | None
) -> tuple[int, list[str]]:
    """Check a robustness certificate.

    Args:
        path: of either file.
        description: content of its JSON file.
        dataset: the one it should be about, if it was given.

    Returns:
        exit code (0 confirmed, 1 refuted) and what to print.

    Raises:
        UnusableFileError: if it is not a usable certificate.
    """
    certificate = read_certificate(path, description)
    try:
        report = check_certificate(certificate)
    except MalformedError as error:
        raise UnusableFileError(f"{path}: not a certificate, {error}") from error
    if not report.confirmed:
        return 1, [f"{path}\trefuted", *report.problems]
    lines = [f"{path}\tconfirmed\t{report.leaves} leaves, {report.boxes} bounds computed again"]
    for claim in certificate.claims:
        side, no = ("maximum", "above") if claim.sign > 0 else ("minimum", "below")
        attained = "" if claim.inner is None else f"; {claim.inner:.10g} is attained"
        lines.append(f"{side}\tno class probability in the region is {no} {claim.outer:.10g}{attained}")
    return 0, lines
