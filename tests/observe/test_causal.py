"""Rényi centres against the definition, and where tokens gather under causal attention."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError


def by_definition(θ, δ, strong):
    """Token by token, with angles by arccos."""
    angle = np.arccos(np.clip(θ @ θ.T, -1, 1))
    centres = []
    for j in range(len(θ)):
        earlier = range(j) if strong else centres
        if all(angle[j, i] > δ for i in earlier):
            centres.append(j)
    return centres


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("strong", [False, True])
def test_centres_by_definition(d, strong):
    mu = tkf.Tokens.uniform_sphere(80, d, seed=d)
    found = observe.renyi_centres(mu, 0.6, strong=strong)
    assert found.indices.tolist() == by_definition(np.asarray(mu.x), 0.6, strong)
    assert strong or float(found.share) == 1.0, "who is no centre is within δ of one"


def test_positions_are_the_order_and_β_gives_δ():
    mu = tkf.Tokens.uniform_sphere(30, 3, seed=1)
    turned = tkf.Tokens(mu.x, s=np.linspace(1, 0, 30))
    expected = [29 - j for j in by_definition(np.asarray(mu.x)[::-1], 0.5, False)]
    assert observe.renyi_centres(turned, beta=64.0).indices.tolist() == expected
    assert observe.renyi_centres(turned, beta=64.0).delta == 0.5


def test_tokens_gather_at_centres_under_causal_attention():
    """[karagodin2024, Figure 2], smaller. Strong centres hardly move; most tokens come to be near a centre, at a tenth of δ."""
    flow = tkf.Flow(tkf.Causal(tkf.Softmax(64.0)), tkf.PostLN())
    run = tkf.evolve(flow, tkf.Tokens.uniform_sphere(60, 2, seed=0), t=40.0, save=3)
    weak, strong = observe.renyi_centres(run, beta=64.0), observe.renyi_centres(run, beta=64.0, strong=True)
    assert set(strong.indices) <= set(weak.indices) and weak.share.shape == (3,)
    moved = np.sum(np.asarray(run.x[0]) * np.asarray(run.x[-1]), axis=1)
    assert np.all(moved[strong.indices] > np.cos(0.05)) and np.any(moved < np.cos(0.3))
    assert weak.share[-1] > 0.9
    before, _, after = (np.asarray(x) @ np.asarray(x)[weak.indices].T for x in run.x)
    near = lambda overlaps: np.mean(overlaps.max(axis=1) > np.cos(0.05))
    assert near(after) > 2 * near(before)


def test_one_of_delta_and_beta_is_given():
    mu = tkf.Tokens(np.eye(2))
    for arguments in ({}, {"delta": 0.5, "beta": 1.0}):
        with pytest.raises(InputError, match=r"either an angle, delta=0\.5, or"):
            observe.renyi_centres(mu, **arguments)
    with pytest.raises(InputError, match="below π apart, but δ = 4"):
        observe.renyi_centres(mu, beta=1.0)
