"""The walk from the front door to the first velocity, as it happens: `python docs/walks.py`.

Follows five calls of `evolve` and prints, file by file, the functions of the package that lead on: those that are entered between
`evolve` and the first evaluation of the equation and that themselves call functions of other files. Leaves (checks, helpers in one
file), the frame that reads the arguments of a front door, and questions to a part (its properties) are no hops. Each call is given
up where its walk ends. docs/architecture.md has the table, and a test compares.
"""

import inspect
import os
import sys
from collections.abc import Callable

import jax
import numpy as np

import tokenfield as tkf

ROOT = os.path.dirname(os.path.abspath(tkf.__file__))
ASIDE = {"_checks.py", "_front.py", "_norms.py", "_types.py", "_compile.py", "errors.py", "status.py", "parameters.py"}
"""Where nobody goes to read how a run works."""


class Arrived(Exception):
    """The walk is over: the equation is evaluated."""


def questions() -> set[object]:
    """The code of all properties."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("tokenfield")]
    classes = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    found = {value.fget for kind in classes for value in vars(kind).values() if isinstance(value, property)}
    plain = [inspect.unwrap(getter) for getter in found if inspect.isfunction(getter)]
    return {getter.__code__ for getter in plain if inspect.isfunction(getter)}


def walk(call: Callable[[], object], ends: tuple[str, ...]) -> list[tuple[str, str]]:
    """The functions that lead on, in the order in which they are entered, up to one of the `ends`."""
    entered: list[tuple[str, str]] = []
    leads: set[tuple[str, str]] = set()
    asked = questions()

    def name(frame) -> tuple[str, str] | None:
        file, function = frame.f_code.co_filename, frame.f_code.co_qualname
        if not file.startswith(ROOT) or "<" in function.rsplit(".", 1)[-1] or frame.f_code in asked:
            return None
        file = os.path.relpath(file, ROOT)
        return None if os.path.basename(file) in ASIDE else (file, function.replace("<locals>.", ""))

    def follow(frame, event, argument) -> None:
        here = name(frame) if event == "call" else None
        if here is None:
            return
        if here not in entered:
            entered.append(here)
        caller = frame.f_back
        while caller is not None and name(caller) is None:
            caller = caller.f_back
        if caller is not None and name(caller)[0] != here[0]:
            leads.add(name(caller))
        if here[1] in ends:
            leads.add(here)
            raise Arrived

    sys.setprofile(follow)
    try:
        call()
    except Arrived:
        pass
    finally:
        sys.setprofile(None)
    first = next(i for i, (_, function) in enumerate(entered) if function.endswith("evolve"))
    return [one for one in entered[first:] if one in leads]


def walks() -> dict[str, list[tuple[str, str]]]:
    x = np.random.default_rng(0).normal(size=(16, 3))
    mu, flow = tkf.Tokens(x), tkf.sa(4.0)
    gaussian = tkf.Flow(tkf.Softmax(0.5)), tkf.Gaussian([0.0, 0.0], np.eye(2))
    ends, evolve = ("Flow.velocity", "Affine.rate"), tkf.evolve  # which loads its room, whose properties are known then
    return {
        "a run": walk(lambda: evolve(flow, mu, 1.0), ends),
        "a Gaussian": walk(lambda: evolve(*gaussian, 1.0), ends),
        "an ensemble": walk(lambda: evolve([flow, tkf.sa(2.0)], mu, 1.0), ends),
        "a merging run": walk(lambda: evolve(flow, mu, 1.0, coalesce=1e-4), ends),
        "a gradient": walk(lambda: jax.grad(lambda b: evolve(tkf.sa(b), mu, 1.0).final.x[0, 0])(1.0), ends),
    }


if __name__ == "__main__":
    for what, found in walks().items():
        files = list(dict.fromkeys(file for file, _ in found))
        print(f"{what}: {len(found)} hops, {len(files)} files")
        for file in files:
            print(f"  {file}: {', '.join(function for here, function in found if here == file)}")
