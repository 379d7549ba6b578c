"""What a run has to say for itself."""

import math

import numpy as np

from tokenfield import observe
from tokenfield.measures import Tokens
from tokenfield.observe.energies import energy_beta
from tokenfield.trajectory import Trajectory

LARGEST_TOLD = 20_000
"""Tokens up to which clusters are counted for the story; the count visits pairs."""


def story(run: Trajectory) -> str:
    """A few lines that tell what moved, how it was solved and what came of it."""
    how, first, last = run.provenance, run[0], run.final
    lines = [
        f"Trajectory of {_measure(first)}",
        f"  flow     {str(run.flow).removeprefix('Flow: ') if run.flow is not None else 'not one of the library'}",
        f"  time     {float(run.times[0]):g} to {float(run.times[-1]):.6g}, {len(run)} states saved; "
        f"{run.status.name.lower()}",
        f"  solver   {_solver(run)}, {how.summation} sums, {run.x.dtype}",
        *(f"  {name:<8} {told}" for name, told in _changes(run, first, last)),
    ]
    if not run.status.ok:
        lines.append(f"  note     {run.message}")
    if math.isfinite(how.seconds):
        lines.append(
            f"  took     {how.seconds:.3g} s, {how.created}" + (f", seed {how.seed}" if how.seed is not None else "")
        )
    return "\n".join(lines)


def _solver(run: Trajectory) -> str:
    how = run.provenance
    if how.solver == "layers":
        return f"discrete depth, {int(run.steps)} layers"
    return f"{how.solver}, rtol {how.rtol:g}: {int(run.steps)} steps ({int(run.rejected)} rejected)"


def _measure(mu: Tokens) -> str:
    return repr(mu).removeprefix("Tokens(").removesuffix(")").replace("n=", "n = ").replace("d=", "d = ")


def _changes(run: Trajectory, first: Tokens, last: Tokens) -> list[tuple[str, str]]:
    """What the measure looked like at the start and at the end."""
    told = []
    if first.n > 1 and min(float(first.radii.min()), float(last.radii.min())) > 0:
        before, after = float(observe.mean_overlap(first)), float(observe.mean_overlap(last))
        told.append(("overlap", f"mean cosine of two tokens from {before:.3f} to {after:.3f}"))
        if first.n <= LARGEST_TOLD:
            before, after = observe.clusters(first), observe.clusters(last)
            told.append(("clusters", f"{len(before)} at first, then {after}"))
    beta = energy_beta(run)
    if beta is not None and first.n <= LARGEST_TOLD and np.allclose(np.asarray(last.radii), 1):
        share = [float(2 * beta * observe.energy(mu, beta, scaled=True)) for mu in (first, last)]
        told.append(("energy", f"from {share[0]:.3g} to {share[1]:.3g} of one cluster's"))
    return told
