"""Tokens: the empirical measure μ = Σ w_i δ_{x_i}."""

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, ParamSpec

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._norms import sizes, unit
from tokenfield._types import AnyArray, Count, Matrix, Numbers, Points, Scalar, Vector, Whole, no_type_check
from tokenfield.errors import InputError
from tokenfield.measures.base import AbstractMeasure

P = ParamSpec("P")

COPIES = 4
"""How many copies of their numbers random tokens need while they are made."""

_ORIGINS: dict[int, dict[str, Any]] = {}
"""How living tokens were made. Beside the objects, not in them: a seed in the pytree would compile everything anew."""


def _seeded(constructor: "Callable[P, Tokens]") -> "Callable[P, Tokens]":
    """Remember how tokens were made, so that a run can tell its seed."""
    signature = inspect.signature(constructor)

    @functools.wraps(constructor)
    def make(*args: P.args, **kwargs: P.kwargs) -> "Tokens":
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        tokens = constructor(*args, **kwargs)
        arguments = {name: value for name, value in list(bound.arguments.items())[1:] if value is not None}
        if not check.traced(arguments):
            arguments = {name: np.asarray(value).tolist() for name, value in arguments.items()}
            _ORIGINS[id(tokens)] = {"kind": constructor.__name__, **arguments}
            weakref.finalize(tokens, _ORIGINS.pop, id(tokens))
        return tokens

    return make


class Tokens(AbstractMeasure):
    r"""Tokens: n weighted points in R^d, the measure $\mu = \sum_i w_i \delta_{x_i}$.

    **Arguments**

    - `x`: points, shape (n, d), one row per token. float32 stays float32; whole numbers and half precision (float16, bfloat16)
      become the default float, float64 unless JAX is told otherwise. A tensor of torch's is taken out of its graph.
    - `w`: positive weights, shape (n,), which sum to 1; 1/n each when left out.
    - `s`: positions in [0, 1], shape (n,), for causal attention, where the order of the tokens matters.

    **Raises** `InputError` where a shape does not fit, an entry is not finite, weights are not positive or do not sum to 1, or
    positions lie outside [0, 1].

    >>> mu = Tokens([[1.0, 0.0], [0.0, 2.0]], w=[0.25, 0.75])
    >>> mu.n, mu.d, mu.mean.tolist(), mu.radii.tolist()
    (2, 2, [0.25, 1.5], [1.0, 2.0])
    """

    x: Float[Array, "*batch n d"]
    w: Float[Array, "*batch n"]
    s: Float[Array, "*batch n"] | None
    axes: ClassVar = {"x": ("token", "component"), "w": ("token",), "s": ("token",)}

    @classmethod
    def constructors(cls) -> Mapping[str, Callable[..., "Tokens"]]:
        names = ("uniform_sphere", "gaussian", "uniform_box", "orthonormal", "equiangular")
        return {name: getattr(cls, name) for name in names}

    @front_door
    def __init__(self, x: Points, w: Numbers | None = None, s: Numbers | None = None):
        points = check.real_array("x", x, like="an array of points, one row per token")
        if points.ndim != 2 or 0 in points.shape:
            raise InputError(
                f"Argument `x` must have shape (n, d) with n, d ≥ 1, one row per token, but has shape {points.shape}."
                + (" For one token, write x[None, :]." if points.ndim == 1 else "")
                + (" For a batch, use jax.vmap(Tokens)." if points.ndim > 2 else "")
            )
        self.x = check.finite("x", points)
        self.w = self._weights(w)
        self.s = self._positions(s)

    @classmethod
    def unchecked(cls, x: Float[Array, "n d"], w: Float[Array, " n"], s: Float[Array, " n"] | None = None) -> "Tokens":
        """Tokens of arrays that are right, inside compiled programs; weights may be 0, and sum to anything.

        **Arguments**

        - `x`, `w`, `s`: as for `Tokens`.

        **Returns** the tokens.
        """
        tokens = object.__new__(cls)
        for name, value in (("x", x), ("w", w), ("s", s)):
            object.__setattr__(tokens, name, value)
        return tokens

    def _weights(self, w: Any) -> Array:
        if w is None:
            return check.on_device(np.full(self.n, 1 / self.n, self.x.dtype))
        w = self._one_per_token("w", w, "weights")
        if not check.traced(w):
            values = np.asarray(w, np.float64)
            least, total = int(np.argmin(values)), float(np.sum(values))
            if not values[least] > 0:
                raise InputError(
                    f"Argument `w` must be positive, but weight {least} is {values[least]:g}. "
                    "Leave tokens without mass out of the measure."
                )
            if abs(total - 1) > 1e-6:
                raise InputError(f"Argument `w` must sum to 1, but sums to {total:.6g}. Divide it: w / w.sum().")
        return w

    def _positions(self, s: Any) -> Array | None:
        if s is None:
            return None
        s = self._one_per_token("s", s, "positions")
        if not check.traced(s):
            low, high = np.min(np.asarray(s)), np.max(np.asarray(s))
            if low < 0 or high > 1:
                raise InputError(
                    f"Argument `s` must lie in [0, 1], but spans [{low:g}, {high:g}]. "
                    "Divide positions by the length of the sequence."
                )
        return s

    def _one_per_token(self, name: str, value: Any, what: str) -> Array:
        array = check.as_floats(check.real_array(name, value, like=f"an array of {what}"), self.x.dtype)
        if array.shape != (self.n,):
            raise InputError(
                f"Argument `{name}` must have one entry per token, shape (n,) = ({self.n},), but has shape {array.shape}."
            )
        return check.finite(name, array)

    # The measure's own quantities; all of them accept leading batch dimensions (the states of a trajectory).

    @property
    def n(self) -> int:
        """Number of tokens."""
        return self.x.shape[-2]

    @property
    def d(self) -> int:
        """Dimension of the space."""
        return self.x.shape[-1]

    @property
    def ambient(self) -> int:
        return self.d

    @property
    def mean(self) -> Float[Array, "*batch d"]:
        """∫ x dμ = Σ w_i x_i."""
        xp, w, x = check.known(self.w, self.x)
        return check.on_device((w[..., None, :] @ x)[..., 0, :] if xp is np else xp.einsum("...n,...nd->...d", w, x))

    @property
    def spread(self) -> Float[Array, "*batch"]:
        """The largest distance of a token from the mean."""
        xp, x, mean = check.known(self.x, self.mean)
        return check.on_device(xp.max(xp.linalg.norm(x - mean[..., None, :], axis=-1), axis=-1))

    @property
    def variance(self) -> Float[Array, "*batch"]:
        """The total variance ∫ |x - mean|² dμ."""
        xp, w, x, mean = check.known(self.w, self.x, self.mean)
        return check.on_device(xp.sum(w * xp.sum((x - mean[..., None, :]) ** 2, axis=-1), axis=-1))

    @property
    def normalized(self) -> "Tokens":
        """The same shape at total variance 1: x ↦ x/√variance."""
        xp, x, variance = check.known(self.x, self.variance)
        return self.with_points(x / xp.sqrt(variance)[..., None, None])

    @property
    def gram(self) -> Float[Array, "*batch n n"]:
        """Inner products <x_i, x_j>."""
        check.room(
            2 * self.x.size * self.n / self.d * self.x.dtype.itemsize, "The inner products of all pairs of tokens"
        )
        xp, x = check.known(self.x)
        return check.on_device(x @ xp.swapaxes(x, -1, -2))

    @property
    def radii(self) -> Float[Array, "*batch n"]:
        """r_i = |x_i|."""
        return sizes(self.x)

    @property
    def directions(self) -> Float[Array, "*batch n d"]:
        """θ_i = x_i / |x_i|, on the unit sphere."""
        self.refuse_zero_vectors()
        return unit(self.x)

    @property
    def origin(self) -> dict[str, Any] | None:
        return _ORIGINS.get(id(self))

    def with_points(self, x: Float[AnyArray, "*batch n d"]) -> "Tokens":
        """The same weights and positions at other points.

        **Arguments**

        - `x`: the points, shape (n, d), unchecked; of the states of a run with the same leading axes.

        **Returns** the tokens there.
        """
        return eqx.tree_at(lambda mu: mu.x, self, check.on_device(x))

    def on_sphere_where(self, on: Any) -> "Tokens":
        """The tokens on the unit sphere, where they are to be there.

        **Arguments**

        - `on`: true or false, known or not.

        **Returns** the directions of the tokens as tokens, or the tokens as they are.
        """
        if on is True or on is False:
            return self.with_points(unit(self.x)) if on else self
        return self.with_points(check.namespace(on, self.x).where(on, unit(self.x), self.x))

    def filled(self, n: int) -> "Tokens":
        """The same measure as n tokens: copies of the first, of weight 0, stand behind the others.

        **Arguments**

        - `n`: how many tokens, at least as many as there are.

        **Returns** the tokens; `present` leaves the copies out again.
        """
        extra = n - self.n
        ends = {name: np.asarray(array) for name, array in self.arrays.items()}
        copies = {name: np.repeat(_first(name, array), extra, axis=_axis(name)) for name, array in ends.items()}
        copies["w"] = np.zeros_like(copies["w"])
        parts = {name: check.on_device(np.concatenate([ends[name], copies[name]], axis=_axis(name))) for name in ends}
        return eqx.tree_at(lambda mu: [getattr(mu, name) for name in parts], self, list(parts.values()))

    @property
    def distinction(self) -> dict[str, Any] | None:
        return self.origin or {"n": self.n}

    @property
    def arrays_with_mass(self) -> dict[str, Any]:
        x, w = np.asarray(self.x), np.asarray(self.w)
        return self.arrays | {"x": np.where(w[..., None] > 0, x, np.nan)}

    @classmethod
    def of_one_size(cls, parts: Sequence[Any]) -> list[Any]:
        most = max(mu.n for mu in parts)
        return [mu if mu.n == most else mu.filled(most) for mu in parts]

    @property
    def present(self) -> "Tokens":
        """The tokens that have weight, of measures with the same ones at all times."""
        w = np.asarray(self.w).reshape(-1, self.n)
        seen = np.any(w > 0, axis=0)
        if np.all(seen):
            return self
        parts = {name: np.compress(seen, np.asarray(array), axis=_axis(name)) for name, array in self.arrays.items()}
        return eqx.tree_at(
            lambda mu: [getattr(mu, name) for name in parts], self, [check.on_device(x) for x in parts.values()]
        )

    def refuse_zero_vectors(self) -> None:
        """Refuse tokens without a direction, where their values are known."""
        if not check.traced(self.x) and (zero := ~np.any(np.asarray(self.x), axis=-1)).any():
            raise InputError(
                f"Every token must have a direction, but token {np.argwhere(zero)[0][-1]} is the zero vector. "
                "Remove it, move it, or use Free() normalization, which needs no directions."
            )

    def __repr__(self) -> str:
        where = {2: "circle", 3: "sphere"}.get(self.d, "unit sphere")
        batch = f"{self.x.shape[:-2]} batches of " if self.x.ndim > 2 else ""
        if check.traced(self):
            return f"Tokens({batch}n={self.n}, d={self.d}, traced)"
        on = f" on the {where}" if np.all(abs(np.asarray(self.radii) - 1) < 1e-6) else ""
        weights = "" if np.all(np.asarray(self.w) == np.asarray(self.w)[..., :1]) else ", weighted"
        return f"Tokens({batch}n={self.n}, d={self.d}{on}{weights}{', with positions' if self.s is not None else ''})"

    # Constructors, each seeded.

    @classmethod
    @front_door
    @_seeded
    def uniform_sphere(cls, n: Count, d: Count, seed: Whole = 0) -> "Tokens":
        """Independent uniform points on the unit sphere S^{d-1}.

        **Arguments**

        - `n`: how many.
        - `d`: the dimension of the space around the sphere.
        - `seed`: the seed of the random numbers.

        **Returns** n tokens of equal weight.

        **Raises** `InputError` where an argument is not a whole number, or too small.

        >>> Tokens.uniform_sphere(n=5, d=3, seed=1)
        Tokens(n=5, d=3 on the sphere)
        """
        return cls(unit(_normal(_shape(n, d), seed)))

    @classmethod
    @front_door
    @_seeded
    def gaussian(cls, n: Count, d: Count, mean: Vector = None, cov: Matrix = None, seed: Whole = 0) -> "Tokens":
        """Independent samples of the normal law N(mean, cov).

        **Arguments**

        - `n`: how many.
        - `d`: the dimension of the space.
        - `mean`: of shape (d,); 0 when left out.
        - `cov`: the covariance, shape (d, d), which may be singular; the identity when left out.
        - `seed`: the seed of the random numbers.

        **Returns** n tokens of equal weight.

        **Raises** `InputError` where n, d or the seed is not a whole number, a shape does not fit, or `cov` is no covariance.

        >>> Tokens.gaussian(n=100, d=2, mean=[5.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]]).x.shape
        (100, 2)
        """
        g = _normal(_shape(n, d), seed)
        if cov is not None:
            g = g @ _square_root(cov, d).T
        if mean is not None:
            mean = np.asarray(check.finite("mean", check.real_array("mean", mean)))
            if mean.shape != (d,):
                raise InputError(f"Argument `mean` must have shape (d,) = ({d},), but has shape {mean.shape}.")
            g = g + mean
        return cls(g)

    @classmethod
    @front_door
    @_seeded
    def uniform_box(cls, n: Count, d: Count, low: Scalar = -1.0, high: Scalar = 1.0, seed: Whole = 0) -> "Tokens":
        """Independent uniform points in the box [low, high]^d.

        **Arguments**

        - `n`: how many.
        - `d`: the dimension of the space.
        - `low`, `high`: the ends of each side.
        - `seed`: the seed of the random numbers.

        **Returns** n tokens of equal weight.

        **Raises** `InputError` where n, d or the seed is not a whole number, or `low` is not below `high`.

        >>> bool(abs(Tokens.uniform_box(n=9, d=2, low=-5.0, high=5.0).x).max() <= 5)
        True
        """
        low, high = check.number("low", low), check.number("high", high)
        if not low < high:
            raise InputError(f"Argument `low` must be below `high`, but low = {low:g} and high = {high:g}.")
        shape = _shape(n, d)
        return cls(low + (high - low) * _drawn(seed, lambda key: jax.random.uniform(key, shape), ("uniform", shape)))

    @classmethod
    @front_door
    @_seeded
    def orthonormal(cls, n: Count, d: Whole = None, seed: Whole = None) -> "Tokens":
        """Orthonormal vectors: the standard ones, or with a seed a random frame.

        **Arguments**

        - `n`: how many.
        - `d`: the dimension of the space, n or more; n when left out.
        - `seed`: the seed of a random rotation; none when left out.

        **Returns** n tokens of equal weight.

        **Raises** `InputError` where an argument is not a whole number, or R^d has no room for them.

        >>> Tokens.orthonormal(3).gram.tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        return cls(_equiangular(n, 0.0, d, seed))

    @classmethod
    @front_door
    @_seeded
    def equiangular(cls, n: Count, rho: Scalar, d: Whole = None, seed: Whole = None) -> "Tokens":
        r"""Unit vectors of one common cosine: $\langle x_i, x_j\rangle = ρ$ for i ≠ j.

        **Arguments**

        - `n`: how many.
        - `rho`: ρ, -1/(n-1) ≤ ρ ≤ 1.
        - `d`: the dimension of the space; when left out the least that is needed, n, or n - 1 for a regular simplex.
        - `seed`: the seed of a random rotation; none when left out.

        **Returns** n tokens of equal weight.

        **Raises** `InputError` where no such vectors exist, or R^d has no room for them.

        >>> jnp.round(Tokens.equiangular(3, rho=-0.5, d=2).gram, 12).tolist()
        [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
        """
        return cls(_equiangular(n, rho, d, seed))

    @classmethod
    @front_door
    @no_type_check
    def quadrature(
        cls,
        density: Callable[[Any], Any],
        *,
        n: Count = 32,
        interval: Sequence[float] | None = None,
        box: Sequence[Sequence[float]] | None = None,
        ball: tuple[float, int] | None = None,
        sphere: Whole = None,
    ) -> "Tokens":
        """Weighted tokens that stand for a density: the nodes of a quadrature rule.

        What smooth flows do with them differs from the mean-field equation by an error that falls exponentially with n.

        **Arguments**

        - `density`: a function of points, from shape (m, d) to (m,), not necessarily of mass 1; or a `CircleDensity` or
          `SphereDensity`, whose domain is its own.
        - `n`: the number of nodes in each direction.
        - one domain: `interval`, a pair (low, high); `box`, a list of such sides; `ball`, a pair (radius, d); or `sphere`, the
          dimension d of S^{d-1}.

        **Returns** tokens whose weights are those of the rule times the density, normalized.

        **Raises** `InputError` where there is not exactly one domain, the density is negative or not finite, or n nodes do not
        resolve it.

        >>> mu = Tokens.quadrature(lambda x: jnp.exp(-x[:, 0] ** 2 / 2), interval=(-8.0, 8.0), n=40)
        >>> bool(abs((mu.w * mu.x[:, 0] ** 4).sum() - 3) < 1e-6)                 # the fourth moment of the normal law
        True
        """
        from tokenfield.measures import quadrature as rules
        from tokenfield.measures.density import AbstractDensity

        if isinstance(density, AbstractDensity) and interval is box is ball is sphere is None:
            sphere = density.d
        domains = {
            "interval": (interval, lambda side: rules.box_rule([side])),
            "box": (box, rules.box_rule),
            "ball": (ball, rules.ball_rule),
            "sphere": (sphere, rules.sphere_rule),
        }
        given = [make(domain) for domain, make in domains.values() if domain is not None]
        if len(given) != 1 or not callable(density):
            raise InputError(
                "Tokens.quadrature takes a density, a function of points (m, d), and one domain: interval=(low, high), "
                f"box=[(low, high), ...], ball=(radius, d) or sphere=d; got {len(given)} domains."
            )
        return cls(*rules.weighted_points(density, given[0], check.whole("n", n, 2, "nodes in each direction")))


def _axis(name: str) -> int:
    """Which axis of an array of tokens counts tokens."""
    return -len(Tokens.axes[name])


def _first(name: str, array: np.ndarray) -> np.ndarray:
    return np.take(array, [0], axis=_axis(name))


def _shape(n: Any, d: Any) -> tuple[int, int]:
    n, d = check.whole("n", n, 1, "the number of tokens"), check.whole("d", d, 1, "the dimension")
    check.room(COPIES * 8 * n * d, f"{n} tokens in {d} dimensions")
    return n, d


def _normal(shape: tuple[int, int], seed: Any) -> Array | np.ndarray:
    """Independent standard normal numbers, on the host unless inside jit."""
    return _drawn(seed, lambda key: jax.random.normal(key, shape), ("normal", shape))


def _drawn(seed: Any, draw: Callable[[Array], Array], name: tuple) -> Array | np.ndarray:
    """Random numbers from a seed by one compiled program, kept under a name."""
    seed = check.whole("seed", seed, 0, "the seed of the random numbers")
    program = _PROGRAMS.setdefault(name, jax.jit(lambda seed: draw(jax.random.key(seed))))
    numbers = program(seed)
    return numbers if check.traced(numbers) else np.asarray(numbers)


_PROGRAMS: dict[tuple, Callable[[int], Array]] = {}
"""Compiled samplers by what they draw."""


def _square_root(cov: Any, d: int) -> np.ndarray:
    """The symmetric square root of a covariance, which may be singular."""
    values, vectors = np.linalg.eigh(np.asarray(check.covariance("cov", cov, d)))
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _equiangular(n: Any, rho: Any, d: Any, seed: Any) -> Array | np.ndarray:
    """The symmetric square root of (1-ρ) I + ρ 11ᵀ, in R^d; a regular simplex needs one dimension less."""
    n = check.whole("n", n, 1, "the number of tokens")
    rho = check.scalar("rho", rho)
    least = -1 / (n - 1) if n > 1 else -1.0
    simplex = False
    if not check.traced(rho):
        if not least - 1e-12 <= float(rho) <= 1:
            raise InputError(
                f"Argument `rho` must lie in [-1/(n-1), 1] = [{least:g}, 1] for n = {n}, but is {float(rho):g}: "
                "no such vectors exist."
            )
        simplex = n > 1 and abs(float(rho) - least) < 1e-12
    need = n - 1 if simplex else n
    d = need if d is None else check.whole("d", d, 1, "the dimension")
    check.room(COPIES * 8 * max(n, d) * (n if seed is None else max(n, d)), f"{n} equiangular tokens in {d} dimensions")
    if d < need:
        raise InputError(f"{n} tokens at ρ = {rho} span {need} dimensions, but d = {d}. Take d ≥ {need}.")
    xp = check.namespace(rho)
    rho = rho if xp is jnp else float(rho)
    lift = (xp.sqrt(xp.maximum(1 + (n - 1) * rho, 0.0)) - xp.sqrt(1 - rho)) / n
    x = xp.sqrt(1 - rho) * np.eye(n) + lift
    if simplex:  # the rows are orthogonal to 1: write them in a basis of that hyperplane
        frame = np.eye(n)
        frame[:, 0] = 1.0
        x = x @ np.linalg.qr(frame)[0][:, 1:]
    x = xp.pad(x, ((0, 0), (0, d - need)))
    if seed is None:
        return x
    g = _normal((d, d), seed)
    q, r = check.namespace(g).linalg.qr(g)
    return x @ (q * check.namespace(g).sign(r.diagonal()))
