"""What a run has to say for itself."""

import math

import numpy as np

from tokenfield import observe
from tokenfield.attention import Unnormalized
from tokenfield.measures import AbstractDensity, AbstractMeasure, Equiangular, Gaussian, Tokens
from tokenfield.observe.energies import energy_beta
from tokenfield.parameters import scheduled
from tokenfield.status import Status
from tokenfield.trajectory import Trajectory

LARGEST_TOLD = 20_000
"""Tokens up to which clusters are counted for the story where the count visits pairs: beyond three dimensions."""


def story(run: Trajectory) -> str:
    """A few lines that tell what moved, how it was solved and what came of it."""
    how = run.provenance
    lines = [
        f"Trajectory of {_measure(run[0])}",
        f"  flow     {str(run.flow).removeprefix('Flow: ') if run.flow is not None else 'not one of the library'}",
        f"  time     {float(run.times[0]):g} to {float(run.times[-1]):.6g}, {len(run)} states saved; "
        f"{run.status.name.lower()}",
        f"  solver   {_solver(run)}, {_sums(how.summation)}{run.states.dtype}",
        *(f"  {name:<8} {told}" for name, told in _changes(run)),
    ]
    if how.accuracy is not None:
        lines.append(f"  accuracy velocities at the end agree with dense sums in float64 to {how.accuracy:.0e}")
    if not run.status.ok:
        lines.append(f"  note     {run.message}")
    if math.isfinite(how.seconds):
        seeds = {"seed": how.seed, "seed of the noise": how.noise}
        told = "".join(f", {name} {seed}" for name, seed in seeds.items() if seed is not None)
        lines.append(f"  took     {how.seconds:.3g} s, {how.created}{told}")
    return "\n".join(lines)


def story_of_many(runs: Trajectory) -> str:
    """A few lines about a batch: how many runs of what, how they ended, what they cost."""
    how, shape = runs.provenance, " × ".join(map(str, runs.batch))
    first, last = (runs.member(*[i] * len(runs.batch)) for i in (0, -1))
    lines = [
        f"Ensemble of {shape} runs, each of {_measure(first[0])}",
        f"  flow     {_flows(first, last)}",
        f"  time     {float(np.min(runs.times)):g} to {float(np.max(runs.times)):.6g}, {len(runs)} states saved",
        f"  ended    {_endings(runs)}",
        f"  solver   {how.solver}, rtol {how.rtol:g}: {_steps(runs)}, {f'{how.summation} sums, ' if how.summation else ''}"
        f"{runs.states.dtype}",
    ]
    if not runs.status.ok:
        lines.append(f"  note     the worst: {runs.message[0].lower()}{runs.message[1:]}")
    if math.isfinite(how.seconds):
        lines.append(f"  took     {how.seconds:.3g} s, {how.created}")
    return "\n".join(lines)


def _flows(first: Trajectory, last: Trajectory) -> str:
    told = [
        str(run.flow).removeprefix("Flow: ") if run.flow is not None else "not one of the library"
        for run in (first, last)
    ]
    return told[0] if told[0] == told[1] else f"{told[0]}; to {told[1]}"


def _endings(runs: Trajectory) -> str:
    """How many ended how, and those that ended early when."""
    codes, reached = np.ravel(np.asarray(runs.code)), np.ravel(np.asarray(runs.reached))
    told = []
    for code in np.unique(codes):
        times = reached[codes == code]
        when = (
            ""
            if code == Status.COMPLETED
            else f" at t = {times.min():.6g}" + (f" to {times.max():.6g}" if times.max() > times.min() else "")
        )
        told.append(f"{len(times)} {Status(int(code)).name.lower()}{when}")
    return ", ".join(told)


def _steps(runs: Trajectory) -> str:
    steps = np.asarray(runs.steps)
    return f"{steps.min()} to {steps.max()} steps, median {np.median(steps):g}"


def _solver(run: Trajectory) -> str:
    how = run.provenance
    if how.solver == "layers":
        return f"discrete depth, {int(run.steps)} layers"
    return f"{how.solver}, rtol {how.rtol:g}: {int(run.steps)} steps ({int(run.rejected)} rejected)"


def _sums(told: str) -> str:
    """ "dense sums, ", "circle sums with 96 modes, "; nothing where none were needed."""
    name, _, rest = told.partition(", ")
    return f"{name} sums{f' with {rest}' if rest else ''}, " if told else ""


def _measure(mu: AbstractMeasure) -> str:
    if not isinstance(mu, Tokens):
        return repr(mu)
    return repr(mu).removeprefix("Tokens(").removesuffix(")").replace("n=", "n = ").replace("d=", "d = ")


def _changes(run: Trajectory) -> list[tuple[str, str]]:
    """What the measure looked like at the start and at the end."""
    tell = {Equiangular: _cosine, Gaussian: _covariance}
    if isinstance(run.states, AbstractDensity):
        return _density(run)
    return tell.get(type(run.states), _tokens)(run)


def _cosine(run: Trajectory) -> list[tuple[str, str]]:
    gaps = [float(run.log_gap[i]) / math.log(10) for i in (0, -1)]
    told = [
        (
            "cosine",
            f"from {float(run.rho[0]):.6g} to {float(run.rho[-1]):.6g}; 1 - ρ from {_power(gaps[0])} to {_power(gaps[1])}",
        )
    ]
    if float(run.r[-1]) != float(run.r[0]):
        told.append(("length", f"r from {float(run.r[0]):.4g} to {float(run.r[-1]):.4g}"))
    return told


def _power(exponent: float) -> str:
    """10^exponent, also where that is no number of the machine."""
    return f"{10**exponent:.4g}" if exponent > -300 else f"10^{exponent:.1f}"


def _covariance(run: Trajectory) -> list[tuple[str, str]]:
    spectra = ["(" + ", ".join(f"{value:.4g}" for value in np.asarray(run.spectrum[i])[:5]) + ")" for i in (0, -1)]
    ranks = [int(run.states.rank()[i]) for i in (0, -1)]
    return [
        ("spectrum", f"of Σ from {spectra[0]} to {spectra[1]}"),
        ("rank", f"from {ranks[0]} to {ranks[1]}; |mean| from {_size(run.mean[0])} to {_size(run.mean[-1])}"),
    ]


def _size(vector: object) -> str:
    return f"{float(np.linalg.norm(np.asarray(vector))):.4g}"


def _density(run: Trajectory) -> list[tuple[str, str]]:
    told = [
        ("order", f"R = |∫x dμ| from {float(run.order[0]):.6g} to {float(run.order[-1]):.6g}"),
        ("entropy", f"from {float(run.entropy[0]):.4g} to {float(run.entropy[-1]):.4g}"),
    ]
    if run.flow is not None and isinstance(run.flow.attention, Unnormalized) and not scheduled(run.flow):
        F = np.asarray(run.states.free_energy(run.flow))
        told.append(("energy", f"free energy from {F[0]:.6g} to {F[-1]:.6g}"))
    drift, tail = float(np.max(abs(np.asarray(run.mass) - 1))), float(np.max(np.asarray(run.tail)))
    told.append(
        (
            "checks",
            f"mass to {drift:.0e}, least value {float(np.min(np.asarray(run.least))):.2g}, spectrum's tail {tail:.0e}",
        )
    )
    return told


def _tokens(run: Trajectory) -> list[tuple[str, str]]:
    told, first, last = [], run[0], run.final
    if first.n > 1 and min(float(first.radii.min()), float(last.radii.min())) > 0:
        before, after = float(observe.mean_overlap(first)), float(observe.mean_overlap(last))
        told.append(("overlap", f"mean cosine of two tokens from {before:.3f} to {after:.3f}"))
        if first.n <= LARGEST_TOLD or first.d <= 3:
            before, after = observe.clusters(first), observe.clusters(last)
            told.append(("clusters", f"{len(before)} at first, then {after}"))
    if run.mergers is not None:
        told.append(("mergers", repr(run.mergers)))
    beta = energy_beta(run)
    if beta is not None and (first.n <= LARGEST_TOLD or first.d <= 3) and np.allclose(np.asarray(last.radii), 1):
        share = [float(2 * beta * observe.energy(mu, beta, scaled=True)) for mu in (first, last)]
        told.append(("energy", f"from {share[0]:.3g} to {share[1]:.3g} of one cluster's"))
    return told
