"""What is known about the stationary states of a flow: states, branches of them, and the diagram of all branches."""

import dataclasses
import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, Numbers
from tokenfield.bifurcation.basis import zonal
from tokenfield.bifurcation.continuation import Place, Trace, between
from tokenfield.bifurcation.coupling import Coupling
from tokenfield.bifurcation.measure import Observed, observed, observed_uniform
from tokenfield.bifurcation.search import solutions_at
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import CircleDensity, SphereDensity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    r"""A stationary density $f = \sum_l f_l e_l(t)$, $t = ⟨x, e_1⟩$, relative to the uniform measure on S^{d-1}.

    - `kappa`: its κ.
    - `coefficients`: f_0 = 1, f_1, ... They belong to zonal functions that are orthonormal in the law of t and positive at
      t = 1 (`tokenfield.harmonics.Zonal`; on the circle 1, √2 cos θ, √2 cos 2θ, ...).
    - `d`: the sphere is S^{d-1}.
    - `order`: $R = |\int x\,dμ|$.
    - `free_energy`: F; None for SA, which has none.
    - `unstable`: the number of unstable directions among all densities, zonal or not; `stable` where it is 0.
    - `name`: that of its branch.
    - `state.density(t)`, `state.measure`: its values, and the same as a measure that can be drawn, sampled and evolved.
    """

    kappa: float
    coefficients: Float[np.ndarray, " l"]
    d: int
    order: float
    free_energy: float | None
    unstable: int
    name: str

    @property
    def stable(self) -> bool:
        """Whether no direction is unstable."""
        return self.unstable == 0

    @front_door
    def density(self, t: Numbers) -> Float[np.ndarray, " n"]:
        """The density f at given heights.

        **Arguments**

        - `t`: heights t = <x, e_1> in [-1, 1], one or many.

        **Returns** f, one number per height.

        **Raises** `InputError` where a height is not in [-1, 1].
        """
        t = np.atleast_1d(np.asarray(check.finite("t", check.real_array("t", t)), float))
        if t.ndim != 1 or np.any(np.abs(t) > 1):
            raise InputError(f"Argument `t` must hold heights in [-1, 1], one or many, but is {check.brief(t)}.")
        return zonal(self.d, len(self.coefficients) - 1, t) @ self.coefficients

    @property
    def measure(self) -> CircleDensity | SphereDensity:
        """The state as a measure that can be drawn, sampled and evolved."""
        if self.d > 2:
            return SphereDensity(self.coefficients, self.d, zonal=True)
        both = np.zeros(2 * len(self.coefficients) - 1)
        both[0], both[1::2] = self.coefficients[0], self.coefficients[1:]
        return CircleDensity(both)

    def __repr__(self) -> str:
        energy = "" if self.free_energy is None else f", F = {self.free_energy:.6g}"
        how = "stable" if self.stable else f"{self.unstable} unstable direction{'s' * (self.unstable > 1)}"
        return f"State({self.name}: κ = {self.kappa:.6g}, R = {self.order:.6g}{energy}, {how})"


@dataclasses.dataclass(frozen=True, eq=False)
class Branch:
    """A curve of stationary states. `branch[i]` is one `State` of it, and iterating gives all.

    - `name`: what it is called.
    - `origin`: where it begins: "uniform", "degree l" (leaves the uniform state at κ_l), "secondary" (crosses another branch)
      or "isolated".
    - `d`: the sphere is S^{d-1}.
    - `kappa`, `coefficients`, `order`, `free_energy`, `unstable`, `stable`: those of its states, along the branch.
    - `folds`: the values of κ where it turns.
    """

    name: str
    origin: str
    d: int
    kappa: Float[np.ndarray, " n"]
    coefficients: Float[np.ndarray, "n l"]
    order: Float[np.ndarray, " n"]
    free_energy: Float[np.ndarray, " n"] | None
    unstable: Int[np.ndarray, " n"]
    folds: Float[np.ndarray, " folds"]
    distance: Float[np.ndarray, " n"] = dataclasses.field(repr=False)
    trace: Trace | None = dataclasses.field(repr=False)

    @property
    def stable(self) -> np.ndarray:
        """Which of the states have no unstable direction."""
        return self.unstable == 0

    def __len__(self) -> int:
        return len(self.kappa)

    def __getitem__(self, i: int) -> State:
        if not -len(self) <= i < len(self):
            raise IndexError(f"The branch has {len(self)} states, but state {i} was asked for.")
        energy = None if self.free_energy is None else float(self.free_energy[i])
        parts = (float(self.kappa[i]), self.coefficients[i], self.d, float(self.order[i]), energy)
        return State(*parts, int(self.unstable[i]), self.name)

    def __iter__(self) -> Iterator[State]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        turns = f", folds at {', '.join(f'{κ:.8g}' for κ in self.folds)}" if len(self.folds) else ""
        return (
            f"Branch({self.name}: κ from {self.kappa.min():.4g} to {self.kappa.max():.4g}, {len(self)} states{turns})"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Diagram:
    """All branches of stationary states that were found for a flow on S^{d-1}; `stationary` makes it, and it prints as a few
    lines.

    - `flow`, `d`: what was asked for.
    - `kappa`: the range (low, high); branches were followed up to `high`.
    - `kappa_c`: κ_c, up to which the uniform state is stable.
    - `branches`: a list of `Branch`, the uniform one first.
    - `folds`, `transition`, `kappa_transition`: where branches turn, and how and where the uniform state gives way.
    - `diagram.at(kappa)`, `diagram.plot(path)`: the states at one κ, and a picture.
    """

    flow: Flow
    d: int
    kappa: tuple[float, float]
    kappa_c: float
    branches: list[Branch]
    model: Coupling = dataclasses.field(repr=False)

    @property
    def folds(self) -> Float[np.ndarray, " folds"]:
        """κ of the folds of all branches, increasing."""
        return np.sort(np.concatenate([branch.folds for branch in self.branches]))

    @front_door
    def at(self, kappa: Number) -> list[State]:
        """The states of all branches at exactly this κ.

        **Arguments**

        - `kappa`: a positive number of at most `diagram.kappa[1]`.

        **Returns** a list of states, in the order of their free energies (for SA, of their numbers of unstable directions).

        **Raises** `InputError` where κ is beyond the range.

        >>> import tokenfield as tkf
        >>> from tokenfield.bifurcation import stationary
        >>> best, uniform = stationary(tkf.kuramoto(), d=2).at(4.0)
        >>> best                                                              # R = I_1(4R)/I_0(4R)
        State(degree 1: κ = 4, R = 0.831462, F = -0.117554, stable)
        >>> uniform.unstable                                                  # cos θ and sin θ
        2
        """
        kappa = check.number("kappa", kappa, positive=True)
        if kappa > self.kappa[1] * (1 + 1e-12):
            raise InputError(
                f"Branches were followed up to κ = {self.kappa[1]:.6g}, but κ = {kappa:.6g} was asked for. "
                f"Ask for more: stationary(..., kappa=({self.kappa[0]:.3g}, {kappa:.3g}))."
            )
        states = [_state(branch, seen) for branch in self.branches for seen in self._seen(branch, kappa)]
        return sorted(states, key=lambda state: (_or_zero(state.free_energy), state.unstable, -state.order))

    def _seen(self, branch: Branch, kappa: float) -> list[Observed]:
        if branch.trace is None:
            return [observed_uniform(self.model, self.d, kappa, branch.coefficients.shape[1])]
        η = math.log(kappa * branch.trace.equation.strongest)
        solutions = solutions_at(branch.trace, η)
        return [observed(branch.trace.equation, x) for x in solutions if np.linalg.norm(x[:-1]) > 1e-9]

    @functools.cached_property
    def transition(self) -> str:
        """ "first-order" if before κ_c another state has a lower free energy than the uniform one, else "second-order";
        "none" where κ_c is infinite. SA has no free energy: there, first-order if another state is stable before κ_c."""
        if not np.isfinite(self.kappa_c):
            return "none"
        return "first-order" if self._rivals() else "second-order"

    def _rivals(self) -> bool:
        if self.model.kind == "sa":
            return any(np.any(branch.stable & (branch.kappa < self.kappa_c * (1 - 1e-9))) for branch in self._others)
        traces = [branch.trace for branch in self._others if branch.trace is not None]
        states = [(trace.equation, x) for trace in traces for x in solutions_at(trace, 0.0)]
        return any(np.linalg.norm(x[:-1]) > 1e-4 and equation.free_energy(x) < -1e-14 for equation, x in states)

    @functools.cached_property
    def kappa_transition(self) -> float:
        """κ where the free energies of the uniform state and its first rival cross; κ_c if the transition is second-order.
        For SA, where other stable states begin."""
        if self.transition != "first-order":
            return self.kappa_c
        if self.model.kind == "sa":
            return min(float(branch.kappa.min()) for branch in self._others if np.any(branch.stable))
        ties = [κ for branch in self._others for κ in _ties(branch) if κ < self.kappa_c]
        return min(ties, default=self.kappa_c)

    @property
    def _others(self) -> list[Branch]:
        return [branch for branch in self.branches if branch.trace is not None]

    @front_door
    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure | Path":
        """A picture of R against κ, solid where stable and dashed where not, with the free energy below.

        **Arguments**

        - `path`: where to write it, as .png, .pdf or .svg; left out, nothing is written.

        **Returns** the path, or the figure where nothing was written.

        **Raises** `StoreError` where it cannot be written.
        """
        from tokenfield.bifurcation.draw import picture

        return picture(self, path)

    def __repr__(self) -> str:
        from tokenfield.bifurcation.draw import story

        return story(self)


def _state(branch: Branch, seen: Observed) -> State:
    return State(seen.kappa, seen.coefficients, branch.d, seen.order, seen.free_energy, seen.unstable, branch.name)


def _or_zero(energy: float | None) -> float:
    return 0.0 if energy is None else energy


def _ties(branch: Branch) -> list[float]:
    """κ at which states of a branch have the uniform state's free energy."""
    assert branch.trace is not None
    equation, places = branch.trace.equation, branch.trace.places
    energy = lambda p: equation.free_energy(p.x)
    values = [energy(p) for p in places]
    pairs = [(a, b) for a, b, f, g in zip(places, places[1:], values, values[1:], strict=False) if f * g < 0]
    ties: list[Place | None] = [between(equation, a, b, energy) for a, b in pairs]
    return [float(np.exp(tie.η)) / equation.strongest for tie in ties if tie is not None]
