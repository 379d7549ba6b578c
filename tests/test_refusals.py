"""Bad input is refused at the front door: what was expected, what came, what to do."""

import os

import jax
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import _checks, observe
from tokenfield.errors import InputError

X = np.eye(3)
MU = tkf.Tokens(X)
SA = tkf.sa(2.0)
NAN, INF = float("nan"), float("inf")

REFUSED = {
    # tokens
    "one point is not an array of points": (
        lambda: tkf.Tokens([1.0, 2.0]),
        r"`x` must have shape \(n, d\).*but has shape \(2,\)\. For one token, write x\[None, :\]",
    ),
    "a batch": (
        lambda: tkf.Tokens(np.zeros((2, 3, 4))),
        r"`x` must have shape.*shape \(2, 3, 4\)\. For a batch, use jax\.vmap",
    ),
    "no tokens": (lambda: tkf.Tokens(np.zeros((0, 3))), r"n, d ≥ 1.*but has shape \(0, 3\)"),
    "ragged rows": (lambda: tkf.Tokens([[1.0], [1.0, 2.0]]), r"`x` must be an array of points.*ragged or not numbers"),
    "NaN in a token": (
        lambda: tkf.Tokens([[1.0, NAN]]),
        r"`x` must be finite, but entry \(0, 1\) is nan\. Remove or repair",
    ),
    "infinite token": (
        lambda: tkf.Tokens([[INF, 0.0], [INF, 1.0]]),
        r"`x` must be finite, but entry \(0, 0\) is inf \(and 1 more\)",
    ),
    "complex tokens": (
        lambda: tkf.Tokens(np.eye(2) * 1j),
        r"`x` must be an array of points.*has dtype complex128\. Convert",
    ),
    "text": (lambda: tkf.Tokens([["a", "b"]]), r"`x` must be an array of points.*dtype <U1"),
    "truth values": (lambda: tkf.Tokens(np.eye(2, dtype=bool)), r"has dtype bool"),
    "negative weight": (lambda: tkf.Tokens(X, [0.5, 0.7, -0.2]), r"`w` must be positive, but weight 2 is -0\.2"),
    "zero weight": (lambda: tkf.Tokens(X, [0.5, 0.5, 0.0]), r"`w` must be positive.*Leave tokens without mass out"),
    "weights that do not sum to one": (
        lambda: tkf.Tokens(X, [1.0, 1.0, 1.0]),
        r"`w` must sum to 1, but sums to 3\. Divide it: w / w\.sum\(\)",
    ),
    "too few weights": (
        lambda: tkf.Tokens(X, [0.5, 0.5]),
        r"`w` must have one entry per token, shape \(n,\) = \(3,\), but has shape \(2,\)",
    ),
    "NaN weight": (lambda: tkf.Tokens(X, [0.5, NAN, 0.5]), r"`w` must be finite, but entry 1 is nan"),
    "positions beyond one": (
        lambda: tkf.Tokens(X, s=[0, 1, 2]),
        r"`s` must lie in \[0, 1\], but spans \[0, 2\]\. Divide positions",
    ),
    "no dimension": (
        lambda: tkf.Tokens.uniform_sphere(5, 0),
        r"`d` must be at least 1 \(the dimension\) and below 2³¹, but is 0",
    ),
    "half a token": (
        lambda: tkf.Tokens.uniform_sphere(5.5, 3),
        r"`n` must be a whole number, but is 5\.5",
    ),
    "negative seed": (lambda: tkf.Tokens.gaussian(5, 3, seed=-1), r"`seed` must be at least 0"),
    "asymmetric covariance": (
        lambda: tkf.Tokens.gaussian(5, 2, cov=[[1.0, 0.5], [0.0, 1.0]]),
        r"`cov` must be symmetric.*differ by 0\.5\. Use \(cov \+ cov\.T\) / 2",
    ),
    "indefinite covariance": (
        lambda: tkf.Tokens.gaussian(5, 2, cov=[[1.0, 2.0], [2.0, 1.0]]),
        r"`cov` must have no negative eigenvalue, but has -1",
    ),
    "covariance of another size": (
        lambda: tkf.Tokens.gaussian(5, 3, cov=np.eye(2)),
        r"`cov` must have shape \(d, d\) = \(3, 3\), but has shape \(2, 2\)",
    ),
    "mean of another size": (
        lambda: tkf.Tokens.gaussian(5, 3, mean=[0.0]),
        r"`mean` must have shape \(d,\) = \(3,\), but has shape \(1,\)",
    ),
    "an empty box": (lambda: tkf.Tokens.uniform_box(5, 2, low=1.0, high=1.0), r"`low` must be below `high`"),
    "impossible cosine": (
        lambda: tkf.Tokens.equiangular(5, -0.5),
        r"`rho` must lie in \[-1/\(n-1\), 1\] = \[-0\.25, 1\] for n = 5, but is -0\.5",
    ),
    "no room for a frame": (
        lambda: tkf.Tokens.orthonormal(5, 3),
        r"5 tokens at ρ = 0\.0 span 5 dimensions, but d = 3\. Take d ≥ 5",
    ),
    # parameters
    "beta of many values": (
        lambda: tkf.Softmax(beta=[[1.0, 2.0]]),
        r"`beta` must be one number \(or one per layer, along a first axis\), but has shape \(1, 2\)",
    ),
    "NaN beta": (lambda: tkf.sa(NAN), r"`beta` must be finite, but its value is nan"),
    "Q is a vector": (lambda: tkf.Softmax(Q=[1.0, 2.0]), r"`Q` must be a matrix.*but has shape \(2,\)"),
    "V does not fit": (
        lambda: tkf.velocity(tkf.sa(1.0, V=np.eye(2)), MU),
        r"`V` must have shape \(rows, d\) = \(rows, 3\), but has shape \(2, 2\)",
    ),
    "Q and K disagree": (
        lambda: tkf.velocity(tkf.sa(1.0, Q=np.ones((2, 3))), MU),
        r"Q and K must have the same number of rows, but Qx has 2 and Ky has 3",
    ),
    "A and Q": (lambda: tkf.Softmax(A=X, Q=X), r"Give either A \(which is KᵀQ\) or Q and K, not both"),
    "infinite K": (lambda: tkf.Softmax(K=[[INF]]), r"`K` must be finite, but entry \(0, 0\) is inf"),
    "query of another dimension": (
        lambda: tkf.Softmax()(MU, [1.0, 2.0]),
        r"`x` must have shape \(m, d\) or \(d,\) with d = 3.*but has shape \(2,\)",
    ),
    "attention on an array": (
        lambda: tkf.Softmax()(X),
        r"Attention acts on a measure.*but got ndarray.*Tokens\(points\)",
    ),
    "overflow": (lambda: tkf.Unnormalized(1e4)(MU), r"left the range of floating-point numbers.*scaled=True"),
    # flows
    "flow of a class": (
        lambda: tkf.Flow(tkf.Softmax),
        r"starts with an attention.*got the class Softmax\. Write Softmax\(\)",
    ),
    "flow of a number": (
        lambda: tkf.Flow(9.0),
        r"starts with an attention such as Softmax\(beta=9\.0\), but got a float",
    ),
    "normalization is a class": (
        lambda: tkf.Flow(tkf.Softmax(), tkf.PostLN),
        r"normalization such as PostLN\(\).*Write PostLN\(\)",
    ),
    "zero vector on the sphere": (
        lambda: tkf.evolve(SA, tkf.Tokens([[1.0, 0.0], [0.0, 0.0]]), 1.0),
        r"token 1 is the zero vector\. Remove it.*Free\(\)",
    ),
    # evolve
    "evolve an array": (
        lambda: tkf.evolve(SA, X, 1.0),
        r"moves a measure such as tokenfield\.Tokens, but got a ndarray.*Tokens\(x\)",
    ),
    "evolve an attention": (lambda: tkf.evolve(tkf.Softmax(), MU, 1.0), r"needs a Flow first.*but got Softmax"),
    "negative time": (
        lambda: tkf.evolve(SA, MU, -1.0),
        r"Time must run forward, from start 0 to a later end, but the end is -1",
    ),
    "time that stands still": (lambda: tkf.evolve(SA, MU, (2.0, 2.0)), r"Time must run forward"),
    "infinite time": (lambda: tkf.evolve(SA, MU, INF), r"`t` must be finite"),
    "three times": (lambda: tkf.evolve(SA, MU, (0.0, 1.0, 2.0)), r"`t` must be an end time or a pair"),
    "unknown solver": (
        lambda: tkf.evolve(SA, MU, 1.0, solver="tsit"),
        r"Unknown solver 'tsit'\. Did you mean 'tsit5'\?",
    ),
    "implicit and large": (
        lambda: tkf.evolve(SA, tkf.Tokens.uniform_sphere(3000, 3), 1.0, solver="kvaerno5"),
        r"dense Jacobian of n·d = 9000 unknowns",
    ),
    "no steps": (lambda: tkf.evolve(SA, MU, 1.0, max_steps=0), r"`max_steps` must be at least 1"),
    "rtol zero": (lambda: tkf.evolve(SA, MU, 1.0, rtol=0.0), r"`rtol` must be positive, but is 0"),
    "rtol below round-off": (
        lambda: tkf.evolve(SA, MU, 1.0, rtol=1e-18),
        r"`rtol` must be at least 1\.1e-14 in float64",
    ),
    "save nothing": (lambda: tkf.evolve(SA, MU, 1.0, save=0), r"`save` must be at least 1"),
    "save beyond the end": (
        lambda: tkf.evolve(SA, MU, 1.0, save=[0.5, 2.0]),
        r"`save` must lie in \[start, end\] = \[0, 1\], but spans \[0\.5, 2\]",
    ),
    "save out of order": (
        lambda: tkf.evolve(SA, MU, 1.0, save=[0.5, 0.5]),
        r"`save` must hold strictly increasing times",
    ),
    "until is a word": (
        lambda: tkf.evolve(SA, MU, 1.0, until="collapsed"),
        r"`until` must be a function of \(t, mu\).*is 'collapsed'",
    ),
    "unknown summation": (
        lambda: tkf.evolve(SA, MU, 1.0, summation="fast"),
        r"Unknown summation 'fast'\. .*Known: circle, dense",
    ),
    "unknown adjoint": (
        lambda: tkf.evolve(SA, MU, 1.0, adjoint="backwards"),
        r"Unknown adjoint 'backwards'.*Known: forward, reverse",
    ),
    # combinations and blocks
    "no heads": (lambda: tkf.MultiHead([]), r"MultiHead takes a list of at least one attention"),
    "heads of another width": (
        lambda: tkf.velocity(tkf.Flow(tkf.MultiHead([tkf.Softmax(V=np.ones((2, 3)))])), MU),
        r"Heads that are summed must return tokens.*give MultiHead an output matrix",
    ),
    "a narrow V alone": (
        lambda: tkf.velocity(tkf.Flow(tkf.Softmax(V=np.ones((2, 3)))), MU),
        r"`V` must have shape \(d, d\) = \(3, 3\) to move tokens, but the field has 2 entries",
    ),
    "causal of a number": (lambda: tkf.Causal(9.0), r"Causal wraps an attention.*but got float"),
    "negative window": (lambda: tkf.Causal(tkf.Softmax(), window=-1.0), r"`window` must not be negative"),
    "alibi of L2": (lambda: tkf.Causal(tkf.L2(), alibi=1.0)(MU), r"ALiBi and rotary scores go with softmax"),
    "query without position": (
        lambda: tkf.Causal(tkf.Softmax())(MU, X[0]),
        r"needs their positions: attention\(mu, x, s=",
    ),
    "position without mask": (lambda: tkf.Softmax()(MU, X[0], s=0.5), r"matter to Causal attention only"),
    "P that is not stochastic": (lambda: tkf.krause([[0.5, 0.6], [0.5, 0.5]]), r"`P` must be row-stochastic"),
    "P of another size": (lambda: tkf.velocity(tkf.krause([[1.0]]), MU), r"P links 1 tokens"),
    "alpha zero": (lambda: tkf.NGPT(0.0), r"`alpha` must be positive, but is 0"),
    "gain of another size": (
        lambda: tkf.velocity(tkf.Flow(tkf.Softmax(), tkf.PostLN(gain=[1.0, 2.0])), MU),
        r"`gain` must have shape \(d,\) = \(3,\)",
    ),
    "unknown activation": (lambda: tkf.MLP(activation="swish"), r"Unknown activation 'swish'.*Known: gelu, relu, tanh"),
    "MLP of another size": (
        lambda: tkf.velocity(tkf.Flow(tkf.Softmax(), mlp=tkf.MLP(W1=np.ones((4, 2)))), MU),
        r"`W1` must have shape",
    ),
    "added MLP, rescaled": (
        lambda: tkf.velocity(tkf.Flow(tkf.Softmax(), tkf.Rescaled(), mlp=tkf.MLP()), MU),
        r"does not commute with e\^\{tV\}",
    ),
    "Fisher-Rao without beta": (
        lambda: tkf.velocity(tkf.Flow(tkf.L2(), reweighting=tkf.FisherRao()), MU),
        r"takes its β from attention",
    ),
    "layers of nothing": (lambda: tkf.layers(SA, MU, 0), r"`depth` must be at least 1"),
    "layers of an attention": (lambda: tkf.layers(tkf.Softmax(), MU, 3), r"needs a Flow first"),
    "velocity of an attention": (lambda: tkf.velocity(tkf.Softmax(), MU), r"needs a Flow first.*but got a Softmax"),
    "a vector of stops": (
        lambda: tkf.evolve(SA, MU, 1.0, until=lambda t, mu: mu.x[0] > 0),
        r"`until` must return one true or false",
    ),
    "times too close for float32": (
        lambda: tkf.evolve(SA, tkf.Tokens(np.eye(3, dtype=np.float32)), (1e8, 1e8 + 1)),
        r"too close together for float32",
    ),
    # observables
    "observe an array": (
        lambda: observe.mean_overlap(X),
        r"Observables take a measure \(Tokens\) or a run \(Trajectory\), but got ndarray",
    ),
    "overlap of one": (lambda: observe.overlaps(tkf.Tokens([[1.0]])), r"Overlaps are between two tokens"),
    "energy out of range": (
        lambda: observe.energy(MU, 1e4),
        r"exceeds the largest number\. Use energy\(\.\.\., scaled=True\)",
    ),
    "angle of clusters": (lambda: observe.clusters(MU, angle=0.0), r"`angle` must be positive, but is 0"),
    "angle in degrees": (lambda: observe.clusters(MU, angle=10.0), r"`angle` must be below π, in radians, but is 10"),
    "attention without a flow": (lambda: observe.attention_matrix(MU), r"needs a flow or an attention"),
    # kinds
    "no number for β": (lambda: tkf.Softmax(beta=None), r"`beta` must be one real number, but is None"),
    "a key for tokens": (lambda: tkf.Tokens(jax.random.key(0)), r"`x` must be an array of points.*has dtype key<fry>"),
    "an integer beyond floats": (lambda: tkf.sa(10**400), r"`beta` must be one real number, but 1000"),
    "a flag that is no flag": (lambda: tkf.usa(scaled=NAN), r"`scaled` must be True or False, but is nan"),
    "an array for a flag": (lambda: observe.energy(MU, 1.0, scaled=X), r"`scaled` must be True or False, but is array"),
    "a function of t that returns text": (
        lambda: tkf.sa(lambda t: "hot"),
        r"a function of the time t .* raised TypeError",
    ),
    "a function of t that returns a vector": (
        lambda: tkf.sa(lambda t: t * X[0]),
        r"`beta` must be one number at every depth, but has shape \(3,\) there",
    ),
    "tokens that are an array": (lambda: tkf.SphereDensity.from_tokens(X), r"`mu` must be a Tokens.*but is array"),
    "speed of a number": (lambda: tkf.theory.initial_speed(3, 4), r"`flow` must be a Flow, such as tkf\.sa.*but is 3"),
    "speed of a class": (lambda: tkf.theory.initial_speed(tkf.Flow, 4), r"but is the class Flow\. Write Flow\(\)"),
    "exponent of an attention": (lambda: tkf.theory.collapse_exponent(tkf.Softmax(), 1.0), r"`flow` must be a Flow"),
    "exponent before the start": (lambda: tkf.theory.collapse_exponent(SA, [1.0, -1.0]), r"`t` must be positive"),
    "rank of a Gaussian": (
        lambda: observe.effective_rank(tkf.Gaussian([0.0], [[1.0]])),
        r"This observable is not one of a Gaussian",
    ),
    "energy of a density out of range": (
        lambda: observe.energy(tkf.CircleDensity.uniform(8), 1e4),
        r"exceeds the largest number\. Use energy\(\.\.\., scaled=True\)",
    ),
    "half a layer": (lambda: tkf.PerLayer.gaussian(1.5, 2, 2), r"`depth` must be a whole number, but is 1\.5"),
    "heads that are a number": (lambda: tkf.MultiHead(3), r"MultiHead takes a list of at least one attention"),
    "a ball without a dimension": (
        lambda: tkf.Tokens.quadrature(len, ball=3.0),
        r"`ball` must be a pair \(radius, d\)",
    ),
    "watching a number": (lambda: tkf.evolve(SA, MU, 1.0, watch=3), r"`watch` must be a function of \(t, mu\)"),
    "until of one argument": (
        lambda: tkf.evolve(SA, MU, 1.0, until=lambda t: t > 1),
        r"`until` must be a function of \(t, mu\), but its arguments are \(t\)",
    ),
    "β beyond float32": (
        lambda: tkf.velocity(tkf.sa(1e300), tkf.Tokens(X.astype(np.float32))),
        r"1e\+300 is beyond float32, the precision of the tokens",
    ),
    # files
    "no such run": (lambda: tkf.Trajectory.load("nowhere.zarr"), r"There is no saved run at nowhere\.zarr"),
    "a file for a folder": (lambda: tkf.Trajectory.load(__file__), r"is a file, but a saved run is a zarr folder"),
    "movie of a strange kind": (
        lambda: tkf.evolve(SA, MU, 1.0).animate("movie.avi"),
        r"must end in \.mp4 or \.gif, but is 'movie\.avi'",
    ),
    "picture of a strange kind": (
        lambda: tkf.evolve(SA, MU, 1.0).plot("picture.xyz"),
        r"could not be written to picture\.xyz.*\.png",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_a_sentence(what):
    act, sentence = REFUSED[what]
    with pytest.raises(InputError, match=sentence):
        act()


GIGABYTE = float(2**30)

TOO_LARGE = {
    "tokens": lambda: tkf.Tokens.uniform_sphere(n=10**9, d=3),
    "tokens in a space of many dimensions": lambda: tkf.Tokens.gaussian(n=2, d=10**9),
    "a frame": lambda: tkf.Tokens.orthonormal(10**6),
    "a sample": lambda: tkf.CircleDensity.uniform().sample(10**9),
    "inner products": lambda: tkf.Tokens(np.ones((20_000, 1))).gram,
    "overlaps": lambda: observe.overlaps(tkf.Tokens(np.ones((20_000, 1)))),
    "an attention matrix": lambda: observe.attention_matrix(tkf.Tokens(np.ones((20_000, 1))), SA),
    "an MLP": lambda: tkf.MLP.random(3, 10**9),
    "matrices by layer": lambda: tkf.PerLayer.gaussian(10**9, 10, 10),
    "eigenvalues": lambda: tkf.harmonics.kernel_eigenvalues(1.0, 3, 10**9),
    "growth rates": lambda: tkf.theory.growth_rates(SA, 3, 10**9),
    "modes on the circle": lambda: tkf.CircleDensity.uniform(10**9),
    "modes on the sphere": lambda: tkf.SphereDensity.uniform(10**4),
    "modes of a zonal density": lambda: tkf.SphereDensity.uniform(10**6, d=8, zonal=True),
    "saved states": lambda: tkf.evolve(SA, tkf.Tokens(np.ones((100, 3))), 1.0, save=10**7),
    "members": lambda: tkf.evolve([SA] * 1000, [MU] * 1000, 1.0, save=10**4),
    "saved times": lambda: tkf.log_times(1.0, 10**9),
    "layers": lambda: tkf.layers(SA, MU, 10**9),
    "bins": lambda: observe.overlap_histogram(MU, 10**9),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_what_does_not_fit_into_memory_is_refused_before_it_is_made(what, monkeypatch):
    monkeypatch.setattr(_checks, "available_memory", lambda: GIGABYTE)
    with pytest.raises(InputError, match=r"would take .* bytes \(.* GiB\) of memory, but 1\.07e\+09 bytes"):
        TOO_LARGE[what]()


def test_the_memory_of_this_machine_is_known():
    """As much as there is, by another count, and no more."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 2**20 < _checks.available_memory() <= physical
    with pytest.raises(InputError, match="Everything would take"):
        _checks.room(2.0 * physical, "Everything")


def test_too_many_nodes_are_refused_before_they_are_computed():
    flat = lambda x: np.ones(len(x))
    with pytest.raises(InputError, match="at most 10000 nodes in each direction"):
        tkf.Tokens.quadrature(flat, interval=(0.0, 1.0), n=10**9)
    with pytest.raises(InputError, match=r"about 100\^99 nodes, too many"):
        tkf.Tokens.quadrature(flat, sphere=100, n=100)
    with pytest.raises(InputError, match=r"about 100\^100 nodes, too many"):
        tkf.Tokens.quadrature(flat, ball=(1.0, 100), n=100)


def test_no_coupling_is_no_transition():
    """V = 0: the uniform state is the only one, at every κ."""
    diagram = tkf.stationary(tkf.usa(1.0, V=0.0))
    assert diagram.transition == "none" and np.isinf(diagram.kappa_c) and len(diagram.branches) == 1


def test_one_value_for_all_layers():
    """A list of one β is a layer whose value never changes."""
    one, plain = (tkf.evolve(flow, MU, 0.5, save=2).final.x for flow in (tkf.sa([2.0]), tkf.sa(2.0)))
    assert np.allclose(one, plain, atol=1e-6)


def test_there_are_many_kinds():
    assert len(REFUSED) >= 30


def test_an_unknown_name_is_told():
    with pytest.raises(AttributeError, match="tokenfield has no name 'Sofmax'"):
        tkf.Sofmax  # noqa: B018


def test_what_is_traced_cannot_be_a_setting():
    import jax

    with pytest.raises(InputError, match="`rtol` must be a plain number"):
        jax.grad(lambda r: tkf.evolve(SA, MU, 1.0, rtol=r).final.x[0, 0])(1e-6)
