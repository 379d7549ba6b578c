"""Rigollet, The mean-field dynamics of Transformers: what the models are, as identities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import attracting, contraction, flow_of, relabelled


class Kuramoto(Statement):
    """Of the library's velocities, or of others that are given as `v`."""

    name = "kuramoto"
    source, number, kind = "rigollet2025", "equation (4)", "identity"
    says = (
        "On the circle USA is θ̇_i = -Σ_j w_j exp(β cos(θ_i - θ_j)) sin(θ_i - θ_j), which at β = 0 is Kuramoto's model."
    )

    def hypotheses(self, flow: tkf.Flow, mu: tkf.Tokens, v: Any = None) -> Iterator[tuple[str, bool]]:
        known = flow.coupling_if_any()
        yield "the flow is USA", known is not None and known.kind == "usa" and attracting(flow)
        yield "tokens live on the circle", mu.d == 2

    def findings(self, flow: tkf.Flow, mu: tkf.Tokens, v: Any = None) -> Iterator[Finding]:
        known, x, w = flow.coupling(), np.asarray(mu.directions), np.asarray(mu.w)
        θ = np.arctan2(x[:, 1], x[:, 0])
        apart = θ[:, None] - θ
        expected = -known.V * (np.exp(known.beta * np.cos(apart) - known.log_unit) * np.sin(apart)) @ w
        v = np.asarray(tkf.velocity(flow, mu) if v is None else v)
        yield Finding(
            "largest difference of angular speeds",
            predicted=0.0,
            measured=float(np.abs(x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0] - expected).max()),
            tolerance=2e-10 * contraction(flow),
            because="Sums are accurate to 1e-10 of the largest kernel value V e^β, and two are compared.",
        )

    def case(self, small: bool) -> dict[str, Any]:
        return {"flow": tkf.usa(3.0), "mu": tkf.Tokens.uniform_sphere(n=100 if small else 5_000, d=2, seed=0)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Tokens.uniform_sphere(n=100, d=2, seed=0)
        yield "softmax attention", {"flow": tkf.sa(3.0), "mu": mu}
        yield "velocities at another β", {"flow": tkf.usa(3.0), "mu": mu, "v": tkf.velocity(tkf.usa(3.001), mu)}
        yield "velocities with the other sign", {"flow": tkf.usa(3.0), "mu": mu, "v": -tkf.velocity(tkf.usa(3.0), mu)}


class MeanShift(Statement):
    """Of the velocities of SA, or of others that are given as `v`; the gradient is taken by automatic differentiation."""

    name = "mean-shift"
    source, number, kind = "rigollet2025", "section 5.3", "identity"
    says = (
        "On the sphere SA is blurring mean-shift: β v(x) is the tangential gradient of log Σ_j w_j exp(-β|x - x_j|²/2)."
    )
    remark = "The source says that the two fields coincide; they do up to the factor β, which is a change of time."

    def hypotheses(self, flow: tkf.Flow, mu: tkf.Tokens, v: Any = None) -> Iterator[tuple[str, bool]]:
        known = flow.coupling_if_any()
        yield (
            "the flow is SA with β > 0",
            known is not None and known.kind == "sa" and attracting(flow) and known.beta > 0,
        )

    def findings(self, flow: tkf.Flow, mu: tkf.Tokens, v: Any = None) -> Iterator[Finding]:
        import jax
        import jax.numpy as jnp

        known, x, w = flow.coupling(), mu.directions, mu.w
        log_density = lambda p: jax.nn.logsumexp(-0.5 * known.beta * jnp.sum((p - x) ** 2, axis=1), b=w)
        slope = jax.jit(jax.vmap(jax.grad(log_density)))(x)
        slope = np.asarray(slope - jnp.sum(slope * x, axis=1, keepdims=True) * x)
        v = np.asarray(tkf.velocity(flow, mu) if v is None else v)
        yield Finding(
            "largest difference of β v and the gradient",
            predicted=0.0,
            measured=float(np.abs(known.beta * v / known.V - slope).max()),
            tolerance=float(1e-10 * known.beta),
            because="The field is summed to 1e-10 of its largest value, which is 1, and multiplied by β.",
        )

    def case(self, small: bool) -> dict[str, Any]:
        return {"flow": tkf.sa(9.0), "mu": tkf.Tokens.uniform_sphere(n=100 if small else 1000, d=3, seed=0)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Tokens.uniform_sphere(n=50, d=3, seed=0)
        yield "unnormalized attention", {"flow": tkf.usa(9.0), "mu": mu}
        yield "the field without the projection", {"flow": tkf.sa(9.0), "mu": mu, "v": tkf.Softmax(9.0)(mu)}
        yield "velocities at another β", {"flow": tkf.sa(9.0), "mu": mu, "v": tkf.velocity(tkf.sa(8.0), mu)}


class EnergyAscent(Statement):
    """Of the velocities of the flow, or of others that are given as `v`. The derivative of the energy is exact, by a
    Jacobian-vector product."""

    name = "energy-identity"
    source, number, kind = "rigollet2025", "equation (3)", "identity"
    says = "E_β climbs: dE/dt = ∫|v|² dμ along USA, and ∫ Z|v|² dμ along SA, Z(x) = ∫ e^(β<x,y>) dμ(y)."

    def hypotheses(self, flow: tkf.Flow, mu: tkf.Tokens, v: Any = None) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA with β ≥ 0 and V = 1", attracting(flow) and float(flow.coupling().V) == 1.0
        yield "β is positive", bool(flow.coupling().beta > 0)

    def findings(self, flow: tkf.Flow, mu: tkf.Tokens, v: Any = None) -> Iterator[Finding]:
        import jax
        import jax.numpy as jnp

        known, x, w = flow.coupling(), mu.directions, mu.w
        v = jnp.asarray(tkf.velocity(flow, mu) if v is None else v)
        energy = lambda points: tkf.observe.energy(tkf.Tokens(points, w), beta=known.beta)
        _, climbed = jax.jvp(energy, (x,), (v,))
        Z = jnp.exp(known.beta * x @ x.T) @ w if known.kind == "sa" else jnp.exp(known.log_unit)
        predicted = float(jnp.sum(w * Z * jnp.sum(v**2, axis=1)))
        yield Finding(
            f"dE/dt ({known.kind.upper()})",
            predicted=predicted,
            measured=float(climbed),
            tolerance=1e-9 * abs(predicted) + 1e-9 * float(jnp.exp(known.beta)) * float(jnp.abs(v).max()),
            because="Velocities are accurate to 1e-10 of the largest kernel value, and both sides are linear or quadratic in them.",
            rival=0.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        mu = tkf.Tokens.uniform_sphere(n=60 if small else 1000, d=3, seed=0)
        yield {"flow": tkf.usa(3.0), "mu": mu}
        yield {"flow": tkf.sa(3.0), "mu": mu}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Tokens.uniform_sphere(n=60, d=3, seed=0)
        yield "velocities at another β", {"flow": tkf.usa(3.0), "mu": mu, "v": tkf.velocity(tkf.usa(3.01), mu)}
        yield "velocities with the other sign", {"flow": tkf.usa(3.0), "mu": mu, "v": -tkf.velocity(tkf.usa(3.0), mu)}
        yield "velocities of SA for those of USA", {"flow": tkf.usa(3.0), "mu": mu, "v": tkf.velocity(tkf.sa(3.0), mu)}
        yield "values that are doubled", {"flow": tkf.usa(3.0, V=2.0), "mu": mu}


class EnergyIncreases(Statement):
    name = "energy-increases"
    source, number, kind = "rigollet2025", "section 3.2", "theorem"
    says = "The energy E_β never falls along SA and USA."

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA with β ≥ 0", attracting(flow_of(run))

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        beta = float(flow_of(run).coupling().beta)
        E = np.asarray(tkf.observe.energy(run, beta=beta, scaled=True))
        slack = (run.provenance.rtol + run.provenance.atol) * int(run.accepted)
        yield Finding(
            "least increase from one saved state to the next, in units of e^β",
            predicted=0.0,
            measured=float(np.diff(E).min()),
            tolerance=slack,
            because="The energy's gradient is at most 1 in these units, and the steps between two states err by at most rtol each.",
            relation="≥",
        )

    def case(self, small: bool) -> dict[str, Any]:
        start = tkf.Tokens.uniform_sphere(n=40 if small else 400, d=3, seed=0)
        return {"run": tkf.evolve(tkf.sa(9.0), start, t=20.0 if small else 1000.0, save=200)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = tkf.Tokens.uniform_sphere(n=40, d=3, seed=0)
        down = tkf.evolve(tkf.sa(9.0, V=-1.0), start, t=20.0, save=200)
        yield "tokens that repel each other", {"run": down}
        yield "tokens that repel each other, said to attract", {"run": relabelled(down, tkf.sa(9.0))}


STATEMENTS: tuple[Statement, ...] = (Kuramoto(), MeanShift(), EnergyAscent(), EnergyIncreases())
