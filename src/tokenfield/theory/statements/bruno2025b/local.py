"""At large β the field is local: that of a backward diffusion of the density."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import attracting

BETAS = (25.0, 50.0, 100.0, 200.0)


class _LocalLimit(Statement):
    """What both local limits share: the field at a smooth density, at growing β."""

    @staticmethod
    @abc.abstractmethod
    def flow(beta: float) -> tkf.Flow:
        """The flow whose field it is."""

    def hypotheses(
        self, flows: Sequence[tkf.Flow], log_density: Callable[..., Any], d: int, fields: Any = None
    ) -> Iterator[tuple[str, bool]]:
        kind = self.flow(1.0).coupling().kind
        yield f"the flows are {kind.upper()} with V = 1 at three or more β", _kind(flows, kind)
        yield "each β is twice the one before", _doubling(flows)

    def findings(
        self, flows: Sequence[tkf.Flow], log_density: Callable[..., Any], d: int, fields: Any = None
    ) -> Iterator[Finding]:
        yield from _Local(flows, log_density, d, fields).findings()

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for d in (2, 3):
            flows = [self.flow(β) for β in (BETAS if small else (*BETAS, 400.0, 800.0))]
            yield {"flows": flows, "log_density": _bumps, "d": d}

    def plot(
        self, axes: Any, flows: Sequence[tkf.Flow], log_density: Callable[..., Any], d: int, fields: Any = None
    ) -> None:
        _Local(flows, log_density, d, fields).plot(axes)


class BackwardHeat(_LocalLimit):
    """Of the velocity fields of SA at growing β, or of others that are given as `fields`, at the points of a grid.

    β v = ∇ log(K_β f), and K_β f = f + Δf/2β + O(β⁻²) on every sphere, so that β v = ∇ log f + ∇(Δf/f)/2β + O(β⁻²)."""

    name = "backward-heat"
    source, number, kind = "bruno2025b", "section 5 in rigollet2025", "theorem"
    says = "As β → ∞ the field of SA at a smooth density f tends to (1/β)∇log f, that of the backward heat equation."
    remark = (
        "The error of β v is ∇(Δf/f)/2β to leading order: the rate is 1/β, and its constant was found to a per cent."
    )

    @staticmethod
    def flow(beta: float) -> tkf.Flow:
        return tkf.sa(beta)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        flows = [tkf.sa(β) for β in BETAS]
        known = {"flows": flows, "log_density": _bumps, "d": 2}
        local = _Local(flows, _bumps, 2, None)
        yield "fields with the other sign", {**known, "fields": [-v for v in local.fields]}
        yield (
            "fields without the projection",
            {**known, "fields": [flow.attention(local.nodes[0], local.x) for flow in flows]},
        )
        yield "another density", {**known, "log_density": lambda x: 0.5 * _bumps(x), "fields": local.fields}
        yield "unnormalized attention", {**known, "flows": [tkf.usa(β, scaled=True) for β in BETAS]}


class BackwardPorousMedium(_LocalLimit):
    """Of the velocity fields of USA at growing β, times e^{-β}(β/2π)^{(d-1)/2}, at the points of a grid; p is the density with
    respect to area.

    β v = ∇ K_β p, and c_l e^{-β}(β/2π)^{(d-1)/2}|S| = 1 - [l(l+d-2) + ((d-2)²-1)/4]/2β + O(β⁻²), so that
    β v = ∇p + ∇(Δp - ((d-2)²-1)/4 p)/2β + O(β⁻²)."""

    name = "backward-porous-medium"
    source, number, kind = "bruno2025b", "section 5 in rigollet2025", "theorem"
    says = (
        "As β → ∞ the field of USA at a smooth density p, times e^(-β)(β/2π)^((d-1)/2), tends to (1/β)∇p, that of the backward "
        "porous medium equation."
    )
    remark = "The error of β v is ∇(Δp - ((d-2)²-1)p/4)/2β to leading order: the rate is 1/β; its constant was found to a per cent."

    @staticmethod
    def flow(beta: float) -> tkf.Flow:
        return tkf.usa(beta, scaled=True)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        flows = [tkf.usa(β, scaled=True) for β in BETAS]
        known = {"flows": flows, "log_density": _bumps, "d": 2}
        local = _Local(flows, _bumps, 2, None)
        yield "fields with the other sign", {**known, "fields": [-v for v in local.fields]}
        yield "fields of SA", {**known, "fields": _Local([tkf.sa(β) for β in BETAS], _bumps, 2, None).fields}
        yield "softmax attention", {**known, "flows": [tkf.sa(β) for β in BETAS]}


class _Local:
    """The fields of flows at a density, by tokens at quadrature nodes; their limit, and the next term."""

    def __init__(self, flows: Sequence[tkf.Flow], log_density: Callable[..., Any], d: int, fields: Any):
        self.d, self.U = d, log_density
        self.kind = flows[0].coupling().kind
        self.betas = np.array([float(flow.coupling().beta) for flow in flows])
        self.x = np.asarray(tkf.Tokens.uniform_sphere(n=64, d=d, seed=0).x)
        self.nodes = [self._nodes(β) for β in self.betas]
        self.fields = (
            [self._field(*pair) for pair in zip(flows, self.nodes, strict=True)] if fields is None else list(fields)
        )
        self.limit, self.next = self._expansion()
        self.errors = np.array(
            [
                np.linalg.norm(β * np.asarray(v) - self.limit, axis=1).max()
                for β, v in zip(self.betas, self.fields, strict=True)
            ]
        )

    def _nodes(self, β: float) -> tkf.Tokens:
        """Modes up to some 7√β matter: enough nodes to integrate products with those of the density exactly."""
        n = int(12 * np.sqrt(β)) + 60
        return tkf.Tokens.quadrature(lambda x: np.exp(np.asarray(self.U(x))), sphere=self.d, n=n)

    def _field(self, flow: tkf.Flow, nodes: tkf.Tokens) -> np.ndarray:
        v, known = np.asarray(tkf.velocity(flow, nodes, self.x)), flow.coupling()
        if known.kind == "sa":
            return v
        β = float(known.beta)
        return v * np.exp(float(known.log_unit) - β) * (β / (2 * np.pi)) ** ((self.d - 1) / 2)

    def _expansion(self) -> tuple[np.ndarray, np.ndarray]:
        """The limit of β v, and what 1/2β multiplies, by automatic differentiation of functions that are constant along rays."""
        import jax
        import jax.numpy as jnp

        area = 2 * np.pi if self.d == 2 else 4 * np.pi

        even = tkf.Tokens.quadrature(lambda x: np.ones(len(x)), sphere=self.d, n=80)
        mass = float(np.asarray(even.w) @ np.exp(np.asarray(self.U(even.x)))) * area

        softmax = self.kind == "sa"
        along = lambda g: (
            lambda x: g(x / jnp.linalg.norm(x))
        )  # its gradient and Laplacian in R^d are those on the sphere
        p = along(lambda x: jnp.exp(self.U(x[None])[0]) / mass)
        laplacian = lambda g: lambda x: jnp.trace(jax.hessian(g)(x))
        first = (lambda x: jnp.log(p(x))) if softmax else p
        shift = 0.0 if softmax else ((self.d - 2) ** 2 - 1) / 4
        second = along(lambda x: laplacian(p)(x) / (p(x) if softmax else 1.0) - shift * p(x))
        slope = lambda g: np.asarray(jax.jit(jax.vmap(jax.grad(g)))(self.x))
        return slope(first), slope(second)

    def findings(self) -> Iterator[Finding]:
        β, errors = self.betas, self.errors
        orders = -np.diff(np.log(errors)) / np.diff(np.log(β))
        drift = abs(orders[-1] - orders[-2])
        on = "the circle" if self.d == 2 else "S²"
        yield Finding(
            f"order in 1/β of the error of β v on {on}",
            predicted=1.0,
            measured=float(orders[-1]),
            tolerance=2 * drift + 1e-6,
            because=f"From one doubling of β to the next the order moves by {drift:.2g}, and what is left halves.",
            rival=0.0,
        )
        constant = np.linalg.norm(self.next, axis=1).max() / 2
        scaled = β * errors
        drift = abs(scaled[-1] - scaled[-2])
        yield Finding(
            f"β times the largest error of β v on {on}",
            predicted=float(constant),
            measured=float(scaled[-1]),
            tolerance=2 * drift + 1e-6 * constant,
            because=f"By the last doubling of β it moved by {drift:.2g}, and its distance from the limit halves.",
            rival=0.0,
        )

    def plot(self, axes: Any) -> None:
        constant = np.linalg.norm(self.next, axis=1).max() / 2
        axes.loglog(self.betas, self.errors, "o", label=f"d = {self.d}: largest error of β v")
        axes.loglog(self.betas, constant / self.betas, "--", lw=1, label=f"d = {self.d}: {constant:.3g}/β")
        axes.set_xticks(self.betas, [f"{β:g}" for β in self.betas])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("β")
        axes.legend(fontsize=7)


def _bumps(x: Any) -> Any:
    """The logarithm of a smooth density on any sphere."""
    return 0.6 * x[:, 0] + 0.5 * x[:, 0] * x[:, 1]


def _kind(flows: Sequence[tkf.Flow], kind: str) -> bool:
    known = [flow.coupling_if_any() for flow in flows]
    return len(flows) >= 3 and all(
        attracting(flow) and one is not None and one.kind == kind and float(one.V) == 1.0
        for flow, one in zip(flows, known, strict=True)
    )


def _doubling(flows: Sequence[tkf.Flow]) -> bool:
    β = np.array([float(flow.coupling().beta) for flow in flows])
    return bool(np.allclose(β[1:], 2 * β[:-1]))
