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


def readme_script() -> str:
    """The first Python script of the README."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def first() -> None:
    """The README's picture, by the README's script."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        try:
            exec(readme_script(), {})
            Path("run.png").replace(IMAGES / "first.png")
        finally:
            os.chdir(here)


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


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    first()
    convergence()
