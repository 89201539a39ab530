"""The metrics of all families: what they are called, their units, and which way is better."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", ""]

PROBABILITY = "probability"


@dataclass(frozen=True)
class Metric:
    """A number that records or tables hold.

    Attributes:
        label: what it is, in words that head a column.
        unit: empty for counts, shares and other pure numbers; probabilities name theirs on axes only.
        better: lower, higher, or empty where neither is.
        short: a shorter label for axes and narrow columns; default: the label.
    """

    label: str
    unit: str = ""
    better: Better = ""
    short: str = ""

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
        """Label of an axis or title of a panel: short, with unit and an arrow that points to where it is better."""
        arrow = {"lower": " ↓", "higher": " ↑", "": ""}[self.better]
        return self._with_unit(self.short or self.label, self.unit) + arrow

    @staticmethod
    def _with_unit(label: str, unit: str) -> str:
        return f"{label} ({unit})" if unit else label


# A name that families use for different things stands behind its family.
METRICS = {
    # PAC-Bayes: risks and bounds, all of them probabilities of an error
    "bound_kl": Metric("upper bound B_kl on the Gibbs risk", PROBABILITY, "lower", "upper bound B_kl"),
    "bound_sqrt": Metric("looser bound B_sqrt", PROBABILITY, "lower"),
    "bound_bayes": Metric("bound 2 B_kl on the Bayes risk", PROBABILITY, "lower"),
    "bound_kl_exp": Metric("B_kl under the exponential loss", PROBABILITY, "lower"),
    "bound_of_choice": Metric("B_kl, choice of M paid for", PROBABILITY, "lower"),
    "bound_change": Metric("change of the bound by rounding alone, same penalty", "10⁻⁶"),
    "bound_against_two_decimals": Metric("bound − bound at 2 decimals"),
    "lower_kl": Metric("lower bound on the Gibbs risk", PROBABILITY, "higher"),
    "test_bound_gibbs": Metric("bound from the test rows on the Gibbs risk", PROBABILITY, "lower"),
    "test_bound_bayes": Metric("bound from the test rows on the Bayes risk", PROBABILITY, "lower"),
    "gibbs_risk_train": Metric("Gibbs training risk", PROBABILITY, "lower"),
    "gibbs_risk_test": Metric("Gibbs test risk", PROBABILITY, "lower"),
    "gibbs_risk_test_exp": Metric("Gibbs test risk under the exponential loss", PROBABILITY, "lower"),
    "bayes_risk_test": Metric("Bayes test risk", PROBABILITY, "lower"),
    "pac_bayes/gap": Metric("gap: test − training risk", "", "lower"),
    "chosen_m": Metric("M chosen (mean)"),
    "kl_over_n": Metric("KL/n", "nats", "lower"),
    "published_kl_over_n": Metric("KL/n in the paper"),
    "log_theta_per_point": Metric("ln|Θ|/n (hyperparameter grid)"),
    "log_theta_over_n": Metric("penalty ln|Θ|/n", "nats", "lower"),
    "confidence_per_point": Metric("ln(2√n/δ)/n (confidence)"),
    "start_spread": Metric("worst minus best start's objective"),
    "mean_change": Metric("largest change of the predictive mean", "std. of target"),
    "displacement": Metric("mean way of Z from its start", "units of x"),
    "roughness": Metric("∫ (mean'')² dx"),
    "share_as_good": Metric("share of starts that end as low"),
    # predictions
    "mse_train": Metric("training MSE", "variances of target", "lower"),
    "mse_test": Metric("test MSE", "variances of target", "lower"),
    "nll_test": Metric("test neg. log density", "nats", "lower"),
    "rmse_test_own_units": Metric("test RMSE", "units of target", "lower"),
    "noise_variance": Metric("noise variance σ²", "variances of target"),
    "noise_std": Metric("noise σ", "units of y"),
    "lengthscale": Metric("lengthscale", "units of x"),
    "variance": Metric("signal variance"),
    # active learning
    "rmse": Metric("RMSE", "", "lower"),
    "rmse_all": Metric("RMSE, unsafe test rows too", "", "lower"),
    "rmse_true": Metric("RMSE, noise-free targets", "", "lower"),
    "rmse_noisy": Metric("RMSE, noisy targets", "", "lower"),
    "log_density": Metric("log density", "nats", "higher"),
    "log_density_mixture": Metric("log density, exact mixture", "nats", "higher"),
    "precision_noisy": Metric(
        "truly safe by measured z among those marked safe", "", "higher", "precision by measured z"
    ),
    "precision_true": Metric("truly safe by h among those marked safe", "", "higher", "precision by true h"),
    "marked_safe": Metric("share of the pool marked safe"),
    "seconds_outputs": Metric("output model, wall clock", "s", "lower"),
    "seconds_safety": Metric("safety model, wall clock", "s", "lower"),
    "seconds_predict": Metric("predictions, wall clock", "s", "lower"),
    "active_learning/unsafe": Metric("unsafe queries", "", "lower"),
    "share_percent": Metric("unsafe", "%", "lower"),
    "any_percent": Metric("repetitions with an unsafe query", "%", "lower"),
    "surely_above": Metric("repetitions surely above δ", "", "lower"),
    "largest_ratio": Metric("largest mean / bound", "", "lower"),
    # robustness of classifiers
    "robustness/delta": Metric("δ = π max − π min", PROBABILITY, "lower", "δ"),
    "delta_proved": Metric("δ, proved", PROBABILITY, "lower"),
    "wasserstein": Metric("2-Wasserstein", "latent units", "lower"),
    "wasserstein_draws": Metric("2-Wasserstein to the draws", "", "lower"),
    "robustness/kl": Metric("KL(HMC | approximation)", "nats", "lower"),
    "probability_error": Metric("|class probability − HMC's|", "", "lower"),
    "hmc_distance": Metric("2-Wasserstein distance to HMC", "latent units", "lower"),
    "search_seconds": Metric("search seconds", "", "lower"),
    "robustness/gap": Metric("gap between proved and attained probability", "", "lower"),
    # classifiers' probabilities and their uncertainty
    "accuracy": Metric("accuracy", "", "higher"),
    "nll": Metric("neg. log probability", "nats", "lower", "NLL"),
    "brier": Metric("Brier score, sum over classes", "", "lower", "Brier"),
    "ece": Metric("expected calibration error", "", "lower", "ECE"),
    "confidence_excess": Metric("mean confidence − accuracy"),
    "aurc": Metric("mean risk over coverages (AURC)", "", "lower", "AURC"),
    "total_uncertainty": Metric("total uncertainty", "nats"),
    "data_uncertainty": Metric("data uncertainty", "nats"),
    "knowledge_uncertainty": Metric("knowledge uncertainty", "nats"),
    "auroc": Metric("AUROC of entropy", "", "higher", "AUROC"),
    "auroc_knowledge": Metric("AUROC of mutual information", "", "higher"),
    "aupr": Metric("AUPR of entropy", "", "higher", "AUPR"),
    "fpr95": Metric("FPR95 of entropy", "", "lower", "FPR95"),
    # regressions' Gaussian predictions
    "nll_own": Metric("neg. log density in the target's units", "nats", "lower", "NLL"),
    "crps": Metric("CRPS", "units of target", "lower"),
    "interval_coverage": Metric("coverage of 95 % intervals", PROBABILITY, "", "coverage"),
    "interval_width": Metric("mean width of 95 % intervals", "units of target", "lower", "width"),
    "tempering": Metric("tempering factor α_T"),
    "gap_over_data_deviation": Metric("deviation in the gap / at data"),
    # regions and bands of perturbation methods
    "coverage": Metric("coverage", PROBABILITY, "higher"),
    "simultaneous": Metric("simultaneous coverage", PROBABILITY, "higher"),
    "pointwise": Metric("mean pointwise coverage", PROBABILITY, "higher"),
    "nominal": Metric("1 - q/m", PROBABILITY),
    "width": Metric("mean width", "", "lower"),
    "mean_width": Metric("mean width at the data", "", "lower"),
    "pointwise_width": Metric("mean width, pointwise band", "", "lower"),
    "ellipsoid_width": Metric("mean width, ellipsoid band", "", "lower"),
    "unbounded_share": Metric("share of unbounded rays", "", "lower"),
    "returning_share": Metric("share of returning rays"),
    "at_ball_share": Metric("share of rays ended by the norm ball"),
    "truth_inside_share": Metric("share of data with f* inside", "", "higher"),
    "refused": Metric("end points not confirmed"),
    "members_outside_ellipsoid": Metric("of them outside the ellipsoid"),
    "angle_degrees": Metric("largest angle to the estimate's line", "degrees"),
    "points_as_estimate": Metric("share of data classified as by the estimate"),
    "all_as_estimate": Metric("share of members that classify all data so"),
    "region_area": Metric("region's area", "", "lower"),
    "ellipsoid_over_region": Metric("outer ellipsoid / region", "", "lower"),
    "asymptotic_over_region": Metric("asymptotic χ² ellipse / region"),
}


def metric(name: str, family: str = "") -> Metric:
    """Return a metric by its name in a family's records; one that is not registered is called by its name."""
    return METRICS.get(f"{family}/{name}") or METRICS.get(name) or Metric(name)


def headings(names: Iterable[str], family: str = "") -> dict[str, str]:
    """Return the headings of those names that are metrics."""
    return {
        name: metric(name, family).heading for name in names if {name, f"{family}/{name}"} & METRICS.keys()
    }
