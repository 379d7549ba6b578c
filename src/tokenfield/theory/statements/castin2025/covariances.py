"""Covariances in closed form: limits, their rank, blow-up, and whether L2 attention has any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.castin2025.gaussians import affine, gaussian_run, unlike
from tokenfield.theory.statements.castin2025.stability import bare
from tokenfield.theory.statements.given import flow_of, relabelled, solved, tokens_of
from tokenfield.theory.statements.smoothness import attention_of, norm, quadrature, written


def formed(run: tkf.Trajectory) -> Any:
    """The closed form of a run, or None where there is none."""
    try:
        return tkf.theory.closed_form(flow_of(run), run[0])
    except InputError:
        return None


def stretched(run: tkf.Trajectory) -> float:
    """By how much an error in Σ₀ is larger at the end: Σ = L(I - tN)⁻¹Lᵀ, and an error ε of I - sN is one of ε times the condition
    number of I - tN, and that of Σ₀."""
    form, t = formed(run), float(run.times[-1] - run.times[0])
    values, axes = 1 - t * form.rates, np.sum(form.L**2, axis=0)
    return float(max(abs(values).max(), 1.0) / min(abs(values).min(), 1.0) * axes.max() / axes[axes > 0].min())


KNOWN = "a Gaussian moves by softmax attention alone, in R^d, and V commutes with VA + AᵀVᵀ and Σ₀"


class ClosedForm(Statement):
    name = "gaussian-closed-form"
    source, number, kind = "castin2025", "closed-form analysis", "theorem"
    says = "Where V commutes with M = VA + AᵀVᵀ and Σ₀, softmax attention has Σ(t) = (Σ₀⁻¹ - tM)⁻¹."

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield KNOWN, gaussian_run(run) and formed(run) is not None

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        form, before = formed(run), np.asarray(run.times) - float(run.times[0])
        live = before < form.blow_up_time
        apart = [np.linalg.norm(Σ - form(float(t)), 2) for t, Σ in zip(before[live], run.cov[live], strict=True)]
        size, stretch = float(np.linalg.norm(run.cov[live][-1], 2)), stretched(run[: int(live.sum())])
        late = float(np.linalg.norm(run.cov[live][-1] - run.cov[0], 2)) / size
        yield Finding(
            "largest difference of covariances, in units of the last",
            predicted=0.0,
            measured=float(max(apart)) / size,
            tolerance=2 * solved(run) * stretch,
            because=(
                "Steps err by rtol each in a root of Σ, so that Σ does by twice that, and errors grow by no more than the "
                f"condition numbers of I - tN and Σ₀ ({stretch:.3g})."
            ),
            rival=late,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        d = 3 if small else 16
        A = np.asarray(tkf.Tokens.gaussian(n=d, d=d, seed=1).x) / np.sqrt(d)
        Y = np.asarray(tkf.Tokens.gaussian(n=2 * d, d=d, seed=2).x)
        mu = tkf.Gaussian(np.zeros(d), Y.T @ Y / (2 * d))
        flow = tkf.Flow(tkf.Softmax(A=A))
        end = 0.8 * min(tkf.theory.closed_form(flow, mu).blow_up_time, 5.0)
        yield {"run": tkf.evolve(flow, mu, t=end, save=9)}
        yield {"run": tkf.evolve(tkf.Flow(tkf.Softmax(A=A, V=-0.5)), mu, t=0.5, save=9)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Gaussian([0.0, 0.0], [[1.0, 0.3], [0.3, 0.5]])
        run = tkf.evolve(tkf.Flow(tkf.Softmax(-1.0)), mu, t=1.0, save=5)
        yield "β of the other sign", {"run": relabelled(run, tkf.Flow(tkf.Softmax(-1.1)))}
        L2 = tkf.evolve(tkf.Flow(tkf.L2(0.5)), mu, t=1.0, save=5)
        yield "L2 attention, said to be softmax", {"run": relabelled(L2, tkf.Flow(tkf.Softmax(1.0)))}
        turned = tkf.Flow(tkf.Softmax(V=[[0.0, -1.0], [1.0, 0.0]]))
        yield "a V that does not commute with Σ₀", {"run": tkf.evolve(turned, mu, t=0.5, save=5)}


def directions(run: tkf.Trajectory) -> np.ndarray:
    """The eigenvalues of M = VA + AᵀVᵀ, smallest first; those that are round-off are zero."""
    attention, d = attention_of(run), run.d
    M = written(attention.V, d) @ np.asarray(attention.score(d))
    values = np.linalg.eigvalsh(M + M.T)
    return np.where(abs(values) < 1e-12 * abs(values).max(), 0.0, values)


class LimitRank(Statement):
    """By Weyl's inequalities for Σ⁻¹ = Σ₀⁻¹ + t|M|, as many eigenvalues of Σ(t) as M has negative ones are below 1/(t|m|), |m|
    the least of them in size, and all others stay above the least of Σ₀."""

    name = "gaussian-limit-rank"
    source, number, kind = "castin2025", "closed-form analysis", "theorem"
    says = "Where M = VA + AᵀVᵀ ⪯ 0 the Gaussian lives for ever and loses a rank for every negative eigenvalue of M."
    remark = "How fast is known too: the covariance falls as 1/(|m|t) in a direction that M contracts at m, not exponentially."

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield KNOWN, gaussian_run(run) and formed(run) is not None
        yield "M = VA + AᵀVᵀ has no positive eigenvalue", bool(directions(run)[-1] <= 0)
        yield "Σ₀ has full rank", bool(np.min(run.spectrum[0]) > 0)

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        m, end, t = directions(run), np.asarray(run.spectrum[-1]), float(run.times[-1] - run.times[0])
        left = run.d - int((m < 0).sum())
        below = 1 / (t * abs(m[m < 0]).min()) if left < run.d else 0.0
        above = float(np.min(run.spectrum[0]))
        yield Finding(
            "eigenvalues of Σ that remain",
            predicted=left,
            measured=int((end > np.sqrt(above * below)).sum()) if below > 0 else int((end > above / 2).sum()),
            tolerance=0.0,
            because=f"Weyl: those that fall are below {below:.2g} by now, those that remain above {above:.2g}.",
            unsure=None if below < above / 4 else "It is too early to tell them apart: evolve for longer.",
        )
        if left < run.d:
            yield Finding(
                "least |m| t λ(Σ) among eigenvalues that fall",
                predicted=1.0,
                measured=float(end[left]) * t * abs(m[m < 0]).min(),
                tolerance=float(1 / (t * abs(m[m < 0]).min() * above)) + 2 * solved(run) * stretched(run),
                because=(
                    "Weyl: between 1 and 1/(1 + 1/(|m|tσ)), σ the least variance at the start; steps err by rtol in a root "
                    "of Σ, and errors grow by no more than condition numbers."
                ),
                rival=0.0,
            )

    def case(self, small: bool) -> dict[str, Any]:
        d = 3 if small else 16
        B = np.asarray(tkf.Tokens.gaussian(n=d - 1, d=d, seed=1).x) * np.linspace(0.3, 1.0, d - 1)[:, None]
        mu = tkf.Gaussian(np.zeros(d), np.eye(d) + 0.3 * np.ones((d, d)) / d)
        return {"run": tkf.evolve(tkf.Flow(tkf.Softmax(A=-B.T @ B)), mu, t=1e4, save=5)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Gaussian(np.zeros(3), np.eye(3))
        full = tkf.evolve(tkf.Flow(tkf.Softmax(A=-np.eye(3))), mu, t=1e4, save=5)
        thin = tkf.Flow(tkf.Softmax(A=-np.diag([1.0, 1.0, 0.0])))
        yield "an A of full rank, said to have rank two", {"run": relabelled(full, thin)}
        yield "M of the other sign", {"run": tkf.evolve(tkf.Flow(tkf.Softmax(A=np.eye(3))), mu, t=0.1, save=5)}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        times = np.geomspace(1e-2, float(run.times[-1]), 200)
        lines = axes.loglog(times, [np.linalg.eigvalsh(formed(run)(float(t)))[::-1] for t in times])
        axes.loglog(np.repeat(run.times[1:], run.d), np.asarray(run.spectrum[1:]).ravel(), "ko", ms=3, label="run")
        lines[0].set_label("closed form")
        axes.set_xlabel("t")
        axes.set_ylabel("eigenvalues of Σ")
        axes.legend()


class BlowUp(Statement):
    name = "gaussian-blow-up"
    source, number, kind = "castin2025", "closed-form analysis", "theorem"
    says = (
        "Where M = VA + AᵀVᵀ has a positive eigenvalue, Σ becomes infinite when Σ₀⁻¹ - tM is singular: at 1/(s λ_max(M)) "
        "for Σ₀ = sI."
    )
    remark = "It also needs Σ₀ to have extent in that direction: what counts is Σ₀^(1/2) M Σ₀^(1/2), and a singular Σ₀ may miss it."

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield KNOWN, gaussian_run(run) and formed(run) is not None
        yield "Σ₀^(1/2) M Σ₀^(1/2) has a positive eigenvalue", bool(np.isfinite(formed(run).blow_up_time))

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        form, ended = formed(run), float(run.reached) - float(run.times[0])
        axes = np.sum(form.L**2, axis=0)
        condition = float(axes.max() / axes[axes > 0].min())
        early = run.status.ok and ended < form.blow_up_time
        yield Finding(
            "time at which Σ becomes infinite",
            predicted=form.blow_up_time,
            measured=ended if not run.status.ok else (np.nan if early else np.inf),
            tolerance=2 * int(run.accepted) * run.provenance.rtol * condition * form.blow_up_time,
            because=(
                "A step errs by rtol in a root of Σ, which moves the time by no more than 2 rtol × cond(Σ₀) = "
                f"{condition:.3g} of itself."
            ),
            unsure="The run ended before: evolve beyond the time of the blow-up." if early else None,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        d = 3 if small else 16
        A = np.eye(d) + np.asarray(tkf.Tokens.gaussian(n=d, d=d, seed=1).x)
        yield {
            "run": tkf.evolve(tkf.Flow(tkf.Softmax(A=A)), tkf.Gaussian(np.zeros(d), 0.5 * np.eye(d)), t=100.0, save=5)
        }
        mu = tkf.Gaussian(np.ones(d), np.eye(d) + 0.5 * np.ones((d, d)) / d)
        yield {"run": tkf.evolve(tkf.Flow(tkf.Softmax(A=A)), mu, t=100.0, save=5)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu, A = tkf.Gaussian(np.zeros(3), 0.5 * np.eye(3)), np.diag([1.0, 0.5, -1.0])
        run = tkf.evolve(tkf.Flow(tkf.Softmax(A=A)), mu, t=100.0, save=5)
        yield "scores said to be smaller", {"run": relabelled(run, tkf.Flow(tkf.Softmax(0.99, A=A)))}
        L2 = tkf.evolve(tkf.Flow(tkf.L2()), mu, t=10.0, save=5)
        yield "L2 attention, said to be softmax", {"run": relabelled(L2, tkf.Flow(tkf.Softmax(2.0)))}
        yield "M negative", {"run": tkf.evolve(tkf.Flow(tkf.Softmax(A=-np.eye(3))), mu, t=1.0, save=5)}


class RankOne(Statement):
    """Of Gaussians, or of tokens that stand for one, say by quadrature: the second axis of their covariance beside the first."""

    name = "rank-one"
    source, number, kind = "castin2025", "closed-form analysis", "theorem"
    says = "A Gaussian on a line stays on a line, whatever Q, K and V are: the rank of Σ never grows."
    remark = (
        "The rank cannot fall either before the limit t = ∞, since Σ = ΦΣ₀Φᵀ with an invertible Φ. The statement is one about "
        "Gaussians: atoms at 0, u and 3u leave their line under a V that turns, to 4% of their extent by t = 1."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        yield (
            "it moves by attention alone, in R^d, of a kind whose field is affine",
            bare(flow) and affine(flow.attention),
        )
        yield "the start has rank one", bool(flatness(run, 0) < 1e-12)
        stand = "tokens stand for a Gaussian: their field is its, to one in a thousand"
        yield stand, gaussian_run(run) or self._off(run) < 1e-3

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        end = run[-1] if gaussian_run(run) else tkf.Gaussian.of(tokens_of(run).final)
        growth = float(np.sqrt(np.max(end.spectrum) / np.max(ranked(run, 0))))
        off = 0.0 if gaussian_run(run) else self._off(run)
        yield Finding(
            f"second axis of Σ over the first at the end, {type(run.states).__name__}",
            predicted=0.0,
            measured=flatness(run, -1),
            tolerance=max(growth, 1 / growth) * (solved(run) + off),
            because=(
                "Steps err by rtol each; tokens that stand for a Gaussian have a field that differs from an affine one by "
                f"{off:.1g} in the mean square, over the time of the run; both grow as the Gaussian does ({growth:.3g})."
            ),
            rival=1.0,
        )

    def _off(self, run: tkf.Trajectory) -> float:
        """How far the field of quadrature tokens is from that of their Gaussian, times the time, in units of their extent."""
        t, size = float(run.times[-1] - run.times[0]), np.sqrt(float(np.max(ranked(run, 0))))
        return t / size * unlike(flow_of(run), run[0], tkf.Gaussian.of(run[0]))

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        u = np.array([1.0, 0.5])
        mu, V = tkf.Gaussian([0.3, -0.4], 0.5 * np.outer(u, u)), [[0.0, -1.0], [1.0, 0.2]]
        for attention in (tkf.Softmax(A=[[0.3, 0.4], [-0.2, 0.1]], V=V), tkf.L2(V=V)):
            yield {"run": tkf.evolve(tkf.Flow(attention), mu, t=1.0, save=3)}
            yield {"run": tkf.evolve(tkf.Flow(attention), quadrature(mu, 40), t=1.0, save=3, rtol=1e-8)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        u, V = np.array([1.0, 0.5]), [[0.0, -1.0], [1.0, 0.2]]
        flow = tkf.Flow(tkf.Softmax(A=[[3.0, 4.0], [-2.0, 1.0]], V=V))
        yield (
            "three atoms, no Gaussian",
            {"run": tkf.evolve(flow, tkf.Tokens(np.outer([0.0, 1.0, 3.0], u)), t=1.0, save=3)},
        )
        yield "a Gaussian of rank two", {"run": tkf.evolve(flow, tkf.Gaussian([0.0, 0.0], np.eye(2)), t=0.1, save=3)}
        noisy = tkf.evolve(
            tkf.Flow(tkf.Softmax(V=V), kappa=100.0), tkf.Gaussian([0.0, 0.0], np.outer(u, u)), t=0.1, save=3
        )
        yield "noise, not told", {"run": relabelled(noisy, tkf.Flow(tkf.Softmax(V=V)))}


def ranked(run: tkf.Trajectory, index: int) -> np.ndarray:
    """Eigenvalues of the covariance of a state, the largest first."""
    mu = run[index]
    return np.asarray((mu if isinstance(mu, tkf.Gaussian) else tkf.Gaussian.of(mu)).spectrum)


def flatness(run: tkf.Trajectory, index: int) -> float:
    """The second axis of a state beside the first; of tokens by their singular values, which see more than squares do."""
    mu = run[index]
    if isinstance(mu, tkf.Gaussian):
        values = ranked(run, index)
        return float(values[1] / values[0])
    w = np.asarray(mu.w)
    spread = np.sqrt(w)[:, None] * (np.asarray(mu.x) - w @ np.asarray(mu.x))
    values = np.linalg.svd(spread, compute_uv=False)
    return float(values[1] / values[0])


def l2_rate(attention: Any, d: int) -> float:
    """b with ‖B‖ ≤ b: B = V(Σ⁻¹/2β + KᵀK)⁻¹KᵀQ and (Σ⁻¹/2β + KᵀK)⁻¹ ⪯ (KᵀK)⁻¹."""
    Q, K = written(attention.Q, d), written(attention.K, d)
    return norm(attention.V, d) * float(np.linalg.norm(np.linalg.inv(K.T @ K), 2) * np.linalg.norm(K.T @ Q, 2))


class NoBlowUp(Statement):
    """tr Σ grows no faster than e^(2bt), b = ‖V‖‖(KᵀK)⁻¹‖‖KᵀQ‖, since the slope B of the field is no larger than b however large
    Σ is."""

    name = "l2-never-blows-up"
    source, number, kind = "castin2025", "comparing attention variants", "theorem"
    says = "Under L2 attention whose K has no kernel, a Gaussian never becomes infinite in finite time."
    remark = (
        "The source has no condition on K. There has to be one: where K has a kernel, as every head of dimension below d "
        "has, the covariance can become infinite (see l2-thin-keys). With KᵀK invertible it grows at most like e^(2bt), b = "
        "‖V‖‖(KᵀK)⁻¹‖‖KᵀQ‖; for Q = K = V = I, b = 1 is attained as Σ grows."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        l2 = bare(flow) and isinstance(flow.attention, tkf.L2) and flow.timeless
        yield "a Gaussian moves by L2 attention alone, in R^d, whose parameters do not change", gaussian_run(run) and l2
        K = written(attention_of(run).K, run.d)
        yield "K has no kernel", len(K) >= run.d and float(np.linalg.cond(K)) < 1e12

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        exact = "Whether a run came to its end is known."
        yield Finding("whether the run came to its end", 1.0, float(run.status.ok), 0.0, exact)
        b, t = l2_rate(flow_of(run).attention, run.d), np.asarray(run.times[1:]) - float(run.times[0])
        used = np.log(np.asarray(run.trace[1:]) / float(run.trace[0])) / (2 * b * t)
        yield Finding(
            "rate of log tr Σ, in units of its bound 2b",
            predicted=1.0,
            measured=float(used.max()),
            tolerance=float((2 * solved(run) / (2 * b * t)).max()),
            because="Steps err by rtol each in a root of Σ, and so does log tr Σ by twice that, over 2bt.",
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        mu = tkf.Gaussian([0.1, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        t = 20.0 if small else 100.0
        yield {"run": tkf.evolve(tkf.Flow(tkf.L2()), mu, t=t, save=9)}
        yield {
            "run": tkf.evolve(
                tkf.Flow(tkf.L2(2.0, Q=[[1.0, 2.0], [0.0, 1.0]], K=[[1.0, 0.5], [0.0, 1.0]])), mu, t=5.0, save=9
            )
        }

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Gaussian([0.1, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        soft = tkf.evolve(tkf.Flow(tkf.Softmax()), mu, t=20.0, save=9)
        yield "softmax attention, said to be L2", {"run": relabelled(soft, tkf.Flow(tkf.L2()))}
        yield "keys that have a kernel", {"run": thin_run(tkf.Gaussian([0.0, 0.0], mu.cov))}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        b, t = l2_rate(flow_of(run).attention, run.d), np.asarray(run.times)
        (line,) = axes.semilogy(t, run.trace, "o-", ms=3, label=f"tr Σ, b = {b:.3g}")
        axes.semilogy(t, float(run.trace[0]) * np.exp(2 * b * t), "--", color=line.get_color())
        axes.set_xlabel("t")
        axes.legend()


def thin_run(mu: tkf.Gaussian) -> tkf.Trajectory:
    """L2 attention that looks for the first coordinate by the second, and moves the second alone."""
    flow = tkf.Flow(tkf.L2(1.0, Q=[[0.0, 1.0]], K=[[1.0, 0.0]], V=np.diag([0.0, 1.0])))
    return tkf.evolve(flow, mu, t=50.0, save=9)


class ThinKeys(Statement):
    """K = kᵀ and Q = qᵀ are rows, kᵀV = 0 and qᵀV = v qᵀ. Then a = kᵀΣk stays, and c = qᵀΣk has ċ = v c²/(1/2β + a)."""

    name = "l2-thin-keys"
    source, number, kind = "castin2025", "against comparing attention variants", "identity"
    says = (
        "Under L2 attention with one key kᵀy and one query qᵀx, kᵀV = 0 and qᵀV = vqᵀ, Σ is infinite at t* = (1/2β + "
        "kᵀΣ₀k)/(v qᵀΣ₀k)."
    )
    remark = "A counterexample to “L2 does not blow up in finite time”, which needs K to have no kernel (see l2-never-blows-up)."

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        l2 = bare(flow) and isinstance(flow.attention, tkf.L2) and flow.timeless
        yield "a Gaussian moves by L2 attention alone, in R^d, whose parameters do not change", gaussian_run(run) and l2
        attention = attention_of(run)
        q, k, V = (written(part, run.d) for part in (attention.Q, attention.K, attention.V))
        yield "there is one query and one key", len(q) == 1 == len(k)
        yield "kᵀV = 0, and q is an eigenvector of Vᵀ", float(abs(k @ V).max()) < 1e-12 and self._turned(q, V) < 1e-12
        yield "v qᵀΣ₀k is positive", bool((q @ V @ np.asarray(run.cov[0]) @ k.T).item() > 0)

    def _turned(self, q: np.ndarray, V: np.ndarray) -> float:
        return float(np.abs(q @ V - (q @ V @ q.T) / (q @ q.T) * q).max())

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        attention, Σ = attention_of(run), np.asarray(run.cov[0])
        q, k, V = (written(part, run.d) for part in (attention.Q, attention.K, attention.V))
        star = float(((0.5 / float(attention.beta) + k @ Σ @ k.T) / (q @ V @ Σ @ k.T)).item())
        ended = float(run.reached) - float(run.times[0])
        early, condition = run.status.ok and ended < star, float(np.linalg.cond(Σ))
        yield Finding(
            "time at which Σ becomes infinite",
            predicted=star,
            measured=ended if not run.status.ok else (np.nan if early else np.inf),
            tolerance=2 * int(run.accepted) * run.provenance.rtol * condition * star,
            because=(
                "A step errs by rtol in a root of Σ, which moves the time by no more than 2 rtol × cond(Σ₀) = "
                f"{condition:.3g} of itself."
            ),
            unsure="The run ended before: evolve beyond the time of the blow-up." if early else None,
        )

    def case(self, small: bool) -> dict[str, Any]:
        return {"run": thin_run(tkf.Gaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]]))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Gaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        thin = thin_run(mu)
        keys = {"Q": [[0.0, 1.0]], "K": [[1.0, 0.0]], "V": np.diag([0.0, 1.0])}
        yield "another β than said", {"run": relabelled(thin, tkf.Flow(tkf.L2(2.0, **keys)))}
        full = tkf.evolve(tkf.Flow(tkf.L2()), mu, t=5.0, save=5)
        yield "keys without a kernel, said to have one", {"run": relabelled(full, tkf.Flow(tkf.L2(1.0, **keys)))}
        yield "keys without a kernel", {"run": full}
