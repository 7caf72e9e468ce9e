"""`coalesce`: weighted clusters on the sphere that merge, integrated to times of order e^beta and beyond.

**Equations.** Tokens at one position have one velocity under a full mask, so that they stay together: a cluster with
the sum of their masses replaces them exactly (`cluster_state`). Clusters with positions x_i and masses m_i obey

    dx_i/dt = v_i = P_i (1 / D_i) sum_j m_j e^{s_ij} V x_j,    s_ij = beta <Q x_i, K x_j>,    P_i = I - x_i x_i^T,

with D_i = sum_j m_j e^{s_ij} for softmax and D_i = M e^{beta offset} for unnormalised attention of total mass M. At
large beta speeds are of order e^{-beta (1 - cos angle)}, below the smallest float. Each row is divided by its largest
exponential and all rows by one factor, v = e^log_scale times a mantissa, and time is carried as log t (`log_field`).

**Time change.** Let sigma be the largest |v_i - v_j| / |x_i - x_j| of slow clusters i (see *Partition*) and their
nearest neighbours j, or the largest |coordinate of v_i| / pi of slow clusters if that is larger, as where all gaps are
wide. With u as the variable,

    dx/du = v / sigma,    dt/du = 1 / sigma,

a gap shrinks by a factor in a few steps whether that takes a unit of time or e^200 of them. Within a step the speed
of a closing pair grows exponentially; sigma is replaced by sigma e^{g(u)}, g being a quadratic prediction of the
growth of the log speed of the fastest slow cluster, so that the motion is nearly uniform and the duration of a step is
a known integral (`time_change`). A step is at most 2 in units of u.

**Merging is an event.** Two clusters merge, at their centre of mass, when their distance has fallen to `merge`. For a
full mask this changes other velocities by the second order of `merge` only. Events within a step are ordered in time,
as small gaps shrink exponentially, and a third cluster merges with the centre of the first two (`merge_events`).

**Isolated pair.** A pair far faster than all others is integrated by quadrature over the angle between its two
clusters, others to first order (`pair_quadrature`). Its error estimates the second order that is left: D (e^{2 |B| D}
- 1), with B = beta Q^T K and D the largest displacement, either of the pair by the others or of the others during the
merge. It is accepted if the error is at most rtol max(smallest gap of the others, min(1e4 merge, 0.01)), and if the
merge takes less than 1 % of the time so far, so that recorded states stay dense in log t.

**Partition.** In a step *fast* tokens are about to merge, the others are *slow*. Slow tokens are *staged*, with the
stages of Dormand and Prince's DP5(4), or *trapezoidal* if they move by at most sqrt(tolerance / max(|B|, 1)) / 3. The
fastest slow token is always staged (`macro_step`).

**Multirate step.** For slow x and fast y, x' = f(x, y) and y' = g(x, y): y is subcycled along predicted paths of x
(`subcycling`, in C++); x makes one macro step with y on these paths; y is subcycled again along the computed paths of
x; and x is corrected by the integral of f(x, y_new) - f(x, y_old): one sweep of waveform relaxation (`multirate`,
`fast_prediction`, `relaxation`).

**Errors of a step** are compared, cluster by cluster, with rtol max(nearest gap, min(1e4 merge, 0.01)):

    embedded estimate     staged tokens: difference of the solutions of order 5 and 4
    trapezoidal estimate  trapezoidal tokens: difference of the trapezoidal and the Euler step, of second order. A token
                          beyond its tolerance was misclassified: in a step with fast tokens it is subcycled, if no more
                          than `subcycling.MAX_FAST` tokens are misclassified and the other errors are accepted;
                          otherwise it is staged until a merge after which all velocities are computed again
                          (`Control.promoted`)
    growth defect         (|growth of the log speed - g| / 0.1)^5, at most 10^5: above 1 the embedded estimate is not
                          trusted, since it can vanish by chance where speeds change by a factor. The fifth power
                          makes it shorten the next step as an error of order five does. It is zero where no staged
                          token moves by 100 tolerances, and where speeds decrease as predicted
    quadrature defect     force of fast on slow tokens: seven-node quadrature minus that of the stages. It shows a force
                          that changes between two stages; a slow token beyond its tolerance is subcycled, too
    coupling error        fast tokens: half the difference of their last velocities along the assumed and the computed
                          paths of slow tokens, which is what a further sweep would change. A pair that merges counts
                          as one cluster there: its mutual forces would hide those of the others
    merge time            the relaxed merge time minus the end of the step, over `relaxation.MAX_SHIFT`
    subcycle              fast tokens: the embedded estimate of each of their own small steps, with the same tolerance;
                          a small step beyond it is repeated with a shorter length

The norm of a position error is the largest coordinate: in Python `macro_step.error_norm`, in the subcycle
`error_over_tolerance` in C++, which a test compares with it. Gaps, closing speeds, displacements around an isolated
pair and the motion of clusters at rest are Euclidean lengths.

A step is accepted if the embedded, trapezoidal, growth, coupling and merge-time errors are within the tolerance. The
quadrature defect and the subcycle's error reject no step: they subcycle more tokens or shorten small steps within it.
The embedded estimate and the growth defect set the length of the next one; after a misclassification the same length is
tried again, after a coupling error a third of it or, the first time, up to 1.1 of it along the computed paths.

**Error of merge times.** A position error of rtol times a gap changes the exponent beta cos(angle), and so log t, by
up to beta rtol; so does the merging distance. Both add up over merges: the k-th merge has |error of log t| <= k beta
(rtol + merge), and from the floor of the tolerance |error of t| <= 1e4 rtol in units of the closing time of the pair.
All accelerations can be turned off (`request.Accelerations`); the run without them is their reference in tests and
benchmarks.

Files, from the bottom: cluster_state, log_field, time_change, subcycling, macro_step, step_problem (the records of a
step), step_errors, fast_prediction, relaxation, multirate; pair_quadrature; merge_events; merge_forecast (asymptotic
merge times); request (checked arguments), recorder (states, merges, dataset), outcomes (sentences), integrator (the
loop), coalesce (the public function).
"""
