"""What statements about tokens in R^d ask of the matrices of a flow, and of the coordinates in which rescaled tokens converge."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tokenfield as tkf
from tokenfield.theory.statements.given import flow_of


def softmax_of(run: tkf.Trajectory, scheme: type) -> bool:
    """Whether the flow is softmax attention of constant parameters under this normalization, and nothing else."""
    flow = flow_of(run)
    plain = (
        flow.mlp is None and flow.reweighting is None and flow.kappa is None and isinstance(flow.normalization, scheme)
    )
    return plain and isinstance(flow.attention, tkf.Softmax) and all(map(_constant, _parts(flow)))


def _parts(flow: tkf.Flow) -> list[object]:
    return [getattr(flow.attention, name) for name in ("beta", "Q", "K", "V", "A")]


def _constant(part: object) -> bool:
    return part is None or hasattr(part, "ndim")


def written(part: object, d: int) -> np.ndarray:
    """A matrix parameter written out: None is the identity, a number a multiple of it."""
    value = np.asarray(1.0 if part is None else part, np.float64)
    return value if value.ndim == 2 else value * np.eye(d)


def values_of(run: tkf.Trajectory) -> np.ndarray:
    """V as a matrix."""
    return written(getattr(flow_of(run).attention, "V", None), run.d)


def scores_of(run: tkf.Trajectory) -> np.ndarray:
    """βA = βKᵀQ as a matrix."""
    flow, d = flow_of(run), run.d
    _, Q, K, _, A = (None if part is None else np.asarray(part) for part in _parts(flow))
    product = written(A, d) if A is not None else written(K, d).T @ written(Q, d)
    return float(np.asarray(flow.attention.beta)) * product  # type: ignore[attr-defined]


def positive(A: np.ndarray) -> bool:
    """Whether A is symmetric and positive definite."""
    return bool(np.allclose(A, A.T, rtol=1e-12, atol=0.0) and np.linalg.eigvalsh(A).min() > 0)


def spectrum(V: np.ndarray) -> np.ndarray:
    """Eigenvalues, those of largest real part first."""
    values = np.linalg.eigvals(V)
    return values[np.argsort(-values.real)]


def decided(V: np.ndarray, least: float) -> np.ndarray:
    """An orthonormal basis, as rows, of the space that left eigenvectors of V with a real part above `least` span: coordinates in
    which tokens come to rest where they gather."""
    from scipy.linalg import schur

    found: Any = schur(V.T.astype(complex), output="complex", sort=lambda value: value.real > least)
    _, Z, k = found
    basis = np.linalg.svd(np.hstack([Z[:, :k].real, Z[:, :k].imag]))[0]  # the space is real, its basis need not be
    return basis[:, :k].T


def coordinates(run: tkf.Trajectory, rows: np.ndarray) -> np.ndarray:
    """The tokens at every saved time in these coordinates, in units of how far apart they began."""
    u = np.asarray(run.states.x, np.float64) @ rows.T
    return u / np.linalg.norm(u[0] - u[0].mean(axis=0), axis=1).max()


class Left(NamedTuple):
    """How far tokens may be from their limits at the end of a run, why, and why that may be unknown."""

    far: float
    because: str
    unsure: str | None


def to_go(run: tkf.Trajectory, u: np.ndarray, rate: float) -> Left:
    """What is left at the end: from when each token attends to one leader it approaches that like e^{-rate t}, so that a share of
    how far tokens went in the last quarter is left; and the solver's error."""
    times, how = np.asarray(run.times), run.provenance
    before = int(np.searchsorted(times, times[0] + 0.75 * (times[-1] - times[0]), side="right")) - 1
    q = float(np.exp(-rate * (times[-1] - times[before])))
    went = float(np.linalg.norm(u[-1] - u[before], axis=1).max())
    size = float(np.abs(run.states.x[-1]).max() / np.abs(run.states.x[0]).max())
    solver = int(run.accepted) * how.rtol * max(size, 1.0)
    because = (
        f"Tokens that attend to one leader approach it like e^(-{rate:.3g}t): of how far they went in the last quarter of the "
        f"time, {went:.1g}, a share of {q / (1 - q):.1g} is left; and {int(run.accepted)} steps err by rtol of the largest token "
        f"each, {solver:.1g}."
    )
    short = f"More is left to go than was seen: evolve for longer, to t = {8 / rate:.3g} at least." if q > 0.5 else None
    return Left(went * q / (1 - q) + solver, because, short)


def off_the_boundary(u: np.ndarray) -> float:
    """How far from 0 and from the boundary of the convex hull of all tokens a token is at most."""
    if u.shape[1] == 1:
        depth = np.minimum(u[:, 0] - u.min(), u.max() - u[:, 0])
    else:
        equations = _hull(u).equations
        depth = -(u @ equations[:, :-1].T + equations[:, -1]).max(axis=1)
    return float(np.minimum(depth, np.linalg.norm(u, axis=1)).max())


def off_the_vertices(u: np.ndarray) -> float:
    """How far from the nearest vertex of the convex hull of all tokens a token is at most."""
    corners = u[[u[:, 0].argmin(), u[:, 0].argmax()]] if u.shape[1] == 1 else u[_hull(u).vertices]
    return float(max(np.linalg.norm(corners - point, axis=1).min() for point in u))


def _hull(u: np.ndarray):
    from scipy.spatial import ConvexHull

    return ConvexHull(u, qhull_options="QJ")  # tokens that have met are moved apart, by 1e-11 of their size


def off_places(u: np.ndarray, count: int) -> float:
    """How far from the nearest of so many places a token is at most: places are tokens, each the farthest from those before, which
    is at most twice as far as from the best places."""
    far = np.linalg.norm(u - u[0], axis=1)
    for _ in range(count - 1):
        far = np.minimum(far, np.linalg.norm(u - u[far.argmax()], axis=1))
    return float(far.max())
