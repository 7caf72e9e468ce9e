"""`stream` and `append`: causal attention one token after the other, to times such as 1e60.

**The equation.** Under a causal mask the velocity of token k depends on tokens 1, ..., k only:

    x_k'(t) = f_k(x_k(t); x_1(t), ..., x_{k-1}(t)).

Once the paths of the earlier tokens are known as functions of time this is an equation in d unknowns. Tokens are
therefore solved in their order, each with steps of its own. A path does not depend on later tokens, so that `append`
solves only for the tokens it adds. f_k is in `token_field`; on the sphere the unknown is the gnomonic projection y of
x_k onto the tangent plane at the start of the step.

**One piece of a path.** A step is a piece of time with a parameter s in [0, 1] and a time change within it,

    t(s) = t_0 + h (1 - e^{-c s}) / c,    dt/ds = h e^{-c s},    c = a h,

where a >= 0 is the rate d log|x_k'| / dt at which the speed grew at the end of the piece before (c = 0 is uniform
time). The speed of two tokens that merge at t = T is like 1 / (T - t), and is nearly constant in s. On the piece the
path is a polynomial of degree 12 in s that satisfies

    dy/ds(s_i) = h e^{-c s_i} f_k(y(s_i), t(s_i))    at the 12 Radau nodes s_1 < ... < s_12 = 1   (`radau`, `newton`).

This is the Radau IIA method with m = 12 stages. It is L-stable, of order 2m - 1 = 23 at the end of a piece, and within
it, where later tokens evaluate the path, its error is O(h^{m+1}). For d unknowns an implicit step costs little, and a
token at rest is passed with steps as long as its rest. L-stable steps that are too long also damp perturbations that
grow; hence perturbations may grow by e^8 in a step (`token_solver`), which 12 stages follow to a relative 1e-7.

**Error control.** Pieces are stored as Legendre series in s. The last two coefficients estimate what the polynomial
does not resolve; a step is accepted if the estimate is at most `tolerance`, absolute on the sphere and relative to
max(1, |x_k|) in R^d. The error of a path is the sum of these local errors, each magnified as the flow magnifies
perturbations.

**Exact times.** Near t = 1e30 two clusters still merge within a unit of time, which a float does not resolve. Pieces
therefore start at exact fractions, stored as sums of floats (`exact_time`); differences of close times are exact.

**No merging.** Tokens in one place are not replaced by one heavy token, as in `coalesce`. Under a full mask two
coinciding tokens have the same velocity. Under a causal mask they do not: the earlier one averages over fewer tokens,
and moves faster under the same attraction. While a cluster approaches another its later tokens fall behind by a
distance of order beta^{-1/2}, however close they were before.

**Rounding.** On the sphere the contribution of a token to itself along itself is left out before it is rounded, so that
a token among distant ones moves at its rate e^{-2 beta} exactly. If V is not a multiple of I the rest of this
contribution is rounded, and velocities below 1e-16 are not resolved.
"""
