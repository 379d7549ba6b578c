"""`make docs`: draw the pictures of the documentation with the code that ships."""

import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))


def from_readme(word: str, name: str, image: str, first: str = "") -> None:
    """A picture of the README, by the README's own script: the one that has a word in it."""
    scripts = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    script = next(script for script in scripts if word in script)
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        try:
            exec(first + script, {})
            Path(name).replace(IMAGES / image)
        finally:
            os.chdir(here)


def first() -> None:
    """The README's first picture."""
    from_readme('run.plot("run.png")', "run.png", "first.png")


def phase() -> None:
    """The README's phase diagram."""
    from_readme('phase.plot("phase.png")', "phase.png", "phase.png", "import tokenfield as tkf\n")


def convergence() -> None:
    """Error against tolerance."""
    from tests import naive
    from tests.test_accuracy import problem

    import tokenfield as tkf

    x, w, parameters, _ = problem(3, False, True)
    rtols = 10.0 ** -np.arange(4, 11)
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for ax, (name, t) in zip(figure.subplots(1, 2, sharey=True), {"SA": 6.0, "USA": 60.0}.items(), strict=True):
        exact = naive.solve(x, t, w, 9.0, *parameters, softmax=name == "SA")
        flow = tkf.sa(9.0) if name == "SA" else tkf.usa(9.0, scaled=True)
        for solver, colour in zip(
            ("tsit5", "dopri5", "dopri8", "kvaerno5"), ("#4477aa", "#66ccee", "#ee6677", "#228833"), strict=True
        ):
            runs = [tkf.evolve(flow, tkf.Tokens(x, w), t, save=1, solver=solver, rtol=r) for r in rtols]
            errors = [np.linalg.norm(run.final.x - exact) / np.linalg.norm(exact) for run in runs]
            ax.loglog(
                rtols,
                errors,
                "o-",
                color=colour,
                label=f"{solver} ({int(runs[0].steps)} to {int(runs[-1].steps)} steps)",
            )
        ax.loglog(rtols, rtols, "--", color="#999999", lw=1, label="error = rtol")
        ax.set(title=f"{name}, β = 9, t = {t:g}", xlabel="rtol", ylabel="relative error of the final state")
        ax.legend(frameon=False, fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "convergence.png", dpi=110)


def speed() -> None:
    """Many tokens, and late times."""
    import tokenfield as tkf

    for n, d, end, name in ((1_000_000, 2, 18.0, "million"), (100_000, 3, 16.0, "many_on_sphere")):
        run = tkf.evolve(tkf.sa(20.0), tkf.Tokens.uniform_sphere(n, d, seed=0), t=end, save=37, progress=True)
        print(run)
        run.plot(IMAGES / f"{name}.png")
    start = tkf.Tokens(np.random.default_rng(1).normal(size=(100, 2)))
    tkf.evolve(tkf.sa(9.0), start, t=1e10, coalesce=1e-5, clock="log", save=300).plot(IMAGES / "late.png")
    θ = 0.5 * np.array([0, 0.5, 2, 4, 7]) * np.log(2000) / np.sqrt(2000)
    start = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1))
    run = tkf.evolve(tkf.usa(4000.0, scaled=True), start, t=1e140, coalesce=1e-4, clock="log", save=400)
    run.plot(IMAGES / "staircase.png")


def causal(n: int = 100_000, β: float = 64.0, end: float = 40.0) -> None:
    """Where causal tokens gather: how many are at an angle, over time, and the Rényi centres of the start."""
    import tokenfield as tkf

    flow, start = tkf.Flow(tkf.Causal(tkf.Softmax(β)), tkf.PostLN()), tkf.Tokens.uniform_sphere(n, 2, seed=0)
    times = np.append(0.0, np.geomspace(1e-2, end, 60))
    run = tkf.evolve(flow, start, t=end, save=times, progress=True)
    print(run)
    angles = lambda x: np.arctan2(x[..., 1], x[..., 0])
    θ = angles(np.asarray(run.directions))
    centres, strong = (tkf.observe.renyi_centres(run, beta=β, strong=which) for which in (False, True))
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1), sharey=True)
    edges = np.linspace(-np.pi, np.pi, 361)
    shares = np.stack([np.histogram(row, edges)[0] / n for row in θ[1:]], axis=1)
    mesh = left.pcolormesh(
        times[1:], edges[1:] - np.pi / 360, shares, norm="log", cmap="Greys", vmin=1e-5, rasterized=True
    )
    figure.colorbar(mesh, ax=left, label="share of tokens in a degree")
    for found, colour, label in ((centres, "#66ccee", "centres"), (strong, "#4477aa", "strong centres")):
        lines = θ[1:, found.indices]
        lines = np.where(np.abs(np.diff(lines, axis=0, prepend=lines[:1])) > np.pi, np.nan, lines)
        left.plot(times[1:], lines, color=colour, lw=1.2)
        left.plot([], [], color=colour, label=label)
    left.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
    left.set(xscale="log", xlabel="t", ylabel="angle")
    left.set_yticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
    within = (
        1 - np.min(np.abs((θ[-1][:, None] - θ[-1][centres.indices] + np.pi) % (2 * np.pi) - np.pi), axis=1) * β**0.5
    )
    right.plot(np.arange(n)[:: n // 20_000], θ[-1][:: n // 20_000], ".", ms=1, color="#999999")
    right.plot(centres.indices + 1, θ[-1][centres.indices], "o", ms=4, color="#66ccee")
    right.plot(strong.indices + 1, θ[-1][strong.indices], "o", ms=4, color="#4477aa")
    right.set(xscale="log", xlim=(0.8, n), xlabel="number of the token")
    right.set_title(f"t = {end:g}: {np.mean(within >= 0):.1%} within β$^{{-1/2}}$ of a centre", fontsize=10)
    figure.suptitle(f"{n:,} causal tokens, β = {β:g}", fontsize=11)
    figure.savefig(IMAGES / "causal.png", dpi=110)


def measures() -> None:
    """One run of every measure beyond tokens."""
    import tokenfield as tkf

    tkf.evolve(tkf.Flow(tkf.Softmax(5.0), tkf.PreLN()), tkf.Equiangular(rho=0.0, n=256), t=1e4, save=LATE).plot(
        IMAGES / "equiangular.png"
    )
    flow = tkf.Flow(tkf.Softmax(A=[[0.5, 0.1], [-0.1, 0.2]]))
    tkf.evolve(flow, tkf.Gaussian([0.0, 0.0], [[1.0, 0.3], [0.3, 0.6]]), t=5.0, save=400).plot(IMAGES / "gaussian.png")
    rough = tkf.CircleDensity.from_function(lambda θ: 1 + 0.01 * sum(np.cos(k * θ + k * k) for k in range(1, 9)))
    tkf.evolve(tkf.sa(20.0, kappa=200.0), rough, t=30.0, save=200).plot(IMAGES / "circle.png")
    bumps = np.random.default_rng(4).normal(size=(12, 3))
    lumpy = tkf.SphereDensity.from_function(lambda x: 1 + 0.01 * np.sum(np.cos(4 * x @ bumps.T), axis=1), degree=48)
    tkf.evolve(tkf.sa(9.0, kappa=80.0), lumpy, t=25.0, save=100).plot(IMAGES / "globe.png")


LATE = np.append(0.0, np.geomspace(1e-2, 1e4, 199))


def spectral() -> None:
    """Error of the density solver against the number of modes."""
    import tokenfield as tkf

    starts = {
        "circle": tkf.CircleDensity.from_function(lambda θ: np.exp(0.7 * np.cos(θ - 0.4) + 0.5 * np.sin(2 * θ))),
        "S²": tkf.SphereDensity.from_function(lambda x: np.exp(x @ [0.4, -0.5, 0.8] + x[:, 0] * x[:, 1])),
        "S⁷, zonal": tkf.SphereDensity.von_mises(2.0, d=8, zonal=True),
    }
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    ax = figure.subplots()
    for (name, mu), colour in zip(starts.items(), ("#4477aa", "#ee6677", "#228833"), strict=True):
        final = lambda degree, mu=mu: (
            tkf.evolve(tkf.sa(2.0, kappa=20.0), mu.refined(degree), t=0.5, save=1, rtol=1e-12, refine=False).final
        )
        exact, degrees = final(40), np.arange(4, 33, 4)
        errors = [np.linalg.norm(final(int(n)).refined(40).coefficients - exact.coefficients) for n in degrees]
        ax.semilogy(degrees, errors, "o-", color=colour, label=name)
    ax.set(title="SA, β = 2, κ = 20, t = 0.5", xlabel="highest degree", ylabel="error in L²")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "spectral.png", dpi=110)


def bifurcation() -> None:
    """Stationary states of noisy USA where the transition is first order."""
    import tokenfield as tkf

    tkf.stationary(tkf.usa(5.0), d=2).plot(IMAGES / "bifurcation.png")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    drawings = {f.__name__: f for f in (first, phase, convergence, speed, causal, measures, spectral, bifurcation)}
    for name in sys.argv[1:] or drawings:
        drawings[name]()
