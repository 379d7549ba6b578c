"""The commented spec that `tokenfield new` prints."""

TEMPLATE = """\
# A run of tokenfield: what moves, along which flow, for how long, and what to keep.
# Run it:  tokenfield run spec.toml --out out/mine

[measure]
kind = "uniform_sphere"     # or gaussian, uniform_box, orthonormal, equiangular, file
n = 500                     # number of tokens
d = 3                       # dimension: tokens live in R^d, here on the sphere S²
seed = 0
# Other measures: equiangular_measure (rho, n), gaussian_measure (mean, cov), circle_wave, circle_von_mises, sphere_wave,
# sphere_von_mises (densities)
# kind = "file"             # tokens of your own: an .npy of shape (n, d), or an .npz with x and, if you like, w and s
# path = "tokens.npy"

# [flow]
# kappa = 4.0               # noise of strength sqrt(2/kappa)

[flow.attention]
kind = "softmax"            # or unnormalized, l2, sinkhorn, sigmoid, linear, relu, hardmax, additive, krause, mean_shift
beta = 9.0                  # inverse temperature; a list has one value per layer
# Q = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]    # matrices: rows, a number c for c times the identity, or "Q.npy"
# V = -1.0
# Several heads:   kind = "multi_head"   heads = [{kind = "softmax", beta = 1.0}, {kind = "l2", beta = 4.0}]
# A causal mask:   kind = "causal"       attention = {kind = "softmax", beta = 9.0}

[flow.normalization]
kind = "post_ln"            # the sphere; or free, rescaled, pre_ln, peri_ln, mix_ln (tau), ngpt (alpha), sqrt_scaling,
                            # trace_norm

# [flow.mlp]                # beside attention, or around it
# activation = "relu"
# around = true
# [flow.reweighting]        # Fisher-Rao: weights evolve
# rate = 1.0

[time]
end = 20.0
save = 200                  # how many states to keep, or a list of times
spacing = "linear"          # or log: equal ratios, for stories that slow down
# until = "collapsed"       # stop when there is one cluster
# coalesce = 1e-5           # tokens that have met become one; then end may be 1e30, with spacing "log" or "rescaled"
# summation = "dense"       # or circle, sphere, euclidean, span; left out, the cheapest that is accurate enough
# solver = "tsit5"          # or dopri5, dopri8, kvaerno5 (implicit)
# rtol = 1e-6
# max_steps = 100000
# seed = 0                  # of the noise; step = 0.01 fixes its steps

# [layers]                  # instead of [time]: the discrete Transformer
# depth = 24
# step = 1.0

[output]
picture = true
animation = false
"""
