"""Pictures of sweeps: the kind of picture follows from the axes, and every number drawn is one of the store."""

import json

import numpy as np
import pytest
import xarray as xr

from attnflow import show
from attnflow._common.checks import InputError
from attnflow.show.sweeps.drawn_axes import drawn_axes


def dataset(reductions=("mean", "error", "quantiles"), missing=0, **axes):
    """A dataset as `sweep` makes it, with the observable `order` equal to a known function of the places."""
    shape = [len(values) for values in axes.values()]
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    variables = {"order_runs": (tuple(axes), np.full(shape, 8.0))}
    if "mean" in reductions:
        variables["order_mean"] = (tuple(axes), values)
    if "error" in reductions:
        variables["order_error"] = (tuple(axes), np.full(shape, 0.5))
    if "quantiles" in reductions:
        spread = np.stack([values - 2, values + 0.25, values + 3], axis=-1)
        variables["order_quantiles"] = ((*axes, "quantile"), spread)
    coordinates = dict(axes) | {"run": np.arange(8)}
    if "quantiles" in reductions:
        coordinates["quantile"] = [0.1, 0.5, 0.9]
    attributes = {"spec": json.dumps({"observables": {"order": "mean-cosine"}}), "outcome": "1 of 9 runs are computed."}
    return xr.Dataset(variables, coordinates, attributes | {"runs_missing": missing, "runs_failed": 0})


def words(figure):
    return figure.get_suptitle().replace("\n", " "), figure.get_supxlabel().replace("\n", " ")


BETAS, TIMES = np.geomspace(1, 64, 9), np.linspace(0, 20, 11)


def test_two_long_axes_are_a_phase_diagram():
    data = dataset(beta=BETAS, time=TIMES)

    figure = show.sweep(data)

    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time $t$", r"$\beta$")
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    np.testing.assert_array_equal(axes.collections[0].get_array(), data.order_mean.values)
    assert "mean of 8 runs" in words(figure)[0]
    assert len(figure.axes) == 2, "a panel and its colour bar"


def test_a_third_axis_makes_small_multiples_with_one_scale():
    figure = show.sweep(dataset(beta=BETAS, d=[2, 3, 8], time=TIMES))

    panels = figure.axes[:3]
    assert [axes.get_title(loc="left") for axes in panels] == ["$d$ = 2", "$d$ = 3", "$d$ = 8"]
    assert len({axes.collections[0].get_clim() for axes in panels}) == 1


def test_with_too_many_axes_the_last_time_is_drawn():
    data = dataset(start=[0, 1], kappa=BETAS, beta=BETAS, time=TIMES)

    figure = show.sweep(data)

    np.testing.assert_array_equal(figure.axes[0].collections[0].get_array(), data.order_mean[0, :, :, -1].values)
    assert "At $t$ = 20." in words(figure)[1]


def test_seeds_are_points_with_bars_and_not_lines():
    data = dataset(seed=np.arange(5), beta=[1.0, 4.0])

    figure = show.sweep(data)

    assert figure.axes[0].get_xlabel() == "seed"
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"None"}
    assert words(figure)[1].startswith("Bars: from the 0.1 to the 0.9 quantile")


def test_few_values_are_lines_with_bands_of_quantiles():
    data = dataset(beta=[1.0, 4.0], time=TIMES)

    figure = show.sweep(data)

    axes = figure.axes[0]
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], data.order_mean.values)
    edges = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == (data.order_mean[0].min() - 2, data.order_mean[0].max() + 3)
    assert "from the 0.1 to the 0.9 quantile over runs" in words(figure)[1]


def test_many_lines_have_bands_of_the_error_of_the_mean():
    data = dataset(beta=[1.0, 2.0, 3.0, 4.0], time=TIMES)

    figure = show.sweep(data)

    edges = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(edges.min(), -0.5 * 1.96)
    assert "95 % interval of the mean" in words(figure)[1]


def test_words_are_points_beside_each_other_without_lines():
    figure = show.sweep(dataset(mask=np.array(["full", "causal", "window:8"], object)))

    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["full", "causal", "window:8"]
    assert axes.lines[0].get_linestyle() == "None"


def test_an_axis_can_be_fixed():
    data = dataset(beta=[1.0, 2.0, 3.0], n=[5, 6], time=TIMES)

    figure = show.sweep(data, at={"beta": "2.1", "n": 6})

    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), data.order_mean.sel(beta=2.0, n=6))
    assert r"At $\beta$ = 2, $n$ = 6" in words(figure)[1], "the value drawn, not the one asked for"


def test_medians_are_drawn_without_means():
    data = dataset(("quantiles",), beta=[1.0, 4.0, 16.0])

    figure = show.sweep(data)

    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), data.order_quantiles.sel(quantile=0.5))
    assert "quantile 0.5 of 8 runs" in words(figure)[0]


def test_runs_without_a_value_are_counted():
    data = dataset(beta=[1.0, 4.0, 16.0], time=TIMES)
    ended = data.order_runs.copy()
    ended[0, 5:] = np.arange(5, -1, -1)  # the last runs at beta = 1 end before the last time
    ended[2] = np.nan  # a cell that is not computed

    assert "have a value" not in words(show.sweep(data))[1]
    figure = show.sweep(data.assign(order_runs=ended))
    assert words(figure)[0].endswith("mean of up to 8 runs")
    assert "Of 8 runs 1 to 8 have a value." in words(figure)[1]
    assert "have a value" not in words(show.sweep(data.assign(order_runs=ended), at={"beta": 4.0}))[1]


def test_one_run_has_no_statistics():
    figure = show.sweep(dataset(beta=[1.0, 4.0], time=TIMES).isel(run=[0]))

    assert words(figure)[0].endswith(": one run")
    assert "Bands" not in words(figure)[1]


def test_unfinished_sweeps_say_so():
    assert "1 of 9 runs are computed." in words(show.sweep(dataset(missing=8, beta=[1.0, 4.0])))[1]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (dataset(beta=[1.0, 2.0]), {"observable": "ordr"}, "`observable` 'ordr' is not known. Did you mean 'order'"),
        (dataset(beta=[1.0, 2.0]), {"at": {"bet": 1}}, "`axis` 'bet' is not known. Did you mean 'beta'"),
        (dataset(beta=[1.0, 2.0]), {"at": {"beta": "x"}}, "must be a number, but it is 'x'"),
        (dataset(beta=[1.0]), {}, "There is nothing to draw: one value, 0, is left"),
        (dataset(a=[1, 2], b=[1, 2], c=[1, 2], d=[1, 2]), {}, "more axes than a picture: c, d are left"),
        (xr.Dataset(), {}, "it is not a sweep"),
        (dataset(beta=[1.0, 2.0]).map(lambda values: values * np.nan, keep_attrs=True), {}, "No cell of the sweep is finished"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(data, options, message):
    with pytest.raises(InputError) as refusal:
        show.sweep(data, **options)
    assert message in str(refusal.value)


def test_more_values_of_a_third_axis_than_panels_are_refused():
    kept, refused = (dataset(beta=np.geomspace(1, 64, 15), d=np.arange(size), time=TIMES) for size in (12, 13))
    panels = drawn_axes(kept.order_mean.drop_vars("d").assign_coords(d=[f"d{k}" for k in range(12)])).panels
    assert panels == "d"
    with pytest.raises(InputError, match="d are left"):
        drawn_axes(refused.order_mean.assign_coords(d=[f"d{k}" for k in range(13)]))
