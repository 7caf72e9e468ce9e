"""Long names of the variables of figures, written into data files; time and coordinates have no unit.

A variable has the long name that `NAMES_IN_FIGURE` gives it in the figure, or else that of `NAMES`, which joins the
tables of all topics; a variable is in one of these only.
"""

RADIANS = "radian"
ANGLES = {"angle", "peak"}
"""Variables in radians."""

SIMULATION = {
    "time": "time t",
    "tokens": "tokens over time",
    "initial_tokens": "tokens at the start",
    "final_tokens": "tokens at the end",
    "final_time": "time at which the run ended",
    "final_radius": "lengths of tokens at the end",
    "radius": "lengths of tokens over time",
    "steps": "accepted steps of the solver",
    "rejected_steps": "rejected steps of the solver",
    "drift": "largest distance of a token from the sphere before projection",
    "status": "how the run ended, see flag_meanings",
    "failed": "whether the run failed",
    "run": "number of the run",
    "run_record": "attributes, sizes and types of each run, as JSON",
    "seed": "number of the start",
}
"""Runs of `simulate`."""

COALESCENCE = {
    "log_time": "natural logarithm of time, at every saved state",
    "clusters": "number of clusters",
    "energy": "energy n^-2 sum of exp(beta (cos - 1))",
    "level": "sum of the squared shares of the clusters",
    "merge_log_time": "natural logarithm of the time of each merge",
    "first": "a token of the first cluster that merges",
    "second": "a token of the second cluster that merges",
    "mass_of_first": "share of the tokens in the first cluster that merges",
    "mass_of_second": "share of the tokens in the second cluster that merges",
    "angle": "angle between the two clusters as the plateau before their merge begins",
    "energy_before": "energy before each merge",
    "energy_after": "energy after each merge",
    "level_before": "sum of the squared shares before each merge",
    "level_after": "sum of the squared shares after each merge",
    "log_duration": "logarithm of the duration of the plateau before each merge",
    "predicted_log_duration": "logarithm of the time that an isolated pair at that angle needs",
    "forecast_log_duration": "logarithm of the shortest such time of all pairs as the plateau begins",
    "forecast_error": "error of that forecast",
    "runner_up_log_duration": "logarithm of the second shortest such time",
    "quadrature_merges": "merges that were integrated as isolated pairs",
    "quadrature_error": "largest error of a position in these merges",
    "subcycled_steps": "steps in which fast tokens were subcycled",
    "flow": "model of each run, as JSON",
    "outcome": "how each run ended, in words",
}
"""Runs of `coalesce`: states over `log_time`, and the merges."""

HEADS = {
    "layer": "layer",
    "head": "head",
    "heads": "number of heads",
    "eigenvalue_real": "real parts of the eigenvalues of V",
    "eigenvalue_imaginary": "imaginary parts of the eigenvalues of V",
    "untrained_real": "real parts of the eigenvalues of V before training",
    "untrained_imaginary": "imaginary parts of the eigenvalues of V before training",
    "real_part": "real part of the leading eigenvalue of V",
    "imaginary_part": "imaginary part of the leading eigenvalue of V",
    "dominant_real_part": "real part of the eigenvalue of V of largest modulus",
    "dominant_imaginary_part": "imaginary part of the eigenvalue of V of largest modulus",
    "kind": "kind of the leading eigenvalue",
    "dominant_kind": "kind of the eigenvalue of largest modulus",
    "gap": "difference of the two largest real parts of eigenvalues",
    "positive_share": "share of eigenvalues with positive real part",
    "effective_beta": "sqrt(d) times the Frobenius norm of the symmetric part of Q^T K",
    "whole_beta": "sqrt(d) times the Frobenius norm of Q^T K",
    "form_least": "least eigenvalue of the symmetric part of Q^T K",
    "form_greatest": "greatest eigenvalue of the symmetric part of Q^T K",
    "definiteness": "definiteness of Q^T K in words",
    "predicted": "predicted limit in words",
    "proved": "whether the prediction is a theorem",
    "by": "statement that predicts the limit",
    "simulated": "simulated limit in words",
    "agreement": "share of decided simulations with the predicted limit",
    "agreeing": "simulations with the predicted limit",
    "undecided": "undecided simulations",
    "several_hyperplanes": "simulations with two or three hyperplanes",
    "attention_rank": "rank of the attention matrix at the end",
    "misalignment": "1 - mean squared cosine of pairs of tokens",
    "place": "layer and head",
    "prompt_tokens": "first two principal components of the prompt's tokens",
    "circle_tokens": "first two principal components of the circle's tokens",
    "prompt_cluster": "cluster at the end of each token of the prompt",
    "circle_cluster": "cluster at the end of each token of the circle",
    "mean_cosine": "mean cosine of pairs of distinct tokens",
}
"""Heads of trained models, and prompts under them."""

PARAMETERS = {
    "n": "number of tokens",
    "d": "dimension of the space",
    "dimension": "dimension d of the space",
    "beta": "inverse temperature beta",
    "fine_beta": "inverse temperature beta of the curve",
    "kappa": "inverse strength of the noise kappa",
    "ratio": "kappa over kappa_1, at which the uniform law loses stability",
    "log10_n": "decimal logarithm of the number of tokens",
    "gamma": "gamma = beta / log n",
    "offset": "offset of the axis tokens from the mirror axis",
    "size": "factor of the start",
    "factor": "time over the critical time",
    "value": "value matrices of the heads",
    "spectrum": "eigenvalues of the diagonal matrix V",
    "law": "law of the random numbers",
    "start": "start of the run",
    "case": "start and mask",
    "scheme": "place of layer normalisation",
    "mask": "mask of the attention",
    "space": "space of the tokens",
    "equation": "equation of the tokens",
    "runs": "number of starts",
}
"""Axes of figures: parameters of the model and of the start."""

TIMES = {
    "coarse_time": "time t",
    "moment": "time at which a panel is drawn",
    "shown_time": "times shown",
    "at_rest": "time by which 99 % of the way is done",
    "arrival": "time at which tokens that start orthogonal are close",
    "published_arrival": "the same time for the published number of tokens",
    "predicted_time": "time T* at which all mass of the law is at its mean",
    "collapse_time": "time at which all tokens have met",
}
"""Further times."""

ATTENTION = {
    "attention": "attention matrix P: weight of each token on each attended token",
    "attention_free": "attention matrix P of the flow x' = V x from the same start",
    "log_missing": "log(1 - P) of the last token's weight on itself",
    "softness": "1 - largest weight of the median token",
    "apart": "n times the largest distance of a weight from 1/n",
    "entropy": "entropy of the rows of attention, mirrored starts",
    "random_entropy": "entropy of the rows of attention, random starts",
    "triple_entropy": "entropy of the rows of attention, start -1, 0, 1",
    "leads": "whether the token is its only best match",
    "closed": "influence of a place on the last place, closed form",
    "iterated": "influence of a place on the last place, by iteration of the weights",
}
"""Attention weights."""

TOKENS = {
    "spread": "standard deviation over tokens of each rescaled coordinate",
    "rescaled": "rescaled tokens (I + step V)^-k x at the end, along the eigenvectors of V",
    "eigenvalue": "eigenvalues of V",
    "covariance": "covariance of the tokens",
    "volume": "volume of the convex hull of the tokens",
    "distance": "distance of the median token to its limit",
    "growth": "rate of growth of the largest norm, d/dt log",
    "step": "distance that the tokens move between saved times",
    "height": "1 - cosine of the two tokens farthest apart",
    "density": "histogram of the cosines of distinct tokens",
    "cosine": "cosine",
    "curve": "cosine of tokens that start orthogonal",
    "share": "share of pairs that are close, mean over starts",
    "places": "tokens at the times shown",
    "aggregation": "root mean square distance from the mean, aggregation equation",
    "outward": "root mean square distance from the mean, attention with V = I, rescaled",
    "inward": "root mean square distance from the mean, attention with V = -I",
    "exact": "root mean square distance from the mean, aggregation of the law",
}
"""Tokens: places, distances, cosines and their statistics."""

RATES = {
    "measured": "rate of the final convergence; NaN where it still changes",
    "rate": "rates of the modes of frozen attention",
    "rate_error": "rounding error of these rates",
    "error": "relative error of the prediction",
    "bound": "mean and ends of the 95 % interval",
}
"""Fitted and predicted rates."""

CENTRES = {
    "centre": "whether the token is a Renyi centre",
    "strong": "whether the token is a strong Renyi centre",
    "captured": "share of tokens near a centre",
    "centres": "number of Renyi centres",
    "expected": "predicted number of Renyi centres",
    "control": "number of Renyi centres of tokens on a great circle of S^2",
    "force": "force h between two tokens at an angle",
    "slope": "derivative of the force",
    "peak": "angle of the largest force",
}
"""Renyi centres, and the force between two tokens on the circle."""

NOISE = {
    "order": "length of the mean token, mean over the second half of the run",
    "order_of_law": "length of the mean token of the law at the end",
    "order_of_tokens": "length of the mean token, mean over the last third of a run",
    "critical": "kappa above which the uniform distribution is unstable, in theory",
    "branch_kappa": "kappa of the stationary laws",
    "branch_order": "length of the mean token of the stationary laws",
    "branch_is_stable": "whether the stationary law is stable",
}
"""Order under noise, and stationary laws."""

# Of figures that hold a control and its run (`entries.control.stored_run`), once or by two methods.
PLANE = {"plane_tokens": "points over time", "plane_target": "targets", "plane_time": "time t"}
CONTROLLED = {
    f"{way}_{name}": f"{words}, {way}"
    for way in ("construction", "search")
    for name, words in {"tokens": "tokens over time", "target": "targets of the tokens", "time": "time t"}.items()
}
TABLES = (SIMULATION, COALESCENCE, HEADS, PARAMETERS, TIMES, ATTENTION, TOKENS, RATES, CENTRES, NOISE)
NAMES = {variable: long_name for table in TABLES for variable, long_name in table.items()}
NAMES_IN_FIGURE = {
    "boolean-exceptions": {"place": "token"},
    "captured-fraction": {"kind": "kind of centre"},
    "cluster-number-sphere": {"kind": "kind of centre"},
    "lost-in-the-middle": {"place": "place s of a token, from 0 to 1"},
    "force": {"angle": "angle x between the tokens"},
    "inner-products": {"cosine": "cosine of distinct tokens, centre of a bin"},
    "long-context": {"cosine": "cosine of tokens after one layer"},
    "kernel-modes": {"modes": "number of modes of the estimate", "expected": "(beta log beta)^1/2"},
    "mean-field-limit": {
        "distance": "Wasserstein distance between tokens and their law",
        "control": "Wasserstein distance between tokens and the law of the start",
    },
    "master-equation": {"predicted": "tokens with frozen attention"},
    "multihead-rate": {"predicted": "rate that the final weights predict"},
    "phase-diagrams": {"error": "standard error of the share"},
    "steer-labels": {
        "train": "share of wrong labels among the prompts of the control",
        "held_out": "share of wrong labels among prompts held out",
        "way": "how the control is found",
        "labels": "labels of the prompts of the control",
        "prompts": "prompts of the control",
    },
    "steer-neural-ode": PLANE | {"pieces": "pieces of the control", "count": "number of points"},
    "steer-obstructions": {
        "is_called_impossible": "whether the ends are called impossible for flows with the hypothesis",
        "argument": "argument of the obstruction",
        "side": "flows with or without the hypothesis",
    },
    "steer-sequences": {
        "blocks": "blocks of the construction",
        "stated": "blocks that the theorem states",
        "error": "largest distance of a last token from its output",
        "rule": "attention rule",
        "N": "number of sequences",
        "n": "tokens of a sequence",
    },
    "steer-sphere": CONTROLLED,
    "trained-flow": {"kind": "kind of the head's leading eigenvalue", "start": "start of the flow"},
    "trained-heads": {"rate": "rate at which tokens align", "clusters": "number of clusters at the end"},
    "trained-prompt": {"time": "layer", "kind": "weights of the model", "cosine": "cosine, centre of a bin"},
    "trained-spectra": {"radius": "largest modulus of an eigenvalue of V"},
    "value-spectrum": {
        "real_part": "real parts of the nonzero eigenvalues of V",
        "imaginary_part": "imaginary parts of the nonzero eigenvalues of V",
    },
}
"""By id of a figure: names that only this figure has, or that have another meaning in it."""


def attributes_of(figure: str, variable: str) -> dict[str, str]:
    """Long name of a variable of a figure, and its unit if it has one."""
    names = NAMES | NAMES_IN_FIGURE.get(figure, {})
    described = {"long_name": names[variable]} if variable in names else {}
    return described | ({"units": RADIANS} if variable in ANGLES else {})
