"""The metrics of all families: what they are called, their units, and which way is better."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Better = Literal["lower", "higher", ""]

PROBABILITY = "probability"
SHARE, AMOUNT = (0.0, 1.0), (0.0, math.inf)  # what a metric can be: intervals end there
UNTEMPERED = " untempered"  # ends the name of a score of the predictions before they were tempered


@dataclass(frozen=True)
class Metric:
    """A number that records or tables hold.

    Attributes:
        label: what it is, in words that head a column.
        unit: empty for counts, shares and other pure numbers. Probabilities name theirs on axes only.
        better: lower, higher, or empty where neither is.
        short: a shorter label for axes and narrow columns; default: the label.
        possible: least and largest number it can be.
    """

    label: str
    unit: str = ""
    better: Better = ""
    short: str = ""
    possible: tuple[float, float] = (-math.inf, math.inf)

    @property
    def heading(self) -> str:
        """Heading of a column: the label with its unit."""
        return self._with_unit(self.label, "" if self.unit == PROBABILITY else self.unit)

    @property
    def short_heading(self) -> str:
        """The same with the short label."""
        return self._with_unit(self.short or self.label, "" if self.unit == PROBABILITY else self.unit)

    @property
    def axis(self) -> str:
        """Label of an axis or title of a panel: short, with unit and an arrow towards better values."""
        arrow = {"lower": " ↓", "higher": " ↑", "": ""}[self.better]
        return self._with_unit(self.short or self.label, self.unit) + arrow

    @staticmethod
    def _with_unit(label: str, unit: str) -> str:
        return f"{label} ({unit})" if unit else label


# a name that families use for different things follows its family's name
METRICS = {
    # PAC-Bayes: risks and bounds, all of them probabilities of an error
    "bound_kl": Metric("upper bound B_kl on the Gibbs risk", PROBABILITY, "lower", "upper bound B_kl", possible=SHARE),
    "bound_sqrt": Metric("looser bound B_sqrt", PROBABILITY, "lower", possible=SHARE),
    "bound_bayes": Metric("bound 2 B_kl on the Bayes risk", PROBABILITY, "lower", possible=SHARE),
    "bound_kl_exp": Metric("B_kl under the exponential loss", PROBABILITY, "lower", possible=SHARE),
    "bound_of_choice": Metric("B_kl, choice of M paid for", PROBABILITY, "lower", possible=SHARE),
    "bound_change": Metric("change of the bound by rounding alone, same penalty", "10⁻⁶"),
    "bound_against_two_decimals": Metric("bound − bound at 2 decimals"),
    "lower_kl": Metric("lower bound on the Gibbs risk", PROBABILITY, "higher", possible=SHARE),
    "test_bound_gibbs": Metric("bound from the test rows on the Gibbs risk", PROBABILITY, "lower", possible=SHARE),
    "test_bound_bayes": Metric("bound from the test rows on the Bayes risk", PROBABILITY, "lower", possible=SHARE),
    "gibbs_risk_train": Metric("Gibbs training risk", PROBABILITY, "lower", possible=SHARE),
    "gibbs_risk_test": Metric("Gibbs test risk", PROBABILITY, "lower", possible=SHARE),
    "gibbs_risk_test_exp": Metric("Gibbs test risk under the exponential loss", PROBABILITY, "lower", possible=SHARE),
    "bayes_risk_test": Metric("Bayes test risk", PROBABILITY, "lower", possible=SHARE),
    "pac_bayes/gap": Metric("gap: test − training risk", "", "lower"),
    "chosen_m": Metric("M chosen (mean)"),
    "kl_over_n": Metric("KL/n", "nats", "lower", possible=AMOUNT),
    "published_kl_over_n": Metric("KL/n in the paper"),
    "log_theta_per_point": Metric("ln|Θ|/n (hyperparameter grid)"),
    "log_theta_over_n": Metric("penalty ln|Θ|/n", "nats", "lower"),
    "confidence_per_point": Metric("ln(2√n/δ)/n (confidence)"),
    "start_spread": Metric("worst minus best start's objective", possible=AMOUNT),
    "mean_change": Metric("largest change of the predictive mean", "std. of target", possible=AMOUNT),
    "displacement": Metric("mean way of Z from its start", "units of x", possible=AMOUNT),
    "roughness": Metric("∫ (mean'')² dx", possible=AMOUNT),
    "share_as_good": Metric("share of starts that end as low", possible=SHARE),
    # predictions
    "mse_train": Metric("training MSE", "variances of target", "lower", possible=AMOUNT),
    "mse_test": Metric("test MSE", "variances of target", "lower", possible=AMOUNT),
    "nll_test": Metric("test neg. log density", "nats", "lower"),
    "rmse_test_own_units": Metric("test RMSE", "units of target", "lower", possible=AMOUNT),
    "noise_variance": Metric("noise variance σ²", "variances of target", possible=AMOUNT),
    "noise_std": Metric("noise σ", "units of y", possible=AMOUNT),
    "lengthscale": Metric("lengthscale", "units of x", possible=AMOUNT),
    "variance": Metric("signal variance", possible=AMOUNT),
    # active learning
    "rmse": Metric("RMSE", "", "lower", possible=AMOUNT),
    "rmse_all": Metric("RMSE, unsafe test rows too", "", "lower", possible=AMOUNT),
    "rmse_true": Metric("RMSE, noise-free targets", "", "lower", possible=AMOUNT),
    "rmse_noisy": Metric("RMSE, noisy targets", "", "lower", possible=AMOUNT),
    "log_density": Metric("log density", "nats", "higher"),
    "log_density_mixture": Metric("log density, exact mixture", "nats", "higher"),
    "precision_noisy": Metric(
        "truly safe by measured z among those marked safe", "", "higher", "precision by measured z", possible=SHARE
    ),
    "precision_true": Metric(
        "truly safe by h among those marked safe", "", "higher", "precision by true h", possible=SHARE
    ),
    "marked_safe": Metric("share of the pool marked safe", possible=SHARE),
    "seconds_outputs": Metric("output model, wall clock", "s", "lower", possible=AMOUNT),
    "seconds_safety": Metric("safety model, wall clock", "s", "lower", possible=AMOUNT),
    "seconds_predict": Metric("predictions, wall clock", "s", "lower", possible=AMOUNT),
    "active_learning/unsafe": Metric("unsafe queries", "", "lower"),
    "share_percent": Metric("unsafe", "%", "lower"),
    "any_percent": Metric("repetitions with an unsafe query", "%", "lower"),
    "surely_above": Metric("repetitions surely above δ", "", "lower"),
    "largest_ratio": Metric("largest mean / bound", "", "lower"),
    # robustness of classifiers
    "robustness/delta": Metric("δ = π max − π min", PROBABILITY, "lower", "δ", possible=SHARE),
    "delta_proved": Metric("δ, proved", PROBABILITY, "lower", possible=SHARE),
    "wasserstein": Metric("2-Wasserstein", "latent units", "lower", possible=AMOUNT),
    "wasserstein_draws": Metric("2-Wasserstein to the draws", "", "lower", possible=AMOUNT),
    "robustness/kl": Metric("KL(HMC | approximation)", "nats", "lower"),
    "probability_error": Metric("|class probability − HMC's|", "", "lower", possible=AMOUNT),
    "hmc_distance": Metric("2-Wasserstein distance to HMC", "latent units", "lower", possible=AMOUNT),
    "search_seconds": Metric("search seconds", "", "lower", possible=AMOUNT),
    "robustness/gap": Metric("gap between proved and attained probability", "", "lower"),
    # classifiers' probabilities and their uncertainty
    "accuracy": Metric("accuracy", "", "higher", possible=SHARE),
    "nll": Metric("neg. log probability", "nats", "lower", "NLL", possible=AMOUNT),
    "brier": Metric("Brier score, sum over classes", "", "lower", "Brier", possible=AMOUNT),
    "ece": Metric("expected calibration error", "", "lower", "ECE", possible=SHARE),
    "confidence_excess": Metric("mean confidence − accuracy"),
    "aurc": Metric("mean risk over coverages (AURC)", "", "lower", "AURC", possible=SHARE),
    "total_uncertainty": Metric("total uncertainty", "nats", possible=AMOUNT),
    "data_uncertainty": Metric("data uncertainty", "nats", possible=AMOUNT),
    "knowledge_uncertainty": Metric("knowledge uncertainty", "nats", possible=AMOUNT),
    "auroc": Metric("AUROC of entropy", "", "higher", "AUROC", possible=SHARE),
    "auroc_knowledge": Metric("AUROC of mutual information", "", "higher", possible=SHARE),
    "aupr": Metric("AUPR of entropy", "", "higher", "AUPR", possible=SHARE),
    "fpr95": Metric("FPR95 of entropy", "", "lower", "FPR95", possible=SHARE),
    # regressions' Gaussian predictions
    "nll_own": Metric("neg. log density in the target's units", "nats", "lower", "NLL"),
    "crps": Metric("CRPS", "units of target", "lower", possible=AMOUNT),
    "interval_coverage": Metric("coverage of 95 % intervals", PROBABILITY, "", "coverage", possible=SHARE),
    "interval_width": Metric("mean width of 95 % intervals", "units of target", "lower", "width", possible=AMOUNT),
    "tempering": Metric("tempering factor α_T", possible=AMOUNT),
    "inducing_multiple": Metric("chosen M / √N", possible=AMOUNT),
    "nll_luckiest": Metric("least NLL of the trials", "nats", "lower"),
    "nll_mean": Metric("mean NLL of the trials", "nats", "lower"),
    "nll_gain_by_test_rows": Metric("mean − least NLL of the trials", "nats"),
    "nll_validation": Metric("neg. log density of validation rows, standardised", "nats", "lower"),
    "gap_over_data_deviation": Metric("deviation in the gap / at data", possible=AMOUNT),
    # regions and bands of perturbation methods
    "coverage": Metric("coverage", PROBABILITY, "higher", possible=SHARE),
    "simultaneous": Metric("simultaneous coverage", PROBABILITY, "higher", possible=SHARE),
    "pointwise": Metric("mean pointwise coverage", PROBABILITY, "higher", possible=SHARE),
    "nominal": Metric("1 - q/m", PROBABILITY, possible=SHARE),
    "width": Metric("mean width", "", "lower", possible=AMOUNT),
    "mean_width": Metric("mean width at the data", "", "lower", possible=AMOUNT),
    "pointwise_width": Metric("mean width, pointwise band", "", "lower", possible=AMOUNT),
    "ellipsoid_width": Metric("mean width, ellipsoid band", "", "lower", possible=AMOUNT),
    "unbounded_share": Metric("share of unbounded rays", "", "lower", possible=SHARE),
    "returning_share": Metric("share of returning rays", possible=SHARE),
    "at_ball_share": Metric("share of rays ended by the norm ball", possible=SHARE),
    "truth_inside_share": Metric("share of data with f* inside", "", "higher", possible=SHARE),
    "refused": Metric("end points not confirmed"),
    "members_outside_ellipsoid": Metric("of them outside the ellipsoid"),
    "angle_degrees": Metric("largest angle to the estimate's line", "degrees"),
    "points_as_estimate": Metric("share of data classified as by the estimate"),
    "all_as_estimate": Metric("share of members that classify all data so"),
    "region_area": Metric("region's area", "", "lower", possible=AMOUNT),
    "ellipsoid_over_region": Metric("outer ellipsoid / region", "", "lower"),
    "asymptotic_over_region": Metric("asymptotic χ² ellipse / region"),
}


def metric(name: str, family: str = "") -> Metric:
    """Return a metric by its name in a family's records. One that is not registered has its name as label."""
    known = METRICS.get(f"{family}/{name}") or METRICS.get(name)
    if known is None and name.endswith(UNTEMPERED):
        tempered = metric(name.removesuffix(UNTEMPERED), family)
        return replace(tempered, label=f"{tempered.label},{UNTEMPERED}", short="")
    return known or Metric(name)


def headings(names: Iterable[str], family: str = "") -> dict[str, str]:
    """Return the headings of those names that are metrics."""
    return {name: metric(name, family).heading for name in names if {name, f"{family}/{name}"} & METRICS.keys()}
