r"""Control: weights that take given tokens to given places.

The weights of a flow are its controls: piecewise constant Q, K, V of attention and W, U, b of a perceptron, in

    x_i' = P_i( sum_h attention_h(x)_i + W sigma(U x_i + b) ),

one control for all tokens. Three questions are answered with numbers.

**Can it be done?** `obstructions` lists arguments that forbid it, each with the tokens concerned.

**How fast at best?** `speed_limit` is a lower bound on the time, from the norms of the weights.

**How?** `steer` moves one token after the other inside strips that contain no other token, on the sphere of R^d with
d >= 3 and in R^d with d >= 2, and arrives exactly; `steer_circle` does so inside caps on the circle; `match_prompts`
collapses each of several prompts to a point by attention and then moves the points; `interpolate_sequences` maps
sequences of tokens to sequences of outputs by layers of attention and ReLUs. `optimise` searches for weights of
attention alone that move all tokens at once, soonest or with the least energy.

**The strip mover.** For a unit vector gamma and a half-width delta let h(x) = (1 - |<gamma, x> - c| / delta)_+, three
ReLUs of <gamma, x>. The field h(x) P_x omega is zero outside of the strip |<gamma, x> - c| < delta. On the sphere let
gamma be orthogonal to x and y (this needs d >= 3), c = 0 and omega = (y - x)/|y - x|. Then omega lies in the plane of
x and y, so that the great circle through them is invariant and h = 1 on it; the angle a to omega obeys a' = -sin a,
hence tan(a/2) = e^{-t} tan(a(0)/2). From x to y, at the angle theta, a falls from (pi + theta)/2 to (pi - theta)/2,
which takes exactly T = 2 artanh(sin(theta/2)). In R^d let gamma be orthogonal to y - x and c = <gamma, x>: <gamma, x>
is constant along the motion, and x arrives after T = |y - x|. Every token outside of the strip has velocity zero. A
great circle through y contains -y: where a token is there, the cap (<gamma, x> - c)_+ P_x omega is used.

The statements on the number of pieces that these programs are compared with, and the idea of caps and strips, are those
of arXiv:2411.04551 and arXiv:2502.02270 as known from their abstracts and from talks; the constructions are
derived in the docstrings of this package and tested.
"""

from attnflow._common.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
