"""Sums over tokens in less than n^2 operations, each with a bound on its error.

A method approximates s_i = sum_j w_j e^{f <q_i, k_j>} p_ij (v_j, 1), where p_ij is the factor of the mask, for all rows
i at once. Its promise is the same for every rule: the error of the attention output of token i is at most
`tolerance` max_j |v_j| W_i, where W_i is the total weight of the row, one for softmax and Sinkhorn.

    fourier, harmonics, gauss   expansions of e^{f <q, k>} whose error is absolute: eps times the gross weight of a row,
                                which is known beforehand. A row whose bound exceeds the tolerance is summed directly
    triangles                   masks that depend on positions, by dyadic halves
    heavy_tokens                groups of close tokens as single tokens of their mass
    neighbours                  only the tokens whose weights count, found in a k-d tree

`kernel_sums` makes attention outputs of an expansion, `direct_sums` sums rows one by one, `summation` has the public
classes, `applicability` the flows that they serve, `choice` the automatic choice between them. `observed` has
observables of many tokens. Only this package imports finufft and ducc0.
"""
