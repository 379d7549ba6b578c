"""The attack: every public name of the package is called with hostile arguments, one after another and by pairs.

The names come from the package itself, so that a new one is attacked as soon as it is public. Whatever is asked, the answer is a
finite result, a sentence (`InputError`), or a run whose status says what happened; never another exception, a NaN, a warning, or
the end of the process. Sizes are tried as if the machine had one gigabyte.
"""

import contextlib
import dataclasses
import decimal
import fractions
import inspect
import itertools
import pathlib
import timeit
import types
import warnings
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import _checks, _front
from tokenfield.errors import InputError, UnfinishedWarning

X = np.eye(3)
MU = tkf.Tokens(X)
SA = tkf.sa(2.0)
RHO = tkf.Equiangular(rho=0.5, n=4)
NORMAL = tkf.Gaussian([0.0, 0.0, 0.0], X)
CIRCLE = tkf.CircleDensity.wave(0.1, degree=4)
SPHERE = tkf.SphereDensity.wave(0.1, degree=4)
RUN = tkf.evolve(SA, MU, t=0.5, save=3)
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
    "nu": MU,
    "text": "to be or not",
    "R": 1.0,
}
"""What calls are otherwise made of, by the names of arguments: tiny, and of few shapes, so that programs are used again."""

MODEL = tkf.Transformer.random(tkf.Architecture(vocabulary=257, d=8, layers=1, heads=2, context=16))

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
    "observe.energy": {"beta": 1.0},
    "observe.entropy": {"thing": CIRCLE},
    "observe.observable": {"name": "mean_overlap"},
    "observe.fit_rate": {"thing": [0.0, 1.0, 2.0, 3.0], "values": [1.0, 0.5, 0.25, 0.125]},
    "observe.free_energy": {"thing": CIRCLE, "flow": QUIET},
    "observe.attention_matrix": {"flow": SA},
    "observe.attention_entropy": {"mu": MU},
    "observe.leaders": {"mu": MU},
    "observe.history": {"run": RUN},
    "observe.modes": {"thing": tkf.Tokens(np.eye(2))},
    "observe.renyi_centres": {"delta": 0.5},
    "stationary": {"flow": QUIET, "d": 2, "degree": None, "kappa": None},
    "theory.closed_form": {"flow": FREE, "mu": NORMAL},
    "theory.output": {"mu": RHO},
    "theory.growth_rates": {"flow": QUIET},
    "theory.Finding": {"what": "rate", "predicted": 1.0, "measured": 1.0, "tolerance": 0.1, "because": "Few samples."},
    "theory.statement": {"name": "kuramoto"},
    "theory.verify": {"which": "kuramoto"},
    "verify": {"which": "kuramoto"},
    "Diagram.at": {"kappa": 1.0},
    "predict": {"architecture": tkf.Architecture(d=8, layers=2, heads=2)},
    "Transformer.load": {"folder": "model"},
    "Transformer.save": {"folder": "model"},
    "Transformer.flow": {"k": 0},
    "Transformer.repeat": {"times": 3},
    "Transformer.generate": {"n": 3},
    "Transformer.continued": {"n": 3},
    "Trajectory.at": {"t": 0.25},
    "Trajectory.extend": {"t": 1.0, "save": 3},
    "Trajectory.save": {"path": "run.zarr"},
    "Trajectory.load": {"path": "run.zarr"},
    "Trajectory.animate": {"path": "run.gif", "seconds": 0.1},
    "Trajectory.film": {"path": "run.html"},
    "Trajectory.from_states": {"states": np.ones((2, 3, 3))},
}
"""Where the usual values would not do."""

MADE = {
    "Trajectory": "what `evolve` returns; its methods are attacked, and so is `from_states`",
    "Status": "how a run ended, an enumeration",
    "Spec": "made from files and tables, which have tests of their own",
    "Dense": "a few sizes of blocks, for those who measure",
    "collapsed": "a condition that solvers call",
    "harmonics.Eigenvalues": "what `kernel_eigenvalues` returns",
    "observe.AttentionEntropy": "what `attention_entropy` returns",
    "observe.Centres": "what `renyi_centres` returns",
    "observe.Clusters": "what `clusters` returns",
    "observe.Hemisphere": "what `hemisphere` returns",
    "observe.History": "what `history` returns",
    "observe.Leaders": "what `leaders` returns",
    "observe.Life": "a part of what `history` returns",
    "observe.LimitGeometry": "what `limit_geometry` returns",
    "observe.Modes": "what `modes` returns",
    "observe.Rate": "what `fit_rate` returns",
    "observe.Sensitivity": "what `lipschitz` returns",
    "theory.ClosedForm": "what `closed_form` returns",
    "theory.Outcome": "what came of a check, an enumeration",
    "theory.Verdict": "what `check` returns",
    "theory.Report": "what `verify` returns",
    "theory.Statement": "abstract: a conjecture subclasses it",
    "sweep": "runs many members, and writes folders: tests/sweeps",
    "load_sweep": "reads folders, hostile ones too: tests/sweeps/test_folder.py",
    "Transformer": "made by `random` and `load`, which are attacked, and so are its methods",
    "Probe": "what `probe` returns, and reads as saved figures are read",
    "Training": "what `train` returns",
    "probe": "takes seconds: tests/transformer/test_attack.py",
    "train": "takes seconds: tests/transformer/test_attack.py",
}
MADE |= {f"figures.{name}": "its parameters are read by their annotations: tests/figures" for name in dir(tkf.figures)}
"""Public names that are not called with a user's arguments, and why."""

THEIRS = {("evolve", "until", "class"), ("evolve", "watch", "class"), ("evolve", "observe", "function to NaN")}
THEIRS |= {(door, "watch", what) for door in ("verify", "theory.verify") for what in ("class", "function of t", "MLP")}
THEIRS |= {
    (f"Transformer.{door}", "watch", what)
    for door in ("generate", "continued")
    for what in ("class", "function of nothing", "MLP", "attention class")
}
"""Calls in which a function of the user's raises while a run goes on, or gives NaN: that is passed on as it is."""

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
    for kind in (tkf.Trajectory, tkf.Transformer):
        found |= {f"{kind.__name__}.{one}": getattr(kind, one) for one in dir(kind) if _makes(kind, one)}
    diagram = tkf.stationary(QUIET)
    asked_too = (tkf.Softmax(1.0), tkf.theory.closed_form(FREE, NORMAL), diagram, diagram.branches[0][0])
    for thing in (MU, RHO, NORMAL, CIRCLE, SPHERE, RUN, MODEL, *asked_too):
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
    return getattr(getattr(what, "__func__", what), "__front_door__", False)


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


def attack(door: Any, arguments: dict[str, Any], infinite: bool = False) -> str | None:
    """What is wrong with the answer to a call; None where nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UnfinishedWarning)  # which says what `status` says
            result = door(**arguments)
    except InputError as refusal:
        return None if len(str(refusal)) > 20 else f"a poor sentence: {refusal}"
    except Exception as error:
        if "a user's own mistake" in str(error):
            return None
        return f"{type(error).__name__}: {str(error)[:200]}"
    if not infinite and not finite(result):
        return f"not finite: {str(result)[:200]}"
    return None


def called(name: str, arguments: dict[str, Any]) -> str | None:
    """The same of a door of the table, beside its usual arguments."""
    return attack(DOORS[name], usual(name) | arguments, any(word in name for word in INFINITE))


@pytest.fixture(autouse=True)
def small_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # a path may be written to
    RUN.save("run.zarr")
    MODEL.save("model")
    monkeypatch.setattr(_checks, "available_memory", lambda: float(2**30))


def table() -> list[tuple[str, str, str]]:
    """Every door with every parameter and every hostile value."""
    calls = itertools.product(((name, key) for name in DOORS for key in parameters(name)), HOSTILE)
    return [(name, key, value) for (name, key), value in calls if (name, key, value) not in THEIRS]


def mistakes(calls: Any) -> dict[str, str]:
    answers = {call: called(call[0], {call[1]: HOSTILE[call[2]]}) for call in calls}
    return {f"{name}({key}={value})": wrong for (name, key, value), wrong in answers.items() if wrong is not None}


def test_every_public_name_is_attacked():
    """A public function is a door, and so is every class that takes arguments, unless it is known why not."""
    unguarded = [name for name, what in public().items() if _attacked(name, what) and not _guarded(what)]
    assert unguarded == []
    assert len(DOORS) > 90 and {"evolve", "Tokens.quadrature", "theory.output", "CircleDensity.sample"} <= set(DOORS)
    assert {name for name in MADE if not name.startswith("figures.")} <= {*tkf.__all__, *public()}


def _guarded(what: Any) -> bool:
    """Whether arguments are read at the door; small dataclasses read theirs once they have them."""
    if isinstance(what, type):
        return _is_door(what.__init__) or hasattr(what, "__post_init__")
    return _is_door(what)


def test_what_is_usual_is_answered():
    """The calls around which the attack is built are right: otherwise everything would be refused for the wrong reason."""
    for name in DOORS:
        assert finite(DOORS[name](**usual(name))) or any(word in name for word in INFINITE), name


def test_hostile_arguments():
    calls = table()[:: len(table()) // 1000]
    assert len(calls) >= 1000
    assert mistakes(calls) == {}


@pytest.mark.slow
def test_all_hostile_arguments():
    assert len(table()) >= 10_000
    assert mistakes(table()) == {}


def test_unknown_missing_and_superfluous_arguments():
    """They are told as Python does, by a `TypeError`, in a sentence that names them."""
    for name, what in public().items():
        if not _attacked(name, what) or not _is_door(what.__init__ if isinstance(what, type) else what):
            continue
        takes_all = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(what).parameters.values())
        with pytest.raises(TypeError, match="no_such_argument"):
            what(**usual(name), no_such_argument=1)
        if not takes_all:
            with pytest.raises(InputError, match="by their place"):
                what(*[1.0] * 30)


def test_a_near_miss_of_an_argument_is_answered():
    with pytest.raises(InputError, match=r"evolve has no argument `sve`\. Did you mean 'save'\?"):
        tkf.evolve(SA, MU, 1.0, sve=200)
    with pytest.raises(TypeError, match=r"Softmax has no argument `bet`\. Did you mean 'beta'\?"):
        tkf.sa(1.0, bet=2.0)
    with pytest.raises(TypeError, match=r"Tokens needs its argument `x`, which is missing"):
        tkf.Tokens()
    with pytest.raises(TypeError, match=r"Softmax got its argument `beta` twice"):
        tkf.Softmax(1.0, beta=2.0)


NUMBERS = st.one_of(
    st.floats(width=64),
    st.integers(-(2**70), 2**70),
    st.lists(st.floats(), max_size=4),
    st.lists(st.lists(st.floats(-2, 2), min_size=3, max_size=3), min_size=1, max_size=3),
    st.sampled_from([np.float32, np.float16, np.int8, np.uint64]).flatmap(
        lambda kind: st.integers(0, 100).map(lambda number: kind(number))
    ),
    st.text(max_size=5),
    st.sampled_from(sorted(HOSTILE)).map(HOSTILE.__getitem__),
)
EXPENSIVE = ("evolve", "layers", "velocity", "stationary", "Softmax()", "observe.flow_lipschitz")
CHEAP = sorted(name for name in DOORS if name not in EXPENSIVE)


@st.composite
def two_mistakes(draw: Any) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(CHEAP))
    keys = draw(st.lists(st.sampled_from(parameters(name)), min_size=1, max_size=2, unique=True))
    return name, {key: draw(NUMBERS) for key in keys}


def try_pairs(examples: int) -> None:
    """Calls with one or two arguments that a machine made up."""

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(two_mistakes())
    def answered(call: tuple[str, dict[str, Any]]) -> None:
        name, arguments = call
        assert called(name, arguments) is None

    answered()


def test_pairs_of_hostile_arguments():
    try_pairs(150)


@pytest.mark.slow
def test_many_pairs_of_hostile_arguments():
    try_pairs(5000)


BETAS = (0.0, 1e-300, -5.0, 50.0, 700.0, 1e6, -1e6, 1e160, 1e300, -1e300)
SCALES = (1.0, 1e150, 1e-150)
STARTS = np.random.default_rng(0).normal(size=(3, 3))


def asked_of_tokens(flow: Any, mu: Any) -> list[Any]:
    return [
        lambda: tkf.velocity(flow, mu),
        lambda: tkf.evolve(flow, mu, 1.0, save=3, max_steps=200),
        lambda: tkf.layers(flow, mu, 2),
    ]


def asked_of_others(flow: Any, mu: Any) -> list[Any]:
    return [
        lambda: tkf.evolve(flow, mu, 1.0, save=3, max_steps=50),
        lambda: tkf.observe.free_energy(mu, flow),
        lambda: tkf.theory.growth_rates(flow, 3, 4),
        lambda: tkf.theory.most_unstable(flow, 3),
        lambda: tkf.theory.initial_speed(flow, 4, 0.5),
        lambda: tkf.theory.collapse_exponent(flow, 2.0),
        lambda: tkf.theory.output(flow.attention, mu),
    ]


def quietly_wrong(questions: Any) -> list[str]:
    """Questions whose answers are neither finite, nor refused, nor runs that say how they ended."""
    wrong = []
    for what, question in questions:
        with contextlib.suppress(InputError):
            if not finite(answer := question()):
                wrong.append(f"{what}: {answer}")
    return wrong


def of_tokens(kinds: Any, schemes: Any) -> Any:
    for kind, scheme, beta, scale in itertools.product(kinds, schemes, BETAS, SCALES):
        flow = tkf.Flow(kind(beta), scheme)
        for question in asked_of_tokens(flow, tkf.Tokens(scale * STARTS)):
            yield f"{flow} at {scale:g}", question


def of_others(measures: Any, kinds: Any, kappas: Any) -> Any:
    for mu, kind, beta, kappa in itertools.product(measures, kinds, BETAS, kappas):
        flow = tkf.Flow(kind(beta), tkf.PostLN(), kappa=kappa)
        for question in asked_of_others(flow, mu):
            yield f"{flow} on {mu}", question


def test_no_number_is_quietly_wrong():
    """Inverse temperatures and lengths from one end of the floats to the other."""
    assert quietly_wrong(of_tokens([tkf.Softmax, tkf.Unnormalized], [tkf.PostLN()])) == []
    assert quietly_wrong(of_others([RHO], [tkf.Softmax, tkf.Unnormalized, tkf.Linear], [None])) == []


@pytest.mark.slow
def test_no_number_is_quietly_wrong_under_any_attention():
    kinds = [tkf.Softmax, tkf.Unnormalized, tkf.L2, tkf.Sinkhorn, tkf.Sigmoid, tkf.Linear, tkf.ReLU, tkf.MeanShift]
    assert quietly_wrong(of_tokens(kinds, [tkf.PostLN(), tkf.Free(), tkf.PreLN(), tkf.NGPT()])) == []
    sharp, simplex = tkf.Equiangular(log_gap=-700.0, n=1e16), tkf.Equiangular(-1 / 3, 4)
    zonal = tkf.SphereDensity.wave(0.5, degree=4, d=5, zonal=True)
    kinds = [tkf.Softmax, tkf.Unnormalized, tkf.Linear]
    assert quietly_wrong(of_others([CIRCLE, zonal], kinds, [None, 2.0, 1e-300, 1e300])) == []
    assert quietly_wrong(of_others([sharp, simplex], kinds, [None])) == []


def test_a_door_costs_microseconds_and_keeps_what_is_known_of_a_function():
    assert list(inspect.signature(tkf.Softmax).parameters) == ["beta", "Q", "K", "V", "A"]
    assert "inverse temperature" in (tkf.Softmax.__doc__ or "") and tkf.evolve.__name__ == "evolve"
    door = _front.Door(tkf.Softmax.__init__.__wrapped__)
    one = tkf.Softmax()
    door.read((one, 1.0), {"V": X})
    best = min(timeit.repeat(lambda: door.read((one, 1.0), {"V": X}), number=100, repeat=10)) / 100
    assert best < 5e-4  # with the tests' checker of annotations in between; a tenth of that without


def test_tracers_pass():
    grad = jax.grad(lambda beta: tkf.Softmax(beta)(MU)[0, 1])(2.0)
    known = tkf.Softmax(2.0)(MU)[0, 1]
    assert np.isclose(float(grad), -float(known) * (1 - 2 * float(known)), rtol=1e-6)  # p(1 - 2p), p = 1/(e^β + 2)
    assert jax.jit(lambda x: tkf.Tokens(x).mean)(X).tolist() == [1 / 3] * 3
