"""The taxonomy of limits: tokens that were put there, runs of every row of the table, and those that have no limit yet."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError

rng = np.random.default_rng(5)
V2 = np.array([[0.647, 0.819], [0.612, 0.633]])


def rescaled(d, V, t, seed=0):
    start = tkf.Tokens.uniform_box(n=40, d=d, low=-5.0, high=5.0, seed=seed)
    return tkf.evolve(tkf.Flow(tkf.Softmax(1.0, V=V), tkf.Rescaled()), start, t=t, save=21)


def test_with_the_identity_tokens_tend_to_a_polytope():
    run = rescaled(2, None, 15.0)
    found = observe.limit_geometry(run)
    assert found.name == "polytope" and found.residuals["polytope"] < 1e-5 < found.residuals["line"]
    nearest = np.linalg.norm(np.asarray(run.final.x)[:, None] - found.vertices, axis=-1).min(axis=1)
    inside = np.linalg.norm(np.asarray(run.final.x)[:, None] - found.inside, axis=-1).min(axis=1, initial=np.inf)
    assert np.minimum(nearest, inside).max() < 1e-4
    assert 3 <= len(found.vertices) <= 10


def test_a_simple_largest_eigenvalue_makes_parallel_hyperplanes():
    """The normal is the left eigenvector of V, at most three offsets, of which those beside 0 have both signs."""
    values, left = np.linalg.eig(V2.T)
    φ = left[:, np.argmax(values)]
    for seed in (0, 1):
        run = rescaled(2, V2, 10.0, seed)
        found = observe.limit_geometry(run)
        assert found.name == "hyperplanes" and found.codimension == 1 and 2 <= len(found.offsets) <= 3
        assert abs(found.normal @ φ) == pytest.approx(np.linalg.norm(φ), abs=1e-5)
        assert np.abs((run.final.x @ found.normal)[:, None] - found.offsets).min(axis=1).max() < 1e-3
        assert found.offsets[0] < 0 < found.offsets[-1]


def test_a_paranormal_value_makes_a_polytope_times_a_subspace():
    found = observe.limit_geometry(rescaled(3, np.diag([1.0, 1.0, -0.5]), 12.0))
    assert found.name == "product" and found.codimension == 2 and len(found.vertices) >= 3
    directions = found.candidates["product of codimension 2"].directions
    assert np.allclose(directions @ [0.0, 0.0, 1.0], 0.0, atol=1e-3), (
        "the polytope lies in the plane of the first two axes"
    )


def test_tokens_that_repel_meet_at_the_origin():
    start = tkf.Tokens.uniform_box(n=40, d=2, low=-5.0, high=5.0, seed=0)
    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0, V=-1.0), tkf.Free()), start, t=200.0, save=21)
    assert observe.limit_geometry(run).name == "origin"
    met = tkf.evolve(tkf.sa(1.0), tkf.Tokens.uniform_sphere(10, 3, seed=0), t=40.0, save=5)
    assert observe.limit_geometry(met).name == "point"


def test_what_has_not_arrived_is_not_named():
    assert observe.limit_geometry(rescaled(2, None, 0.5)).name == "none"
    cloud = observe.limit_geometry(tkf.Tokens(rng.normal(size=(60, 3))))
    assert cloud.name == "none" and min(cloud.residuals.values()) > 0.01


def turned(d):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def test_geometries_that_tokens_were_put_on():
    """Each is found in any position, with its numbers."""
    along = rng.uniform(-3, 3, size=(60, 4))
    offsets = np.array([-1.0, 0.5, 2.0])[rng.integers(3, size=60)]
    R = turned(4)
    planes = observe.limit_geometry(tkf.Tokens(np.column_stack([offsets, along[:, :3]]) @ R))
    assert planes.name == "hyperplanes" and abs(planes.normal @ R[0]) == pytest.approx(1.0, abs=1e-9)
    assert np.allclose(
        planes.offsets * np.sign(planes.normal @ R[0]), [-1.0, 0.5, 2.0][:: int(np.sign(planes.normal @ R[0]))]
    )
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.5, 0.5]])[rng.integers(4, size=60)]
    product = observe.limit_geometry(tkf.Tokens(np.column_stack([corners, along[:, :1]]) @ turned(3)))
    assert product.name == "product" and product.codimension == 2
    assert len(product.vertices) == 3 and len(product.inside) == 1
    line = observe.limit_geometry(tkf.Tokens(along[:, :1] * turned(3)[:1] + 1.0))
    plane = observe.limit_geometry(tkf.Tokens(along[:, :2] @ turned(4)[:2] + 1.0))
    assert (line.name, plane.name) == ("line", "plane")
    assert observe.limit_geometry(tkf.Tokens(np.ones((5, 3)))).name == "point"


def test_limits_of_gaussians():
    """Σ = (Σ₀⁻¹ - tM)⁻¹: directions in which M is negative vanish like 1/t."""
    start = tkf.Gaussian(np.zeros(3), np.diag([1.0, 2.0, 3.0]))
    for Q, name in ((np.eye(3), "point"), (np.eye(3)[:2], "line"), (np.eye(3)[:1], "plane")):
        flow = tkf.Flow(tkf.Softmax(Q=Q, K=-Q), tkf.Free())
        found = observe.limit_geometry(tkf.evolve(flow, start, t=1e6, save=5))
        assert found.name == ("origin" if name == "point" else name), found
    still = tkf.evolve(tkf.Flow(tkf.Softmax(V=0.0), tkf.Free()), start, t=1.0, save=3)
    assert observe.limit_geometry(still).name == "none"


def test_ensembles_and_refusals():
    starts = [tkf.Tokens.uniform_sphere(10, 3, seed=k) for k in (0, 1)]
    runs = tkf.evolve(tkf.sa(1.0), starts, t=40.0, save=5)
    assert [one.name for one in observe.limit_geometry(runs)] == ["point", "point"]
    with pytest.raises(InputError, match="not one of a Equiangular"):
        observe.limit_geometry(tkf.Equiangular(0.5, 3))
