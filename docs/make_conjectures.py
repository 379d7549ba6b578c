"""The pictures of docs/conjectures.md, by the code of that page, and the numbers that it reports."""

import collections
import doctest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import tokenfield as tkf

DOCS = Path(__file__).resolve().parent
COLOURS = ("#bbbbbb", "#66ccee", "#4477aa", "#222255", "#ee6677")


def page() -> dict[str, Any]:
    """What the page defines: its functions, classes, flow and density."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples((DOCS / "conjectures.md").read_text(encoding="utf-8")):
        if example.source.startswith(("import", "from", "class", "def", "flow")):
            exec(example.source, names)
    return names


def law(theirs: dict[str, Any]) -> tuple[list[int], np.ndarray]:
    """Sizes, and times of parting at full size."""
    claim = theirs["Parting"]()
    inputs = claim.case(small=False)
    print(claim.check(**inputs))
    return inputs["sizes"], np.array(inputs["times"])


def largest(run: tkf.Trajectory, theirs: dict[str, Any]) -> np.ndarray:
    return np.array([np.abs(theirs["moments"](run[k])).max() for k in range(len(run.times))])


def mean_field() -> None:
    theirs = page()
    flow, density = theirs["flow"], theirs["density"]
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for n, colour in zip((100, 1_000, 10_000, 100_000), COLOURS, strict=False):
        run = tkf.evolve(flow, tkf.Tokens.uniform_sphere(n, d=2, seed=0), t=12.0, save=61, rtol=1e-4)
        left.semilogy(run.times, largest(run, theirs), color=colour, label=f"n = {n:,}")
    times, γ = np.linspace(0, 7, 2), float(tkf.theory.growth_rates(flow, d=2, degree=12).max())
    left.semilogy(times, 0.004 * np.exp(γ * times), "k:", lw=1, label=f"$e^{{{γ:.2f}t}}$")
    left.set(xlabel="t", ylabel="largest moment, from uniform tokens", ylim=(2e-3, 1.2))
    sizes, partings = law(theirs)
    middle.errorbar(
        sizes, partings.mean(axis=1), 2 * partings.std(axis=1, ddof=1) / np.sqrt(8), fmt="o", color=COLOURS[2]
    )
    level = np.mean(partings.mean(axis=1) - np.log(sizes) / (2 * γ))
    middle.semilogx(sizes, level + np.log(sizes) / (2 * γ), "k:", lw=1, label="slope 1/(2γ)")
    middle.set(xlabel="n", ylabel="time of parting")
    limit = tkf.evolve(flow, density, t=12.0, save=49)
    for n, colour in zip((100, 1_000, 10_000, 100_000), COLOURS, strict=False):
        run = tkf.evolve(flow, density.sample(n, seed=0), t=float(limit.reached), save=limit.times, rtol=1e-4)
        distances = np.asarray(tkf.observe.wasserstein(run, limit))
        right.semilogy(run.times, distances, color=colour, label=f"{n:,} drawn")
        print(n, "drawn: W2 at t = 0, 4, 8, 12:", distances[[0, 16, 32, 48]].round(4))
    nodes = tkf.evolve(flow, tkf.Tokens.quadrature(density, n=512), t=float(limit.reached), save=limit.times)
    distances = np.asarray(tkf.observe.wasserstein(nodes, limit))
    print("nodes: W2 at t = 0, 4, 8, 12:", distances[[0, 16, 32, 48]], limit.status.name, float(limit.reached))
    right.semilogy(nodes.times, distances, color=COLOURS[4], label=f"{nodes.n:,} nodes")
    right.set(xlabel="t", ylabel="$W_2$ to the density, from $1 + \\cos(θ)/2$")
    for axes in (left, middle, right):
        axes.legend(frameon=False, fontsize=8, loc="upper left" if axes is middle else None)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "mean-field.png", dpi=110)


def fates() -> None:
    """How many clusters there are in the end: of tokens, and of the nodes that stand for the density."""
    theirs = page()
    flow, density = theirs["flow"], theirs["density"]
    for t in (8.0, 30.0, 100.0, 1000.0):
        count = lambda start, t=t: len(tkf.observe.clusters(tkf.evolve(flow, start, t=t, save=2, rtol=1e-4).final))
        drawn = {n: [count(density.sample(n, seed=seed)) for seed in range(5)] for n in (100, 1_000)}
        print(f"clusters at t = {t:g}: drawn {drawn}; nodes {count(tkf.Tokens.quadrature(density, n=512))}")


def block(a: float, b: float) -> np.ndarray:
    return np.array([[a, -b, 0.0], [b, a, 0.0], [0.0, 0.0, -0.3]])


SPECTRA = {
    "1, 0.6, -0.3": np.diag([1.0, 0.6, -0.3]),
    "1, 0.6, 0.3": np.diag([1.0, 0.6, 0.3]),
    "1, 0.5 ± 0.7i": np.array([[1.0, 0.0, 0.0], [0.0, 0.5, -0.7], [0.0, 0.7, 0.5]]),
    "1, 1, -0.3": np.diag([1.0, 1.0, -0.3]),
    "1 ± 0.7i, -0.3": block(1.0, 0.7),
}


def in_random_basis(V: np.ndarray, seed: int) -> np.ndarray:
    """A matrix of the same spectrum, in a basis of condition three."""
    rng = np.random.default_rng(seed)
    turn = lambda: np.linalg.qr(rng.normal(size=V.shape))[0]
    S = turn() @ np.diag([1.0, 2.0, 3.0]) @ turn()
    return S @ V @ np.linalg.inv(S)


def table() -> None:
    """Verdicts on ThreePlaces over spectra, bases and starts; runs that were stopped count as such."""
    theirs = page()
    claim = theirs["ThreePlaces"]()
    for name, V in SPECTRA.items():
        for basis in ("own", "random"):
            verdicts: collections.Counter[str] = collections.Counter()
            for seed in range(10):
                start = tkf.Tokens.uniform_box(n=40, d=3, low=-5.0, high=5.0, seed=seed)
                run = theirs["rescaled"]([V if basis == "own" else in_random_basis(V, seed)], [start])[0, 0]
                done = run.status.name == "COMPLETED"
                verdicts[claim.check(run).outcome.name if done else "stopped"] += 1
            print(
                f"| {name} | {basis} | {', '.join(f'{count} {word}' for word, count in verdicts.items())} |", flush=True
            )


def codimension() -> None:
    start = tkf.Tokens.uniform_box(n=40, d=3, low=-5.0, high=5.0, seed=1)
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, 3), ("1, 0.6, -0.3", "1, 1, -0.3", "1 ± 0.7i, -0.3"), strict=True):
        run = tkf.evolve(
            tkf.Flow(tkf.Softmax(1.0, V=SPECTRA[name]), tkf.Rescaled()), start, t=12.0, save=241, rtol=1e-8
        )
        u = np.asarray(run.x)[..., :2]
        axes.plot(u[..., 0], u[..., 1], color="#cccccc", lw=0.6)
        axes.plot(*u[0].T, ".", color="#66ccee", ms=4, label="start")
        axes.plot(*u[-1].T, "o", color="#ee6677", ms=4, label="t = 12")
        axes.set(title=f"eigenvalues {name}", xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(DOCS / "images" / "codimension.png", dpi=110)


if __name__ == "__main__":
    codimension()
    table()
    mean_field()
    fates()
