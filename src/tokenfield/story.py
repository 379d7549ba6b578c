"""What a run has to say for itself."""

import functools
import math
from typing import Any

import numpy as np

from tokenfield import data, observe
from tokenfield.measures import AbstractDensity, AbstractMeasure, Equiangular, Gaussian, Tokens
from tokenfield.observe.energies import energy_beta, free_energies
from tokenfield.status import Status
from tokenfield.trajectory import Trajectory

Line = tuple[str, str]
"""A word and what there is to say about it."""

LARGEST_COUNTED = 20_000
"""Tokens up to which clusters are counted for the story where the count visits pairs: beyond three dimensions."""


def story(run: Trajectory) -> str:
    """A few lines that tell what moved, how it was solved and what came of it; of a batch, of all its runs."""
    return _many(run) if run.batch else _one(run)


def _one(run: Trajectory) -> str:
    how = run.provenance
    lines = [
        f"Trajectory of {_measure(_first(run))}",
        f"  flow     {_flow(run)}",
        f"  time     {float(run.times[0]):g} to {float(run.times[-1]):.6g}, {_kept(run)}; {run.status.name.lower()}",
        f"  solver   {_solver(run)}, {_sums(how.summation)}{run.states.dtype}",
        *(
            f"  {name:<8} {text}"
            for name, text in (changes(run.states, run) if run.observed is None else _observed(run))
        ),
    ]
    if how.accuracy is not None:
        lines.append(f"  accuracy velocities at the end agree with dense sums in float64 to {how.accuracy:.0e}")
    if not run.status.ok:
        lines.append(f"  note     {run.message}")
    if math.isfinite(how.seconds):
        seeds = {"seed": how.seed, "seed of the noise": how.noise}
        known = "".join(f", {name} {seed}" for name, seed in seeds.items() if seed is not None)
        lines.append(f"  took     {how.seconds:.3g} s, {how.created}{known}")
    return "\n".join(lines)


def _many(runs: Trajectory) -> str:
    """A few lines about a batch: how many runs of what, how they ended, what they cost."""
    how, shape = runs.provenance, " × ".join(map(str, runs.batch))
    first, last = (runs.member(*[i] * len(runs.batch)) for i in (0, -1))
    lines = [
        f"Ensemble of {shape} runs, each of {_measure(_first(first))}",
        f"  flow     {_flows(first, last)}",
        *(f"  varies   {line}" for line in _varying(runs)),
        f"  time     {float(np.min(runs.times)):g} to {float(np.max(runs.times)):.6g}, {_kept(runs)}",
        f"  ended    {_endings(runs)}",
        f"  solver   {how.solver}, rtol {how.rtol:g}: {_steps(runs)}, {f'{how.summation} sums, ' if how.summation else ''}"
        f"{runs.states.dtype}",
    ]
    if runs.observed is not None:
        lines += [f"  {name:<8} {text}" for name, text in _observed(runs)]
    if runs.mergers is not None:
        lines.append(f"  mergers  {runs.mergers!r}")
    if not runs.status.ok:
        lines.append(f"  note     the worst: {runs.message[0].lower()}{runs.message[1:]}")
    if math.isfinite(how.seconds):
        lines.append(f"  took     {how.seconds:.3g} s, {how.created}")
    return "\n".join(lines)


def _first(run: Trajectory) -> AbstractMeasure:
    return run[0] if run.observed is None else run.final


def _flow(run: Trajectory) -> str:
    if run.flow is None:
        return "not known" if run.provenance.solver == "given" else "not one of the library"
    return str(run.flow).removeprefix("Flow: ")


def _kept(run: Trajectory) -> str:
    return f"{len(run)} states saved" if run.observed is None else f"observed {len(run)} times"


def _observed(run: Trajectory) -> list[Line]:
    """Observables at the first time and at the last; of a batch, the mean over its members."""
    lines = []
    for name, values in (run.observed or {}).items():
        array = np.asarray(values, float)
        if array.shape != run.times.shape:
            lines.append((name, f"an array of shape {array.shape[len(run.times.shape) :]}"))
            continue
        ends = [array[..., i].mean() for i in (0, -1)]
        lines.append((name, f"{'on average ' if run.batch else ''}from {ends[0]:.6g} to {ends[1]:.6g}"))
    return lines


def _varying(runs: Trajectory) -> list[str]:
    """What varies along which axis."""
    lines = []
    for name, (axis, values) in data.coordinates(runs).items():
        if values.dtype.kind in "if":
            lines.append(f"{name} from {np.nanmin(values):g} to {np.nanmax(values):g}, by {axis}")
        else:
            words = list(dict.fromkeys(values.tolist()))
            lines.append(f"{name}: {', '.join(words[:4])}{', ...' if len(words) > 4 else ''}, by {axis}")
    return lines


def _flows(first: Trajectory, last: Trajectory) -> str:
    ends = [_flow(run) for run in (first, last)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}; to {ends[1]}"


def _endings(runs: Trajectory) -> str:
    """How many ended how, and those that ended early when."""
    codes, reached = np.ravel(np.asarray(runs.code)), np.ravel(np.asarray(runs.reached))
    endings = []
    for code in np.unique(codes):
        times = reached[codes == code]
        when = (
            ""
            if code == Status.COMPLETED
            else f" at t = {times.min():.6g}" + (f" to {times.max():.6g}" if times.max() > times.min() else "")
        )
        endings.append(f"{len(times)} {Status(int(code)).name.lower()}{when}")
    return ", ".join(endings)


def _steps(runs: Trajectory) -> str:
    steps = np.asarray(runs.steps)
    return f"{steps.min()} to {steps.max()} steps, median {np.median(steps):g}"


def _solver(run: Trajectory) -> str:
    how = run.provenance
    if how.solver == "given":
        return "none: the states were given"
    if how.solver == "layers":
        return f"discrete depth, {int(run.steps)} layers"
    return f"{how.solver}, rtol {how.rtol:g}: {int(run.steps)} steps ({int(run.rejected)} rejected)"


def _sums(summation: str) -> str:
    """ "dense sums, ", "circle sums with 96 modes, "; nothing where none were needed."""
    name, _, rest = summation.partition(", ")
    threads = ", last digits by the number of threads" if name == "sphere" else ""
    return f"{name} sums{f' with {rest}' if rest else ''}{threads}, " if summation else ""


@functools.singledispatch
def _measure(mu: Any) -> str:
    """What moved. A kind of measure may have words of its own."""
    return repr(mu)


@_measure.register
def _so_many(mu: Tokens) -> str:
    return repr(mu).removeprefix("Tokens(").removesuffix(")").replace("n=", "n = ").replace("d=", "d = ")


@functools.singledispatch
def changes(states: Any, run: Trajectory) -> list[Line]:
    """What the measure looked like at the start and at the end. A kind of measure may have words of its own; else its
    `quantities` are listed."""
    ends = lambda name: [float(np.ravel(np.asarray(getattr(states, name)))[i]) for i in (0, -1)]
    return [(name, "from {:.6g} to {:.6g}".format(*ends(name))) for name in states.quantities]


@changes.register
def _cosine(states: Equiangular, run: Trajectory) -> list[Line]:
    gaps = [float(states.log_gap[i]) / math.log(10) for i in (0, -1)]
    rho = [float(states.rho[i]) for i in (0, -1)]
    cosine = f"from {rho[0]:.6g} to {rho[1]:.6g}; 1 - ρ from {_power(gaps[0])} to {_power(gaps[1])}"
    r = [float(states.r[i]) for i in (0, -1)]
    return [("cosine", cosine)] + ([("length", f"r from {r[0]:.4g} to {r[1]:.4g}")] if r[0] != r[1] else [])


def _power(exponent: float) -> str:
    """10^exponent, also where that is no number of the machine."""
    return f"{10**exponent:.4g}" if exponent > -300 else f"10^{exponent:.1f}"


@changes.register
def _covariance(states: Gaussian, run: Trajectory) -> list[Line]:
    values, mean = np.asarray(states.spectrum), np.asarray(states.mean)
    spectra = ["(" + ", ".join(f"{value:.4g}" for value in values[i][:5]) + ")" for i in (0, -1)]
    ranks = [int(states.rank()[i]) for i in (0, -1)]
    return [
        ("spectrum", f"of Σ from {spectra[0]} to {spectra[1]}"),
        ("rank", f"from {ranks[0]} to {ranks[1]}; |mean| from {_size(mean[0])} to {_size(mean[-1])}"),
    ]


def _size(vector: object) -> str:
    return f"{float(np.linalg.norm(np.asarray(vector))):.4g}"


@changes.register
def _density(states: AbstractDensity, run: Trajectory) -> list[Line]:
    along = lambda name: np.asarray(getattr(states, name))
    order, entropy = along("order"), along("entropy")
    lines = [
        ("order", f"R = |∫x dμ| from {order[0]:.6g} to {order[-1]:.6g}"),
        ("entropy", f"from {entropy[0]:.4g} to {entropy[-1]:.4g}"),
    ]
    F = free_energies(run)
    if F is not None:
        lines.append(("energy", f"free energy from {F[0]:.6g} to {F[-1]:.6g}"))
    drift, tail, least = np.max(abs(along("mass") - 1)), np.max(along("tail")), np.min(along("least"))
    lines.append(("checks", f"mass to {drift:.0e}, least value {least:.2g}, spectrum's tail {tail:.0e}"))
    return lines


@changes.register
def _tokens(states: Tokens, run: Trajectory) -> list[Line]:
    lines, first, last = [], run[0], run.final
    if first.n > 1 and min(float(first.radii.min()), float(last.radii.min())) > 0:
        before, after = float(observe.mean_overlap(first)), float(observe.mean_overlap(last))
        lines.append(("overlap", f"mean cosine of two tokens from {before:.3f} to {after:.3f}"))
        if first.n <= LARGEST_COUNTED or first.d <= 3:
            before, after = observe.clusters(first), observe.clusters(last)
            lines.append(("clusters", f"{len(before)} at first, then {after}"))
    if run.mergers is not None:
        lines.append(("mergers", repr(run.mergers)))
    beta = energy_beta(run)
    if beta is not None and (first.n <= LARGEST_COUNTED or first.d <= 3) and np.allclose(np.asarray(last.radii), 1):
        share = [float(2 * beta * observe.energy(mu, beta, scaled=True)) for mu in (first, last)]
        lines.append(("energy", f"from {share[0]:.3g} to {share[1]:.3g} of one cluster's"))
    return lines
