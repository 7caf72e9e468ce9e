r"""The mean-field limit: the law of infinitely many tokens.

As n grows, the empirical measure of n tokens with full attention tends to the solution mu of the continuity equation

    d mu/dt + div(mu v[mu]) = kappa^{-1} Laplacian mu,

in which v[mu](x) is the velocity of a token at x among tokens of law mu, and the right-hand side is that of independent
noise sqrt(2/kappa) dW (`Noise`), zero without it. On the unit circle, with scores <x, B y>,

    softmax        v[mu](x) = P_x  int e^{beta <x, B y>} V y dmu(y) / int e^{beta <x, B y>} dmu(y),
    unnormalised   v[mu](x) = P_x  int e^{beta (<x, B y> - offset)} V y dmu(y).

On the circle `evolve` solves it in the Fourier coefficients c_k = int e^{-i k theta} dmu of the density
(2 pi)^{-1} sum_k c_k e^{i k theta}. They obey

    c_k' = -(k^2 / kappa) c_k - i k (rho v)^_k,

the product being formed on a grid of three points for each mode. Diffusion is integrated exactly, by the exponential
Runge-Kutta method of order four of Cox and Matthews; one step is compared with two half steps, and their difference
sets the length of the next. c_0 stays 1 exactly: mass is conserved. Where the density grows narrow the number
of modes is doubled, so that the last coefficients stay below 1e-10; a density that tends to point masses ends the run
at the largest number of modes, with a sentence.

On S^2 the unknowns are the coefficients of spherical harmonics, with the same steps; densities that depend on the polar
angle only have one order m and cost as little as those on the circle (`spherical_harmonics`, `sphere_equation`). In R^1
and R^2 the density is carried by nodes with fixed masses that move with the velocity (`characteristics`).

`branch` follows stationary states of the noisy equation in kappa, `gaussian` the laws that stay Gaussian in R^d, and
`distance` compares a density with tokens; `aggregate` moves tokens by the aggregation equation with the logarithmic
kernel, for comparison.
"""

from attnflow._common.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
