"""Sweeps: numbers against runs one by one, the same bits however they are computed, resumed and extended."""

import importlib
import json
import os
import sys
import warnings
from types import SimpleNamespace as Usage

import numpy as np
import pytest
import xarray as xr
from tests.helpers.sweeping import SMALL, assert_same, numbers_of, small_sweep

import attnflow as af
from attnflow._common import memory
from attnflow._common.checks import InputError
from attnflow._common.file_locks import LOCKED_BYTE, is_locked
from attnflow.experiments import scenarios, specs
from attnflow.sweeps import batches, planning
from attnflow.sweeps.cells import OF_NOISE, OF_START, SweepCell, cells_of, cells_to_check, seed_of, times_of
from attnflow.sweeps.spec_files import spec_named, spec_of_values
from attnflow.sweeps.store import locked, read_journal
from attnflow.sweeps.sweep_spec import SweepSpec

module = importlib.import_module("attnflow.sweeps.sweep")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The path of a small sweep."""
    path = tmp_path_factory.mktemp("sweep") / "small.zarr"
    small_sweep(path)
    return path


def spec_of_small(**changes):
    given = SMALL | changes
    return spec_named("sphere", {name: value for name, value in given.items() if name != "settings"}, given["settings"])


def test_plain_xarray_opens_a_labelled_store(small):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xr.open_zarr(small)

    assert found.mean_cosine_mean.dims == ("beta", "n", "time")
    assert found.mean_cosine_quantiles.dims == ("beta", "n", "quantile", "time")
    assert found.mean_cosine.dims == ("beta", "n", "run", "time")
    assert found.final_clusters_mean.dims == ("beta", "n")
    np.testing.assert_array_equal(found.beta, [1.0, 9.0])
    np.testing.assert_array_equal(found.time, [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(found["quantile"], [0.1, 0.9])
    assert set(found.status.values.ravel()) == {"Reached the end."}
    assert found.attrs["outcome"] == "40 of 40 runs are computed."
    assert json.loads(found.attrs["spec"])["runs"] == 10
    assert json.loads(found.attrs["versions"]) == [af.__version__]


def test_numbers_are_those_of_single_runs(small):
    """Each run alone, from the tokens of its own seed, gives the values in the store bit for bit."""
    found, spec = numbers_of(small), spec_of_small()
    for cell in cells_of(spec):
        place = found.sel(**cell.values)
        for run in (0, 7):
            settings = scenarios.change(scenarios.get("sphere").settings, cell.values | {"end": 2.0, "saves": 3})
            setup = scenarios.build(settings)
            tokens = specs.start("sphere", settings.n, 3, None, seed_of(spec, cell, OF_START, run))
            alone = af.simulate(setup.flow, tokens, setup.times, solver=setup.solver,
                                observables={"cosine": af.observables.mean_cosine})  # fmt: skip
            np.testing.assert_array_equal(place.mean_cosine.sel(run=run), alone.cosine)
            labels = af.clusters.labels(alone.final_tokens.values, 0.5)
            assert place.final_clusters.sel(run=run) == labels.max() + 1


def test_reductions_are_those_of_numpy(small):
    found = numbers_of(small)

    values = found.mean_cosine.transpose("run", ...).values
    np.testing.assert_allclose(found.mean_cosine_mean, values.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.mean_cosine_error, values.std(axis=0, ddof=1) / 10**0.5, rtol=1e-12)
    low, high = np.quantile(values, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(found.mean_cosine_quantiles.sel(quantile=0.1), low, rtol=1e-14)
    np.testing.assert_allclose(found.mean_cosine_quantiles.sel(quantile=0.9), high, rtol=1e-14)
    np.testing.assert_array_equal(found.mean_cosine_runs, np.full((2, 2, 3), 10))


def test_runs_of_different_cells_start_from_different_tokens(small):
    first = numbers_of(small).mean_cosine.isel(time=0).values.ravel()
    assert len(np.unique(first)) == len(first) == 40


def test_sizes_of_batches_change_no_bit(small, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "SECONDS_PER_BATCH", 1e-9)

    small_sweep(tmp_path / "single.zarr")

    assert len(list((tmp_path / "single.zarr/.sweep/batches").glob("*.npz"))) == 40
    assert_same(small, tmp_path / "single.zarr")


def test_noise_has_seeds_that_batches_do_not_change(tmp_path, monkeypatch):
    given = {"over": {"kappa": [2.0, 8.0]}, "runs": 5, "settings": {"n": 4, "end": 0.1, "saves": 2}, "reduce": ["all"]}
    given |= {"observables": ["mean-cosine"]}
    small_sweep(tmp_path / "a.zarr", "noisy", **given)
    monkeypatch.setattr(planning, "SECONDS_PER_BATCH", 1e-9)
    small_sweep(tmp_path / "b.zarr", "noisy", **given)

    assert_same(tmp_path / "a.zarr", tmp_path / "b.zarr")
    # Run 3 alone, by `simulate`, with the seeds of its place.
    spec = spec_named("noisy", {name: given[name] for name in ("over", "runs", "observables")}, given["settings"])
    cell = cells_of(spec)[1]
    setup = scenarios.build(scenarios.change(scenarios.get("noisy").settings, given["settings"] | cell.values))
    tokens = specs.start("circle", 4, 2, None, seed_of(spec, cell, OF_START, 3))
    alone = af.simulate(setup.flow, tokens, setup.times, rng=seed_of(spec, cell, OF_NOISE, 3),
                        observables={"cosine": af.observables.mean_cosine})  # fmt: skip
    np.testing.assert_array_equal(numbers_of(tmp_path / "a.zarr").mean_cosine.sel(kappa=8.0, run=3), alone.cosine)


def test_more_runs_and_values_leave_the_others_alone(small, tmp_path):
    larger = {"over": {"beta": [0.5, 1.0, 9.0], "n": [6, 4]}, "runs": 13}
    small_sweep(tmp_path / "grown.zarr")
    before = set((tmp_path / "grown.zarr/.sweep/batches").iterdir())

    grown = small_sweep(tmp_path / "grown.zarr", extend=True, **larger)
    small_sweep(tmp_path / "fresh.zarr", **larger)

    assert before <= set((tmp_path / "grown.zarr/.sweep/batches").iterdir())
    assert grown.attrs["outcome"] == "78 of 78 runs are computed."
    assert_same(tmp_path / "grown.zarr", tmp_path / "fresh.zarr")
    old, new = numbers_of(small), numbers_of(tmp_path / "grown.zarr")
    kept = new.sel(beta=old.beta, n=old.n, run=old.run)
    np.testing.assert_array_equal(kept.mean_cosine, old.mean_cosine)


@pytest.mark.parametrize("solver", ["rk4:0.1", "tsit5"])
def test_later_times_give_the_numbers_of_a_sweep_that_had_them_at_once(tmp_path, monkeypatch, solver):
    """Fixed steps are continued, and only those runs that were not stopped; adaptive steps are computed again."""
    given = {"over": {"clustered": [1.0, 1e-9]}, "observables": ["mean-cosine", "step-count", "end-time"]}
    of_times = lambda end, saves: {"settings": {"n": 4, "end": end, "saves": saves, "solver": solver}}
    small_sweep(tmp_path / "grown.zarr", **given, **of_times(2.0, 3))
    asked, real = [], batches.simulated

    def noting(request, watch):
        asked.append((request.times[0], len(request.tokens)))
        return real(request, watch)

    monkeypatch.setattr(batches, "simulated", noting)
    more = {"runs": 12}  # of each cell two more, which begin at time 0
    small_sweep(tmp_path / "grown.zarr", extend=True, **given, **of_times(3.0, 4))
    grown = small_sweep(tmp_path / "grown.zarr", extend=True, **given, **of_times(5.0, 6), **more).load()
    begun = {time: sum(runs for first, runs in asked if first == time) for time in (0.0, 2.0, 3.0)}
    small_sweep(tmp_path / "fresh.zarr", **given, **of_times(5.0, 6), **more)

    assert_same(tmp_path / "grown.zarr", tmp_path / "fresh.zarr")
    stopped = (grown.final_time < 2.0).sel(run=slice(0, 9)).sum().item()
    later = (grown.final_time < 3.0).sel(run=slice(0, 9)).sum().item()
    assert 0 < stopped < 20
    assert begun == ({0.0: 4, 2.0: 20 - stopped, 3.0: 20 - later} if solver != "tsit5" else {0.0: 44, 2.0: 0, 3.0: 0})
    again = af.replay(tmp_path / "grown.zarr", {"clustered": 1e-9}, run=3)
    assert again.equals_sweep == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 9}, "The store has 10 runs of each cell, but `runs` is 9"),
        ({"over": {"beta": [1.0], "n": [4, 6]}}, "keeps all values of axis `beta`"),
        (
            {"seed": 1},
            "Only runs, values of axes and times can be added to a sweep, but `seed` is 0 in the store and 1 here",
        ),
        (
            {"settings": {"end": 3.0, "saves": 3}},
            "but time 2 is 1 in the store and 1.5 in the new spec. Keep the interval",
        ),
        ({"settings": {"end": 1.0, "saves": 2}}, "but time 3 is 2 in the store and none in the new spec"),
        ({"over": {"beta": [1.0, 9.0]}}, "the axes are beta, n in the store and beta here"),
        ({"over": {}}, "the axes are beta, n in the store and none here"),
    ],
)
def test_other_extensions_are_refused(small, changes, message):
    with pytest.raises(InputError) as refusal:
        small_sweep(small, extend=True, **changes)
    assert message in str(refusal.value)


def test_another_spec_is_refused_with_what_differs(small):
    with pytest.raises(InputError) as refusal:
        small_sweep(small, runs=12, seed=4)
    assert "`runs` is 10 in the store and 12 here; `seed` is 0 in the store and 4 here" in str(refusal.value)


def test_an_extension_needs_a_store(tmp_path):
    with pytest.raises(InputError, match=r"There is no sweep at .* to extend"):
        small_sweep(tmp_path / "none.zarr", extend=True)


def test_a_store_has_one_writer(small):
    with locked(small), pytest.raises(InputError, match=r"is being written by another process \(process \d+ on"):
        small_sweep(small)


class LocksOfWindows:
    """`msvcrt` as far as it locks a byte: a second lock is refused, and the bytes that hold one cannot be read."""

    LK_NBLCK = 2

    def __init__(self):
        self.held = {}

    def locking(self, number, mode, count):
        assert (mode, count) == (self.LK_NBLCK, 1)
        file = os.fstat(number).st_ino
        if file in self.held:
            raise PermissionError("locked")
        self.held[file] = os.lseek(number, 0, os.SEEK_CUR)


def test_on_windows_a_byte_past_the_text_is_locked(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", locks := LocksOfWindows())

    with locked(small), pytest.raises(InputError, match=r"is being written by another process \(process \d+ on"):
        small_sweep(small)

    assert list(locks.held.values()) == [LOCKED_BYTE]
    assert (small / ".sweep/lock").stat().st_size < LOCKED_BYTE


def test_on_windows_the_file_of_the_lock_is_closed_before_its_folder_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    was_open = []
    monkeypatch.setattr("shutil.rmtree", lambda path, **_: was_open.append(is_locked(path / ".sweep/lock")))

    with locked(tmp_path / "new.zarr"):  # which ends without a spec
        assert is_locked(tmp_path / "new.zarr/.sweep/lock")

    assert was_open == [False]


def test_foreign_directories_are_left_alone(tmp_path):
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr/notes.txt").write_text("mine")
    with pytest.raises(InputError, match="exists already and is no sweep"):
        small_sweep(tmp_path / "mine.zarr")
    with pytest.raises(InputError, match=r"is written as `\.zarr`"):
        small_sweep(tmp_path / "mine.nc")


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    small_sweep(tmp_path / "new.zarr", over={}, runs=1)
    path = tmp_path / "new.zarr/.sweep/spec.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99, "versions": ["9.0"]}))

    for use in (
        lambda: small_sweep(tmp_path / "new.zarr", over={}, runs=1),
        lambda: af.load_sweep(tmp_path / "new.zarr"),
    ):
        with pytest.raises(InputError, match=r"was written by attnflow 9\.0, which is newer"):
            use()
    path.write_text("{")  # the arrays of a store whose spec is damaged can still be read
    assert af.load_sweep(tmp_path / "new.zarr").sizes["run"] == 1


def test_what_is_refused_leaves_no_folder(small, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage(free=1000))
    (tmp_path / "empty.zarr").mkdir()
    for name in ("new.zarr", "empty.zarr"):
        with pytest.raises(InputError, match="of disk, but 1 kB are free"):
            small_sweep(tmp_path / name)
    assert not (tmp_path / "new.zarr").exists()
    assert (tmp_path / "empty.zarr").is_dir(), "a folder that was there before"
    with pytest.raises(InputError, match="holds another sweep"):
        small_sweep(small, seed=4)
    assert (small / ".sweep/spec.json").exists()


def test_a_damaged_file_of_the_journal_is_computed_again(small, tmp_path):
    small_sweep(tmp_path / "a.zarr")
    damaged = sorted((tmp_path / "a.zarr/.sweep/batches").iterdir())[0]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)

    small_sweep(tmp_path / "a.zarr")

    assert_same(small, tmp_path / "a.zarr")


def test_interrupted_sweeps_keep_what_was_finished(small, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "SECONDS_PER_BATCH", 1e-9)
    real, calls = batches.simulated, []

    def interrupted(request, watch):
        """Ctrl-C during the sixth batch, too late to stop its run."""
        calls.append(request)
        runs = real(request, watch)
        watch.is_interrupted = len(calls) == 6
        return runs

    monkeypatch.setattr(batches, "simulated", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small_sweep(tmp_path / "a.zarr")
    partial = xr.open_zarr(tmp_path / "a.zarr")
    assert partial.attrs["outcome"] == "5 of 40 runs are computed, 35 are missing."
    assert int(np.isfinite(partial.mean_cosine.isel(time=0)).sum()) == 5
    assert np.isnan(partial.mean_cosine_mean).all(), "a mean of a part of the runs is no mean of the cell"

    small_sweep(tmp_path / "a.zarr")
    assert_same(small, tmp_path / "a.zarr")


def test_a_batch_that_fails_three_times_is_recorded_and_tried_again_by_the_next_call(small, tmp_path, monkeypatch):
    real, attempts = module.compute, []

    def failing(batch):
        if any(segment.cell.values == {"beta": 9.0, "n": 4} for segment in batch.segments):
            attempts.append(batch)
            raise MemoryError("not enough")
        return real(batch)

    with monkeypatch.context() as patch:
        patch.setattr(planning, "SECONDS_PER_BATCH", 1e-9)
        patch.setattr(module, "compute", failing)
        found = small_sweep(tmp_path / "a.zarr").load()

    assert len(attempts) == 3 * 10
    assert found.attrs["outcome"] == "30 of 40 runs are computed, 10 could not be computed."
    reasons = set(found.status.sel(beta=9.0, n=4).values)
    assert len(reasons) == 1
    assert next(iter(reasons)).startswith("Failed three times: MemoryError: not enough, at failing in test_sweep.py")
    assert np.isnan(found.mean_cosine_mean.sel(beta=9.0, n=4)).all()
    assert np.isfinite(found.mean_cosine_mean.sel(beta=1.0)).all()

    small_sweep(tmp_path / "a.zarr")
    assert_same(small, tmp_path / "a.zarr")


def test_runs_that_end_early_have_their_sentence_and_leave_later_times_out(tmp_path):
    given = {"over": {"clustered": [0.5, 1e-300]}, "settings": {"n": 4, "end": 80.0, "saves": 9}, "runs": 6}
    found = small_sweep(tmp_path / "a.zarr", observables=["mean-cosine", "end-time"], **given).load()

    assert set(found.status.sel(clustered=0.5).values) == {"Stopped: one cluster within 0.5."}
    assert set(found.status.sel(clustered=1e-300).values) == {"Reached the end."}
    ends = found.final_time.sel(clustered=0.5).values
    np.testing.assert_array_equal(
        found.mean_cosine_runs.sel(clustered=0.5), [(ends >= time).sum() for time in found.time.values]
    )


def test_whole_numbers_are_counted(tmp_path):
    found = small_sweep(tmp_path / "a.zarr", observables=["clusters:0.5"], reduce=["counts", "all"]).load()

    for value in found.clusters_value.values:
        expected = (found.clusters == value).sum("run")
        np.testing.assert_array_equal(found.clusters_counts.sel(clusters_value=value), expected)
    np.testing.assert_array_equal(found.clusters_counts.sum("clusters_value"), np.full((2, 2, 3), 10))


def test_a_table_is_an_axis_with_its_columns_as_coordinates(tmp_path):
    (tmp_path / "rows.csv").write_text("beta,mask\n1,full\n4,causal\n")

    found = small_sweep(tmp_path / "a.zarr", over={"n": [4, 6]}, table=tmp_path / "rows.csv")

    assert found.mean_cosine_mean.dims == ("n", "row", "time")
    np.testing.assert_array_equal(found.beta, [1.0, 4.0])
    np.testing.assert_array_equal(found["mask"].values.astype(object), ["full", "causal"])


def test_cells_are_checked_before_anything_is_computed(tmp_path):
    with pytest.raises(InputError, match=r"Cell d = 2, value = published-3d-growing: `value`"):
        small_sweep(tmp_path / "a.zarr", over={"d": [3, 2], "value": ["identity", "published-3d-growing"]})
    assert not (tmp_path / "a.zarr").exists()
    with pytest.raises(InputError, match="has other times than the first one"):
        af.sweep(spec_of_values({"over": {"scenario": ["sphere", "kuramoto"]}}, tmp_path), tmp_path / "a.zarr")


def test_of_many_cells_the_least_and_largest_numbers_are_checked(tmp_path):
    over = {"beta": "1:2:600", "clustered": [0.5, -0.5], "n": [4, 6]}
    cells = cells_of(spec_of_small(over=over))

    checked = cells_to_check(cells)

    assert len(cells) == 2400
    assert len(checked) < 12
    assert {cell.values["beta"] for cell in checked} >= {1.0, 2.0}
    with pytest.raises(InputError, match=r"clustered = -0\.5"):
        small_sweep(tmp_path / "a.zarr", over=over)


@pytest.mark.parametrize(
    ("measure", "settings", "message"),
    [
        ("scaled-clusters", {"attention": "hardmax"}, "need an attention rule with a positive beta"),
        ("captured", {"space": "rescaled", "start": "gaussian"}, "is an angle on the sphere"),
        ("unaligned", {"value": "identity"}, "needs one head with a V whose leading eigenvalue is real and simple"),
    ],
)
def test_measures_that_are_not_defined_for_a_model_are_refused(tmp_path, measure, settings, message):
    with pytest.raises(InputError, match=message):
        small_sweep(tmp_path / "a.zarr", over={}, observables=[measure], settings=SMALL["settings"] | settings)
    assert not (tmp_path / "a.zarr").exists()


def test_sweeps_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match="A sweep has at most 10000000 cells, but this has 100000000"):
        small_sweep(tmp_path / "a.zarr", over={"beta": "1:2:10000", "kappa": "1:2:10000"})
    with pytest.raises(InputError, match="A sweep of 4 cells with 1000000000000 runs at 3 times needs"):
        small_sweep(tmp_path / "a.zarr", runs=10**12)


def test_tokens_that_are_not_kept_need_no_memory(monkeypatch):
    """Tokens at all times of one run would not fit; the control needs them."""
    monkeypatch.setattr(memory, "present_bytes", lambda: 1e8)
    cells = [SweepCell((), ())]
    settings = {"scenario": "sphere", "n": 1000, "end": 1.0, "saves": 10_000}
    find_times = lambda measure: times_of(SweepSpec(settings, observables={"a": measure}), cells)

    assert len(find_times("mean-cosine")) == 10_000
    with pytest.raises(InputError, match="at 10000 times needs 240 MB of memory"):
        find_times("clusters:0.1")


def test_seeds_depend_on_the_values_of_a_cell_and_not_on_its_place():
    one, other = spec_of_small(), spec_of_small(over={"beta": [3.0, 9.0, 1.0], "n": [6, 4]})
    of_one = {cell.key: seed_of(one, cell, OF_START, 5).generate_state(4).tolist() for cell in cells_of(one)}
    of_other = {cell.key: seed_of(other, cell, OF_START, 5).generate_state(4).tolist() for cell in cells_of(other)}

    assert len(of_one) == 4
    assert of_one.items() <= of_other.items()
    assert len({tuple(state) for state in of_other.values()}) == 6


def test_a_journal_with_more_runs_than_asked_for_gives_those(small, tmp_path):
    """While runs are added, the journal is ahead of the dataset."""
    cell = cells_of(spec_of_small())[0]
    small_sweep(tmp_path / "more.zarr", over={"beta": [1.0], "n": SMALL["over"]["n"][:1]}, runs=6)
    small_sweep(tmp_path / "more.zarr", over={"beta": [1.0], "n": SMALL["over"]["n"][:1]}, runs=8, extend=True)
    journal = read_journal(tmp_path / "more.zarr", np.array([0.0, 1.0, 2.0]))
    (numbers, found), (_, whole) = journal.arrays_of(cell, 6), journal.arrays_of(cell, 8)
    np.testing.assert_array_equal(numbers, np.arange(6))
    np.testing.assert_array_equal(found["mean_cosine"], whole["mean_cosine"][:6])
