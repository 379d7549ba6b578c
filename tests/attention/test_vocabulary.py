"""All attentions × all normalizations × {plain, causal, two heads, MLP, weighted}: each agrees with plain numpy, or is
refused with the reason."""

from itertools import pairwise

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tests import naive_models
from tokenfield import attention, normalization
from tokenfield.errors import InputError

N, D = 7, 3
ATTENTIONS = ["softmax", "unnormalized", "l2", "sinkhorn", "sigmoid", "linear", "relu", "hardmax", "additive"]
NORMALIZATIONS = list(normalization.KINDS)
VARIANTS = ["plain", "causal", "two heads", "mlp", "weighted"]
SPHERES = ("post_ln", "ngpt", "sqrt_scaling")


def parameters(kind, seed):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: 0.6 * rng.normal(size=shape)
    p = {"Q": draw(2, D), "K": draw(2, D), "V": 0.5 * np.eye(D) + 0.3 * draw(D, D)}
    if kind == "additive":
        return {"W": draw(4, D), "U": draw(4, D), "v": draw(4), "beta": 1.3, "V": p["V"]}
    if kind != "hardmax":
        p["beta"] = 1.3
    if kind == "sigmoid":
        p["b"] = -0.7
    return p


def case(kind, norm, variant):
    """The library's flow and start, and the same for numpy."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(N, D))
    if norm in SPHERES:
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = rng.uniform(0.5, 2, N) if variant == "weighted" else np.ones(N)
    s = rng.permutation(N) / N
    w /= w.sum()
    if norm == "trace_norm":
        x /= np.sqrt(np.sum(w @ (x - w @ x) ** 2))
    heads = [(kind, parameters(kind, 1))] + ([("softmax", parameters("softmax", 2))] if variant == "two heads" else [])
    block = None
    if variant == "mlp":
        block = {
            "W1": rng.normal(size=(5, D)),
            "b1": rng.normal(size=5),
            "W2": rng.normal(size=(D, 5)),
            "b2": rng.normal(size=D),
        }
    parts = [attention.KINDS[name](**p) for name, p in heads]
    att = tkf.MultiHead(parts) if variant == "two heads" else parts[0]
    seen = None
    if variant == "causal":
        att, seen = tkf.Causal(att), s[None, :] <= s[:, None]
    extra = {"mix_ln": {"tau": 0.3}, "ngpt": {"alpha": 0.6}}.get(norm, {})
    mlp = None if block is None else tkf.MLP(**block, around=norm == "rescaled")
    flow = tkf.Flow(att, normalization.KINDS[norm](**extra), mlp=mlp)
    mu = tkf.Tokens(x, w, s if variant == "causal" else None)
    return flow, mu, lambda t, y: naive_models.velocity(norm, y, w, t, heads, seen, block)


def refusal(kind, norm, variant):
    """Why a combination makes no sense, if it does not."""
    if variant == "causal" and kind == "sinkhorn":
        return "only doubly stochastic triangular matrix is I"
    if variant == "causal" and kind == "hardmax":
        return "the first token, which does not see itself, sees nobody"
    if norm == "rescaled" and variant == "two heads":
        return "MultiHead attention cannot be read in rescaled coordinates"
    return None


def step_by_step(flow, mu, t):
    """The velocity without a program of its own: operations are shared by all combinations."""
    with jax.disable_jit():
        return tkf.velocity(flow, mu, t=t)


@pytest.mark.parametrize("norm", NORMALIZATIONS)
@pytest.mark.parametrize("kind", ATTENTIONS)
def test_every_combination(kind, norm):
    for variant in VARIANTS:
        flow, mu, rhs = case(kind, norm, variant)
        velocity = tkf.velocity if kind == "sinkhorn" else step_by_step  # its iteration is a loop
        reason = refusal(kind, norm, variant)
        if reason:
            with pytest.raises(InputError, match=reason):
                tkf.evolve(flow, mu, 1.0)
            continue
        for t in (0.0, 0.7):
            v, exact = velocity(flow, mu, t=t), rhs(t, np.asarray(mu.x))
            assert np.max(abs(v - exact)) < 1e-10 * max(1.0, np.max(abs(exact))), (variant, t)


def runs_agree(kind, norm, variant, t=0.6):
    """A run against SciPy over the numpy right-hand side, in two pieces where Mix-LN switches."""
    flow, mu, rhs = case(kind, norm, variant)
    run = tkf.evolve(flow, mu, t, save=2, rtol=1e-12, atol=1e-13)
    assert run.status is tkf.Status.COMPLETED
    first, times = np.asarray(mu.x), [0.0, 0.3, t] if norm == "mix_ln" else [0.0, t]
    if norm == "mix_ln":  # whose first layers are Post-LN
        first = first / np.linalg.norm(first, axis=1, keepdims=True)
    y = first.ravel()
    for a, b in pairwise(times):
        late = np.nextafter(a, 1) if a else 0.0  # after a switch, not on it
        solved = solve_ivp(
            lambda time, y, late=late: rhs(max(time, late), y.reshape(N, D)).ravel(),
            (a, b),
            y,
            method="DOP853",
            rtol=1e-13,
            atol=1e-14,
        )
        y = solved.y[:, -1]
    y = y.reshape(N, D)
    if norm in SPHERES:
        y = y / np.linalg.norm(y, axis=1, keepdims=True)
    assert np.max(abs(run.final.x - y)) < 1e-10 * max(1.0, np.max(abs(y))), variant


@pytest.mark.parametrize(
    ("kind", "norm", "variant"),
    [("softmax", norm, "weighted") for norm in NORMALIZATIONS]
    + [("l2", "pre_ln", "causal"), ("sinkhorn", "peri_ln", "two heads"), ("sigmoid", "free", "mlp")],
)
def test_runs(kind, norm, variant):
    runs_agree(kind, norm, variant)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hardmax", "relu"])
def test_runs_with_kinks(kind):
    runs_agree(kind, "post_ln", "plain")


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMALIZATIONS)
@pytest.mark.parametrize("kind", [kind for kind in ATTENTIONS if kind not in ("hardmax", "relu")])  # fields with kinks
def test_every_run(kind, norm):
    for variant in VARIANTS:
        if refusal(kind, norm, variant) is None:
            runs_agree(kind, norm, variant, t=0.4)
