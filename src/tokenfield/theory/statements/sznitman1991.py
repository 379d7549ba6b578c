"""Sznitman, Topics in propagation of chaos: tokens that are many approach the density."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, noise_of, relabelled, same_equation

MODES = 3
"""Fourier moments of these orders are compared."""


class PropagationOfChaos(Statement):
    """An ensemble of runs of tokens, several of every number n, whose starts are samples of a density; and the run of that density.

    The error for n tokens is the root mean square, over runs, of the distance of ∫e^{ikθ} dμ, k = 1, 2, 3, to those of the density
    at the end. It is a mean of squares of nearly normal variables, two at least per run."""

    name = "propagation-of-chaos"
    source, number, kind = "sznitman1991", "section 7 in rigollet2025", "theorem"
    says = (
        "Moments of n tokens that start as independent samples differ from those of the mean-field density by n^(-1/2)."
    )

    def hypotheses(self, tokens: tkf.Trajectory, density: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        sizes, count = np.unique(_sizes(tokens), return_counts=True)
        yield "tokens have three numbers or more, in at least eight runs each", len(sizes) >= 3 and count.min() >= 8
        yield "a density on the circle moves", isinstance(density.states, tkf.CircleDensity)
        yield "all have the same flow and the same times", all(same_equation(run, density) for run in tokens.members())
        z = np.sqrt(sizes) * _errors(tokens, density, 0)
        begun = bool(z.min() > 0.2 and z.max() < 3 * np.sqrt(MODES))
        yield "tokens start as samples of the density, as near to it as n^(-1/2)", begun

    def findings(self, tokens: tkf.Trajectory, density: tkf.Trajectory) -> Iterator[Finding]:
        sizes, count = np.unique(_sizes(tokens), return_counts=True)
        x, y = np.log(sizes), np.log(_errors(tokens, density, -1))
        away = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
        loose = 1 / np.sqrt(4 * count)
        error = float(np.sqrt(np.sum((away * loose) ** 2)))
        noise = "without noise" if flow_of(density).kappa is None else f"κ = {noise_of(flow_of(density)):g}"
        yield Finding(
            f"power of n in the error of the moments ({noise})",
            predicted=-0.5,
            measured=float(away @ y),
            tolerance=3 * error,
            because=(
                f"Three standard errors: over {count[0]} runs the logarithm of a root mean square of at least twice as many "
                f"normal variables is known to {loose[0]:.2g}, and the slope of the line to {error:.2g}."
            ),
            rival=0.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        sizes, count = ((16, 64, 256), 24) if small else ((60, 120, 250, 500, 1000), 48)
        for flow in (tkf.usa(1.0, kappa=4.0), tkf.usa(1.0)):
            yield _compared(flow, sizes, count)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        both = _compared(tkf.usa(1.0, kappa=4.0), (16, 64, 256), 24)
        other = tkf.evolve(tkf.usa(1.0, kappa=1.0), both["density"][0], t=1.0, save=2, rtol=1e-9)
        yield "a density with other noise", {**both, "density": relabelled(other, flow_of(both["density"]))}
        yield (
            "another density",
            {
                **both,
                "density": tkf.evolve(tkf.usa(1.0, kappa=4.0), tkf.CircleDensity.wave(0.1, degree=48), t=1.0, save=2),
            },
        )
        yield (
            "a density at another β",
            {**both, "density": tkf.evolve(tkf.usa(2.0, kappa=4.0), both["density"][0], t=1.0, save=2)},
        )

    def plot(self, axes: Any, tokens: tkf.Trajectory, density: tkf.Trajectory) -> None:
        n, error = np.unique(_sizes(tokens)), _errors(tokens, density, -1)
        noisy = "without noise" if flow_of(density).kappa is None else "with noise"
        line = axes.loglog(n, error, "o", label=noisy)
        axes.loglog(n, error[0] * np.sqrt(n[0] / n), "--", lw=1, color=line[0].get_color(), label="$n^{-1/2}$")
        axes.set_xlabel("n")
        axes.set_ylabel("error of Fourier moments")
        axes.legend(fontsize=7)


def _sizes(tokens: tkf.Trajectory) -> np.ndarray:
    """The number of tokens in every run."""
    if not isinstance(tokens.states, tkf.Tokens) or not tokens.batch or tokens.states.d != 2:
        raise InputError(
            "This statement needs an ensemble of runs of Tokens on the circle: evolve([flow], [start, ...], t)."
        )
    return np.array([run[0].n for run in tokens.members()])


def _errors(tokens: tkf.Trajectory, density: tkf.Trajectory, index: int) -> np.ndarray:
    """For every n, the root mean square over its runs of the distance of their moments to those of the density."""
    c = np.asarray(density.states.coefficients)[index]
    law = (c[1 : 2 * MODES : 2] + 1j * c[2 : 2 * MODES + 1 : 2]) / 2**0.5
    squares = np.array([np.sum(np.abs(_moments(run[index]) - law) ** 2) for run in tokens.members()])
    sizes = _sizes(tokens)
    return np.array([np.sqrt(squares[sizes == n].mean()) for n in np.unique(sizes)])


def _moments(mu: tkf.Tokens) -> np.ndarray:
    z, w = np.asarray(mu.x) @ [1, 1j], np.asarray(mu.w)
    return np.array([w @ z**k for k in range(1, MODES + 1)])


def _compared(flow: tkf.Flow, sizes: tuple[int, ...], count: int) -> dict[str, Any]:
    """Samples of one density, and that density, to t = 1."""
    law = tkf.CircleDensity.von_mises(1.0, degree=48)
    how: dict[str, Any] = {"step": 0.05} if flow.kappa is not None else {"rtol": 1e-5}
    starts = [law.sample(n, seed=1000 * n + seed) for n in sizes for seed in range(count)]
    return {
        "tokens": tkf.evolve([flow], starts, t=1.0, save=2, **how),
        "density": tkf.evolve(flow, law, t=1.0, save=2, rtol=1e-9),
    }


STATEMENTS: tuple[Statement, ...] = (PropagationOfChaos(),)
