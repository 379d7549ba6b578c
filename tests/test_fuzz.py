"""The attack: every public name of the package is called with hostile arguments, one after another and by pairs.

The names come from the package itself, so that a new one is attacked as soon as it is public. Whatever is asked, the answer is a
finite result, a sentence (`InputError`), or a run whose status says what happened; never another exception, a NaN, a warning, or
the end of the process. Sizes are tried as if the machine had one gigabyte.
"""

import dataclasses
import decimal
import fractions
import inspect
import pathlib
import types
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import _checks
from tokenfield.errors import InputError

X = np.eye(3)
MU = tkf.Tokens(X)
SA = tkf.sa(2.0)
RHO = tkf.Equiangular(rho=0.5, n=4)
NORMAL = tkf.Gaussian([0.0, 0.0, 0.0], X)
CIRCLE = tkf.CircleDensity.wave(0.1, degree=4)
SPHERE = tkf.SphereDensity.wave(0.1, degree=4)
FREE = tkf.Flow(tkf.Softmax(0.5), tkf.Free())
QUIET = tkf.usa(1.0, V=-1.0, kappa=2.0)
"""A flow with noise whose only stationary state is the uniform one."""


class Unreadable:
    """An object that raises whatever is asked of it."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("no numbers")

    def __index__(self) -> int:
        raise RuntimeError("no index")


class Tensor:
    """What torch's tensors are like: numbers in a graph, on a device, in a precision that numpy does not have."""

    dtype = "torch.bfloat16"

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> "Tensor":
        return self

    def double(self) -> np.ndarray:
        return np.eye(3)


def _raises(*arguments: Any) -> Any:
    raise KeyError("a user's own mistake")


HOSTILE: dict[str, Any] = {
    "None": None,
    "True": True,
    "0": 0,
    "1": 1,
    "2": 2,
    "3": 3,
    "-1": -1,
    "2.5": 2.5,
    "-0.5": -0.5,
    "0.0": 0.0,
    "NaN": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "1e300": 1e300,
    "-1e300": -1e300,
    "1e-300": 1e-300,
    "2³¹": 2**31,
    "2³¹ - 1": 2**31 - 1,
    "10⁹": 10**9,
    "10⁴⁰⁰": 10**400,
    "10⁵⁰⁰⁰": 10**5000,
    "text": "text",
    "empty text": "",
    "a number in quotes": "1.0",
    "bytes": b"bytes",
    "a path": pathlib.Path("nowhere.png"),
    "empty list": [],
    "list of one": [1.0],
    "list of three": [0.2, 0.3, 0.5],
    "pair": (0.0, 1.0),
    "pair of pairs": [[0.0, 1.0], [1.0, 0.0]],
    "ragged": [[1.0], [1.0, 2.0]],
    "nested": [[[[[1.0]]]]],
    "list of text": ["a", "b"],
    "list of None": [None, None],
    "list of flows": [SA, SA],
    "huge integers": [10**400, 1],
    "dict": {"a": 1},
    "dict of many keys": {1: 2, "a": 3},
    "set": {1.0, 2.0},
    "range": range(3),
    "generator": (i for i in range(3)),
    "slice": slice(3),
    "ellipsis": ...,
    "complex": 1j,
    "complex array": 1j * X,
    "fraction": fractions.Fraction(1, 3),
    "decimal": decimal.Decimal("0.5"),
    "numpy float": np.float64(0.5),
    "numpy float32": np.float32(0.5),
    "numpy integer": np.int64(2),
    "numpy bool": np.bool_(True),
    "numpy longdouble": np.longdouble("1e4000"),
    "0-d float": np.array(0.5),
    "0-d integer": np.array(2),
    "date": np.datetime64("2020-01-01"),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "duration": np.timedelta64(3, "s"),
    "objects": np.array([object(), object()]),
    "texts": np.array(["a", "b"]),
    "records": np.zeros(2, [("a", float), ("b", int)]),
    "flags": np.array([True, False]),
    "identity": X,
    "identity in float32": X.astype(np.float32),
    "identity in float16": X.astype(np.float16),
    "identity in bfloat16": X.astype(ml_dtypes.bfloat16),
    "integers": np.eye(3, dtype=int),
    "2 × 2": np.eye(2),
    "2 × 3": np.ones((2, 3)),
    "no rows": np.zeros((0, 3)),
    "cube": np.zeros((2, 3, 3)),
    "zeros": np.zeros((3, 3)),
    "NaN in an array": np.full((3, 3), np.nan),
    "large array": np.full((3, 3), 1e300),
    "masked": np.ma.masked_array(X, X > 0),
    "jax array": jnp.eye(3),
    "jax number": jnp.asarray(0.5),
    "jax bfloat16": jnp.eye(3, dtype=jnp.bfloat16),
    "PRNG key": jax.random.key(0),
    "tensor": Tensor(),
    "function of t": lambda t: 1.0 + t,
    "function of nothing": lambda: 1.0,
    "function to text": lambda *arguments: "text",
    "function to NaN": lambda *arguments: np.nan,
    "function that raises": _raises,
    "class": int,
    "attention class": tkf.Softmax,
    "module": np,
    "object": object(),
    "unreadable": Unreadable(),
    "exception": ValueError("mistake"),
    "tokens": MU,
    "float32 tokens": tkf.Tokens(X.astype(np.float32)),
    "tokens in the plane": tkf.Tokens(np.eye(2)),
    "one token at zero": tkf.Tokens([[0.0]]),
    "equiangular": RHO,
    "gaussian": NORMAL,
    "circle density": CIRCLE,
    "sphere density": SPHERE,
    "attention": tkf.Softmax(1.0),
    "changing attention": tkf.Softmax(beta=lambda t: 1.0 + t),
    "flow": SA,
    "free flow": FREE,
    "noisy flow": QUIET,
    "flow of Krause": tkf.krause(np.full((3, 3), 1 / 3)),
    "normalization": tkf.PostLN(),
    "layers": tkf.PerLayer([1.0, 2.0]),
    "matrices by layer": tkf.PerLayer(np.zeros((2, 3, 3))),
    "MLP": tkf.MLP(),
    "status": tkf.Status.COMPLETED,
    "summation": tkf.Dense(),
}
"""What an argument might be, from what a hurried user writes to what nobody would."""

USUAL: dict[str, Any] = {
    "flow": SA,
    "mu": MU,
    "mu0": MU,
    "thing": MU,
    "attention": tkf.Softmax(1.0),
    "heads": [tkf.Softmax(1.0)],
    "t": 0.5,
    "x": X,
    "n": 4,
    "d": 3,
    "degree": 4,
    "depth": 2,
    "rows": 3,
    "columns": 3,
    "hidden": 3,
    "rho": 0.5,
    "gamma": 1.0,
    "beta": 1.0,
    "mean": [0.0, 0.0, 0.0],
    "cov": X,
    "P": np.full((3, 3), 1 / 3),
    "tau": 1.0,
    "values": [1.0, 2.0],
    "function": lambda x: 1.0 + 0.0 * x,
    "density": lambda x: 1.0 + 0.0 * x[:, 0],
    "concentration": 1.0,
    "coefficients": [1.0, 0.0, 0.0],
    "save": 3,
    "tolerance": 1e-9,
}
"""What calls are otherwise made of, by the names of arguments: tiny, and of few shapes, so that programs are used again."""

SPECIAL: dict[str, dict[str, Any]] = {
    "Tokens.quadrature": {"interval": (0.0, 1.0), "n": 4},
    "Equiangular": {"n": 4, "rho": 0.5},
    "SphereDensity": {"coefficients": [1.0, 0.0], "zonal": True},
    "SphereDensity.from_function": {"zonal": True},
    "CircleDensity.from_tokens": {"mu": tkf.Tokens(np.eye(2)), "degree": 64},
    "SphereDensity.from_tokens": {"degree": 16, "bandwidth": 1.0},
    "CircleDensity()": {"x": [0.0, 1.0]},
    "CircleDensity.free_energy": {"flow": QUIET},
    "SphereDensity.free_energy": {"flow": QUIET},
    "observe.entropy": {"thing": CIRCLE},
    "observe.free_energy": {"thing": CIRCLE, "flow": QUIET},
    "observe.attention_matrix": {"flow": SA},
    "stationary": {"flow": QUIET, "d": 2, "degree": None, "kappa": None},
    "theory.closed_form": {"flow": FREE, "mu": NORMAL},
    "theory.output": {"mu": RHO},
    "theory.growth_rates": {"flow": QUIET},
}
"""Where the usual values would not do."""

MADE = {
    "Trajectory": "what `evolve` returns",
    "Status": "how a run ended, an enumeration",
    "Spec": "made from files and tables, which have tests of their own",
    "Dense": "a few sizes of blocks, for those who measure",
    "collapsed": "a condition that solvers call",
    "harmonics.Eigenvalues": "what `kernel_eigenvalues` returns",
    "observe.Clusters": "what `clusters` returns",
    "theory.ClosedForm": "what `closed_form` returns",
}
"""Public names that are not called with a user's arguments, and why."""

INFINITE = ("kappa", "closed_form", "blow_up")
"""Where infinity is an answer: thresholds that do not exist."""


def public() -> dict[str, Any]:
    """Everything that can be called from outside, by name: functions, constructors, and doors of classes and of objects."""
    found: dict[str, Any] = {}
    for name in tkf.__all__:
        thing = getattr(tkf, name)
        if isinstance(thing, types.ModuleType):
            if name != "errors":
                inside = {f"{name}.{one}": getattr(thing, one) for one in dir(thing) if not one.startswith("_")}
                found |= {one: what for one, what in inside.items() if callable(what)}
        elif name not in MADE:
            found[name] = thing
    found = {name: what for name, what in found.items() if getattr(what, "__module__", "").startswith("tokenfield.")}
    for name, what in list(found.items()):
        if isinstance(what, type):
            found |= {f"{name}.{one}": getattr(what, one) for one in dir(what) if _makes(what, one)}
    for thing in (RHO, NORMAL, CIRCLE, SPHERE, tkf.Softmax(1.0), tkf.theory.closed_form(FREE, NORMAL)):
        kind = type(thing)
        asked = [
            one for one in dir(kind) if _is_door(getattr(kind, one)) and not _makes(kind, one) and one != "__init__"
        ]
        found |= {f"{kind.__name__}{'()' if one == '__call__' else '.' + one}": getattr(thing, one) for one in asked}
    return found


def _makes(kind: type, name: str) -> bool:
    """Whether a class has a constructor of this name."""
    return isinstance(inspect.getattr_static(kind, name), staticmethod | classmethod) and _is_door(getattr(kind, name))


def _is_door(what: Any) -> bool:
    return getattr(what, "__front_door__", False)


def _attacked(name: str, what: Any) -> bool:
    """Whether a name is a door: a function, or a class with arguments that is not abstract."""
    if name in MADE or name.rpartition(".")[2].startswith("Abstract"):
        return False
    return bool(inspect.signature(what).parameters) if isinstance(what, type) else callable(what)


DOORS = {name: what for name, what in public().items() if _attacked(name, what)}


def parameters(name: str) -> list[str]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        p.name for p in inspect.signature(DOORS[name]).parameters.values() if p.kind not in kinds and p.name != "self"
    ]


def usual(name: str) -> dict[str, Any]:
    """The arguments of a call in which nothing is wrong."""
    signature = inspect.signature(DOORS[name]).parameters
    known = {key: USUAL[key] for key in parameters(name) if key in USUAL}
    plain = {
        key: value for key, value in known.items() if signature[key].default is inspect.Parameter.empty or key == "save"
    }
    return {key: value for key, value in (plain | SPECIAL.get(name, {})).items() if value is not None}


def finite(result: Any) -> bool:
    """Whether all numbers of a result are; of a run that did not complete, nothing is asked."""
    if isinstance(result, tkf.Trajectory) and result.status != tkf.Status.COMPLETED:
        return True
    if dataclasses.is_dataclass(result) and not isinstance(result, type) and not jax.tree.leaves(result):
        return True
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(result) if isinstance(leaf, float | np.ndarray | jax.Array)]
    return all(np.isfinite(leaf).all() for leaf in leaves if np.issubdtype(leaf.dtype, np.floating))


def attack(name: str, arguments: dict[str, Any]) -> str | None:
    """What is wrong with the answer to a call; None where nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = DOORS[name](**arguments)
    except InputError as refusal:
        return None if len(str(refusal)) > 20 else f"a poor sentence: {refusal}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if not finite(result) and not any(word in name for word in INFINITE):
        return f"not finite: {str(result)[:200]}"
    return None


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    monkeypatch.setattr(_checks, "available_memory", lambda: float(2**30))


def table() -> list[tuple[str, str, str]]:
    """Every door with every parameter and every hostile value."""
    return [(name, key, value) for name in DOORS for key in parameters(name) for value in HOSTILE]


def mistakes(calls: Any) -> dict[str, str]:
    wrong = {}
    for name, key, value in calls:
        answer = attack(name, usual(name) | {key: HOSTILE[value]})
        if answer is not None:
            wrong[f"{name}({key}={value})"] = answer
    return wrong
