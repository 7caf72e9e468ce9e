"""The panel of what distinguishes a model on the sphere, and the marks of causal attention and of layers."""

import numpy as np
import pytest

import attnflow as af
from attnflow.show import summary
from attnflow.show.runs import characteristics

TIMES, LATE = np.linspace(0, 8, 33), np.linspace(0, 150, 76)


def drawn(flow, n=6, d=3, times=TIMES, **options):
    """The axes of a summary with attention at start and end."""
    run = af.simulate(flow, af.initial.sphere(n, d, rng=1), times, progress=False, **options)
    matrices = [af.attention_matrix(flow, run.tokens[place].values) for place in (0, -1)]
    return summary(run, matrices=matrices).axes, run


def titled(axes, text):
    """The axes whose heading begins with a text."""
    (found,) = [one for one in axes if one.get_title().startswith(text)]
    return found


def test_energy_of_a_gradient_flow_rises_to_its_maximum():
    axes, run = drawn(af.SphereAttention(af.Head.identity(3), af.Unnormalised(1.5)))
    shares = titled(axes, "energy").lines[0].get_ydata()
    expected = np.array([np.mean(np.exp(1.5 * (x @ x.T - 1))) for x in run.tokens.values])
    np.testing.assert_allclose(shares, expected, rtol=1e-12)
    assert np.all(np.diff(shares) > -1e-12)
    assert shares[0] < 0.9 < shares[-1]


def test_energy_is_not_drawn_where_the_flow_is_no_gradient_flow():
    head = af.Head(np.eye(3), np.eye(3), np.diag([1.0, 0.8, 0.5]))
    axes, _ = drawn(af.SphereAttention(head, af.Unnormalised(1.0)))
    assert not any(one.get_title().startswith("energy") for one in axes)


def test_doubly_stochastic_attention_is_received_evenly_and_softmax_is_not():
    axes, _ = drawn(af.SphereAttention(af.Head.identity(3), af.Sinkhorn(1.0, 51)))
    sinkhorn, softmax = (line.get_ydata() for line in titled(axes, "attention received").lines)
    np.testing.assert_allclose(sinkhorn, 1.0, atol=1e-6)
    assert np.ptp(softmax) > 0.05
    assert softmax.sum() == pytest.approx(6)


def test_speed_of_layer_normalisation():
    axes, _ = drawn(af.SphereAttention(af.Head.identity(3), normalisation=af.Sqrt()), times=LATE)
    line = titled(axes, "speed").lines[0]
    np.testing.assert_allclose(line.get_ydata(), (line.get_xdata() + 1) ** -0.5, rtol=1e-12)
    axes, _ = drawn(af.SphereAttention(af.Head.identity(3), normalisation=af.NGPT(0.3)), times=LATE)
    assert titled(axes, "speed").lines[0].get_ydata()[-1] == pytest.approx(0.3, rel=1e-2)  # |A| is 1 in one cluster


def test_heads_are_drawn_apart():
    heads = [af.Head(scale * np.eye(3), np.eye(3), np.eye(3)) for scale in (1.0, -1.0, 3.0)]
    axes, run = drawn(af.SphereAttention(heads))
    tiles = titled(axes, "heads 1 to 3").images[0].get_array()
    matrices = af.attention_matrix(af.flow_of(run), run.tokens[0].values)
    np.testing.assert_allclose(tiles[:6, :6], matrices[0])
    np.testing.assert_allclose(tiles[7:, :6], matrices[2])


def test_plain_softmax_has_no_further_panel():
    axes, _ = drawn(af.SphereAttention(af.Head.identity(3)))
    assert {one.get_title() for one in axes} <= {"", "attention, start", "attention, end"}


def test_the_first_token_of_causal_attention_is_marked():
    times = np.linspace(0, 60, 61)
    axes, run = drawn(af.SphereAttention(af.Head.identity(3), mask=af.masks.causal), times=times)
    (legend,) = axes[0].figure.legends
    assert "first token" in [text.get_text() for text in legend.get_texts()]
    thin = [line for line in axes[1].lines if line.get_linewidth() < 1]
    assert len(thin) == 5  # all tokens but the first
    heights = 1 - run.tokens.values[:, 1] @ run.tokens.values[0, 0]
    np.testing.assert_allclose(thin[0].get_ydata()[:5], heights[:5], atol=1e-12)


def test_speeds_are_velocities_over_tangent_parts_of_the_output():
    """V has no symmetry, so that its transpose gives other speeds."""
    rng = np.random.default_rng(0)
    flow = af.SphereAttention(af.Head(*rng.normal(size=(3, 3, 3))), normalisation=af.NGPT())
    tokens = af.initial.sphere(5, 3, rng=1)
    output = af.attention_matrix(flow, tokens).reshape(5, 5) @ tokens @ flow.heads[0].value.T
    tangent = output - (output * tokens).sum(axis=1, keepdims=True) * tokens
    expected = np.linalg.norm(af.velocity(flow, tokens), axis=1) / np.linalg.norm(tangent, axis=1)
    np.testing.assert_allclose(characteristics._speeds(flow, tokens, 0.0), expected, rtol=1e-10)
