"""Values as they are typed, names, and the groups that follow from a grid alone."""

import itertools
import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tokenfield.errors import InputError
from tokenfield.sweeps import ranges
from tokenfield.sweeps.grid import MOST, Axis, Grid, block_shape, short_names


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("b=linspace:0:1:3", [0.0, 0.5, 1.0]),
        ("b=linspace:2:2:1", [2.0]),
        ("b=geomspace:1:100:3", [1.0, 10.0, 100.0]),
        ("b=geomspace:-1:-4:3", [-1.0, -2.0, -4.0]),
        ("b=range:3:0:-1", [3, 2, 1]),
        ("b=1,2.5,1e3", [1, 2.5, 1000.0]),
        ("b = 7", [7]),
        ("b=softmax, l2", ["softmax", "l2"]),
        ("b=true,false", [True, False]),
        ("b=[1,2],[3,4]", [[1, 2], [3, 4]]),
        ("b='a,b','c'", ["a,b", "c"]),
        ("b=[1, 2]", [1, 2]),
    ],
)
def test_values_as_they_are_typed(text, values):
    path, found = ranges.over(text)
    assert path == "b" and np.allclose(found, values) if isinstance(values[0], float) else found == values


@pytest.mark.parametrize(
    "text",
    [
        "",
        "beta",
        "=1,2",
        "a..b=1",
        "b=linspace:0:1",
        "b=linspace:0:1:0",
        "b=linspace:0:1:2.5",
        "b=linspace:0:1:1e9",
        "b=linspace:zero:1:3",
        "b=geomspace:0:1:3",
        "b=geomspace:-1:1:3",
        "b=range:5",
        "b=range:0:1.5",
        "b=range:0:10:0",
        "b=range:0:inf",
        "b=range:0:1e30",
        "b=range:nan:2",
    ],
)
def test_what_cannot_be_read_is_a_sentence(text):
    with pytest.raises(InputError, match="VALUES are") as told:
        ranges.over(text)
    assert len(str(told.value)) < 400


@pytest.mark.parametrize(
    "values",
    [
        [],
        range(0),
        "text",
        b"bytes",
        3.0,
        None,
        {1.0, 2.0},
        {"a": 1},
        [1, 1.0],
        [0.0, -0.0],
        [1.0, float("nan")],
        [[1.0, float("inf")]],
        [1.0, None],
        [1j],
        [object()],
        [10**400],
        ["a\x1b[2J"],
        np.array(0.5),
        np.array(["2020-01-01"], "datetime64[D]"),
        itertools.count(),
    ],
)
def test_values_that_are_none_are_refused(values):
    with pytest.raises(InputError, match="beta"):
        ranges.checked("beta", values)


def test_arrays_of_any_kind_are_values():
    import jax.numpy as jnp

    for values in (np.array([1.0, 2.0]), jnp.array([1.0, 2.0]), (1.0, 2.0), (x for x in (1.0, 2.0))):
        assert ranges.checked("b", values) == [1.0, 2.0]
    assert ranges.checked("b", np.eye(2)) == [[1.0, 0.0], [0.0, 1.0]] == ranges.checked("b", [(1.0, 0.0), (0.0, 1.0)])
    assert [type(one) for one in ranges.checked("b", [np.int64(1), np.float32(0.5), np.bool_(True)])] == [
        int,
        float,
        bool,
    ]


def test_names_are_short_and_nobody_elses():
    assert short_names(["flow.attention.beta", "measure.seed"]) == ["beta", "seed"]
    assert short_names(["measure.seed", "time.seed"]) == ["measure_seed", "time_seed"]
    assert short_names(["time", "steps", "blocks"]) == ["time_value", "steps_value", "blocks_value"]
    assert short_names(["rho", "x"], frozenset({"rho"})) == ["rho_value", "x"]
    assert short_names(["flow.heads.0", "flow.heads.1"]) == ["flow_heads_0", "flow_heads_1"]
    assert len(set(short_names(["a b", "a c", "time", "time_value"]))) == 4


sizes = st.lists(st.tuples(st.integers(1, 300), st.booleans()), min_size=1, max_size=4)


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(sizes, st.integers(1, 2000))
def test_every_member_is_in_one_group(sizes, most):
    """Groups are no larger than they may be, have one member along axes of unlike ones, and follow from the axes alone."""
    axes = tuple(Axis(f"a{k}", f"a{k}", tuple(range(n)), alike) for k, (n, alike) in enumerate(sizes))
    hypothesis.assume(math.prod(map(len, axes)) <= 20_000)
    block = block_shape(axes, most)
    assert block == block_shape(axes, most) and math.prod(block) <= min(most, MOST)
    assert all(b == 1 for b, axis in zip(block, axes, strict=True) if not axis.alike)
    grid = Grid(axes, block)
    seen = np.zeros(grid.shape, int)
    for place in grid:
        seen[grid.slices(place)] += 1
        assert seen[grid.slices(place)].shape == grid.extent(place)
    assert np.all(seen == 1) and len(list(grid)) == len(grid)


def test_numbers_and_values_of_members():
    axes = Axis("flow.attention.beta", "beta", (1.0, 4.0)), Axis("measure.seed", "seed", (5, 6, 7))
    grid = Grid(axes, (2, 2))
    assert [grid.number(index) for index in np.ndindex(*grid.shape)] == list(range(6))
    assert grid.values((1, 2)) == {"flow.attention.beta": 4.0, "measure.seed": 7}
