"""A sweep is what `evolve` and `layers` compute, with the right labels."""

import itertools

import numpy as np
import pytest

import tokenfield as tkf
from tests.sweeps.tiny import BETA, END, SEED, SPEC, close, spec
from tokenfield.errors import InputError

BETAS, SEEDS = [1.0, 4.0], [0, 1, 2]


def starts(n=4, d=2):
    return [tkf.Tokens.uniform_sphere(n=n, d=d, seed=seed) for seed in SEEDS]


def flows(**parts):
    return [tkf.sa(beta, **parts) for beta in BETAS]


@pytest.fixture(scope="module")
def runs():
    """The ensemble of all pairs, with its states."""
    return tkf.evolve(flows(), starts(), 2.0, save=5)


def overlaps(mine=None, t=2.0, **options):
    return tkf.evolve(mine or flows(), starts(), t, observe="mean_overlap", **{"save": 5, **options})


def test_a_spec_over_two_fields_is_an_ensemble(runs):
    grid = tkf.sweep(SPEC, over={BETA: BETAS, SEED: SEEDS}, observe="mean_overlap", workers=0)
    assert grid.mean_overlap.dims == ("beta", "seed", "time") and close(grid.time, np.linspace(0, 2, 5))
    assert grid.beta.values.tolist() == BETAS and grid.seed.values.tolist() == SEEDS
    assert close(grid.mean_overlap, tkf.observe.mean_overlap(runs))
    assert np.array_equal(grid.status, runs.code) and np.array_equal(grid.steps, runs.steps)
    assert np.array_equal(grid.reached, runs.reached)


def test_the_order_of_axes_is_the_users(runs):
    """Every member is found under its own labels, whichever parameter comes first."""
    grid = tkf.sweep(SPEC, over={SEED: SEEDS[::-1], BETA: BETAS}, observe="mean_overlap", workers=0)
    assert grid.mean_overlap.dims == ("seed", "beta", "time")
    known = tkf.observe.mean_overlap(runs)
    for (i, beta), (j, seed) in itertools.product(enumerate(BETAS), enumerate(SEEDS)):
        assert close(grid.mean_overlap.sel(beta=beta, seed=seed), known[i, j])


def test_flows_and_starts_that_are_functions():
    """A parameter may be one of the flow's, of the start's, or of both; functions take those that they name. Members differ in n
    and in d."""
    sizes = [[4, 2], [6, 3]]
    grid = tkf.sweep(
        lambda beta, size: tkf.sa(beta, V=np.eye(size[1])),
        lambda size, seed: tkf.Tokens.uniform_sphere(n=size[0], d=size[1], seed=seed),
        t=2.0,
        over={"beta": BETAS, "size": sizes, "seed": SEEDS},
        observe="mean_overlap",
        keep="states",
        save=5,
        workers=0,
    )
    assert dict(grid.sizes) == {"beta": 2, "size": 2, "seed": 3, "time": 5, "token": 6, "component": 3}
    for k, (n, d) in enumerate(sizes):
        alone = tkf.evolve(flows(V=np.eye(d)), starts(n, d), 2.0, save=5)
        mine = grid.isel(size=k)
        assert close(mine.mean_overlap, tkf.observe.mean_overlap(alone))
        assert close(mine.x[..., :n, :d], alone.x) and close(mine.w[..., :n], 1 / n)
        assert np.isnan(mine.x[..., n:, :]).all() and np.isnan(mine.x[..., d:]).all(), "smaller members are filled up"


def test_kinds_of_attention_are_values(runs):
    over = {"flow.attention.kind": ["softmax", "l2"], BETA: BETAS, SEED: SEEDS}
    grid = tkf.sweep(SPEC, over=over, observe="mean_overlap", workers=0)
    assert grid.kind.values.tolist() == ["softmax", "l2"]
    assert close(grid.mean_overlap.sel(kind="softmax"), tkf.observe.mean_overlap(runs))
    other = overlaps([tkf.Flow(tkf.L2(beta), tkf.PostLN()) for beta in BETAS])
    assert close(grid.mean_overlap.sel(kind="l2"), other.observed["mean_overlap"])


def test_options_are_axes():
    """End times, tolerances and numbers of saved states; members then have times of their own."""
    grid = tkf.sweep(SPEC, over={END: [1.0, 2.0], BETA: BETAS, SEED: SEEDS}, observe="mean_overlap", workers=0)
    assert grid.times.dims == ("end", "beta", "seed", "time") and "time" not in grid.coords
    for end in (1.0, 2.0):
        assert close(grid.mean_overlap.sel(end=end), overlaps(t=end).observed["mean_overlap"])
        assert close(grid.times.sel(end=end, beta=4.0, seed=0), np.linspace(0, end, 5))
    start = lambda seed: tkf.Tokens.uniform_sphere(n=4, d=2, seed=seed)
    over = {"save": [3, 5], "rtol": [1e-4, 1e-8], "beta": BETAS, "seed": SEEDS}
    grid = tkf.sweep(lambda beta: tkf.sa(beta), start, 2.0, over=over, observe="mean_overlap", workers=0)
    for rtol, save in itertools.product([1e-4, 1e-8], [3, 5]):
        known, mine = overlaps(rtol=rtol, save=save), grid.sel(rtol=rtol, save=save)
        assert np.array_equal(mine.steps, known.steps)
        assert close(mine.mean_overlap[..., :save], known.observed["mean_overlap"])
        assert close(mine.mean_overlap[..., save:], mine.mean_overlap[..., save - 1 : save]), "the last is held"
    assert (grid.steps.sel(rtol=1e-4) < grid.steps.sel(rtol=1e-8)).all()


def test_stopping_early_is_no_failure():
    """A member that stops holds its last state, and says when it stopped."""
    over = {BETA: BETAS, SEED: SEEDS}
    grid = tkf.sweep(spec(time__until="collapsed", time__end=1e3), over=over, observe="mean_overlap", workers=0)
    known = overlaps(t=1e3, until=tkf.collapsed)
    assert set(grid.status.values.ravel().tolist()) == {tkf.Status.STOPPED} and close(grid.reached, known.reached)
    assert close(grid.mean_overlap, known.observed["mean_overlap"])


def test_layers_are_swept():
    discrete = {**{name: part for name, part in SPEC.items() if name != "time"}, "layers": {"depth": 6, "save": 4}}
    over = {"layers.step": [0.5, 1.0], BETA: BETAS, SEED: SEEDS}
    grid = tkf.sweep(discrete, over=over, observe=["mean_overlap", "clusters"], workers=0)
    for step in (0.5, 1.0):
        known, mine = tkf.layers(flows(), starts(), 6, step, save=4), grid.sel(step=step)
        assert close(mine.mean_overlap, tkf.observe.mean_overlap(known)) and close(mine.times, known.times)
        assert [[[len(one) for one in run] for run in line] for line in tkf.observe.clusters(known)] == (
            mine.clusters.values.tolist()
        )
    assert not set(grid.variables) & {"noise"} and set(grid.steps.values.ravel().tolist()) == {6}


def test_quantities_of_measures():
    """ρ of equiangular tokens is kept as such, beside a parameter of the same name."""
    rhos = [0.0, 0.1, 0.5]
    over = {"beta": BETAS, "rho": rhos}
    start = lambda rho: tkf.Equiangular(rho=rho, n=8)
    grid = tkf.sweep(lambda beta: tkf.sa(beta), start, 2.0, over=over, observe="rho", save=5, workers=0)
    known = tkf.evolve(flows(), [start(rho) for rho in rhos], 2.0, save=5)
    assert grid.rho.dims == ("beta", "rho_value", "time") and close(grid.rho, known.rho)


def test_what_is_looked_at_on_the_host(runs):
    """Clusters are counted as `tkf.observe.clusters` counts them, under a name of the user's own as well; beside them functions,
    and states, with axes of their own."""
    observe = {"groups": "clusters", "overlap": "mean_overlap", "first": lambda mu: mu.x[0]}
    grid = tkf.sweep(SPEC, over={BETA: BETAS, SEED: SEEDS}, observe=observe, keep="states", workers=0)
    counted = [[[len(one) for one in run] for run in line] for line in tkf.observe.clusters(runs)]
    assert grid.groups.dtype == np.int64 and grid.groups.values.tolist() == counted and len(np.unique(counted)) > 1
    assert close(grid.overlap, tkf.observe.mean_overlap(runs))
    assert grid["first"].dims == ("beta", "seed", "time", "first_0") and close(grid["first"], runs.x[..., 0, :])
    assert grid.x.dims == ("beta", "seed", "time", "token", "component") and close(grid.x, runs.x)


def test_noise():
    """A member is the run of its seed, which the sweep keeps; seeds are an axis, and those that are none are recorded."""
    noisy, flow = spec(flow__kappa=2.0, time__seed=7, time__end=0.5), tkf.sa(1.0, kappa=2.0)
    grid = tkf.sweep(noisy, over={SEED: SEEDS}, observe="mean_overlap", workers=0)
    seeds = grid.noise.values.tolist()
    assert len(set(seeds)) == 3, "every member has noise of its own"
    known = tkf.evolve(flow, starts(), 0.5, save=5, observe="mean_overlap", seed=seeds)
    assert close(grid.mean_overlap, known.observed["mean_overlap"])
    alone = lambda seed, k=0: tkf.evolve(flow, starts()[k], 0.5, save=5, observe="mean_overlap", seed=seed)
    single = alone(seeds[2], 2).observed["mean_overlap"]
    assert np.allclose(grid.mean_overlap[2], single, rtol=0, atol=1e-9)
    over = {"time.seed": [3, -4, 1.5, 4]}
    grid = tkf.sweep(noisy, over=over, observe="mean_overlap", workers=0)
    assert grid.status.values.tolist() == [0, -3, -3, 0] and grid.noise.values.tolist() == [3, -1, -1, 4]
    assert close(grid.mean_overlap[3], alone(4).observed["mean_overlap"]) and "time" in grid.coords
    grid = tkf.sweep(flow, starts()[0], 0.5, over={"seed": [4, -1]}, observe="mean_overlap", save=5, workers=0)
    assert close(grid.mean_overlap[0], alone(4).observed["mean_overlap"])


def test_names_that_something_else_has():
    """A parameter that is called as a result of every sweep has another name there; an observable is refused."""
    start = lambda seed: tkf.Tokens.uniform_sphere(n=4, d=2, seed=seed)
    over = {"steps": BETAS, "seed": SEEDS}
    grid = tkf.sweep(lambda steps: tkf.sa(steps), start, 2.0, over=over, observe="mean_overlap", save=5, workers=0)
    assert grid.mean_overlap.dims == ("steps_value", "seed", "time") and grid.steps.dims == ("steps_value", "seed")
    for name in ("status", "time", "blocks", "noise", "x", "no name", ""):
        with pytest.raises(InputError, match="cannot be called"):
            tkf.sweep(SPEC, over={SEED: SEEDS}, observe={name: "mean_overlap"}, workers=0)
    with pytest.raises(InputError, match="Two observables are called"):
        tkf.sweep(SPEC, over={SEED: SEEDS}, observe=["mean_overlap", "mean_overlap"], workers=0)


def test_members_that_are_larger_than_those_looked_at_are_told():
    """Shapes are known from some members; one that surprises is recorded, and stops nothing."""
    surprise = lambda k: tkf.Tokens.uniform_sphere(n=6 if k == 1 else 4, d=2, seed=k)
    grid = tkf.sweep(tkf.sa(1.0), surprise, 2.0, over={"k": range(4)}, keep="states", save=5, workers=0)
    assert grid.status.values.tolist() == [0, -3, 0, 0] and "let expect" in grid.failures
    assert close(grid.x[3], tkf.evolve(tkf.sa(1.0), surprise(3), 2.0, save=5).x)


def test_files_that_parameters_name_are_part_of_the_sweep(tmp_path):
    """A file of numbers that has changed makes another sweep."""
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.eye(4)[:, :2] + 0.1)
    files = {**SPEC, "measure": {"kind": "file", "path": str(tmp_path / "a.npy")}}
    paths = [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]
    sweep = lambda: tkf.sweep(
        files,
        over={BETA: [1.0, 4.0, 9.0], "measure.path": paths},
        observe="mean_overlap",
        out=tmp_path / "grid.zarr",
        workers=0,
    )
    grid = sweep()
    assert close(grid.mean_overlap[:, 0], grid.mean_overlap[:, 1])
    np.save(tmp_path / "b.npy", np.eye(4)[:, :2] - 0.3)
    with pytest.raises(InputError, match=r"b\.npy"):
        sweep()


def test_a_sweep_needs_something_to_keep_and_to_vary():
    for arguments, words in (
        ({"over": {SEED: SEEDS}}, "keeps observables, states, or both"),
        ({"over": {}, "observe": "mean_overlap"}, "one parameter or more"),
        ({"over": {SEED: SEEDS}, "keep": "all"}, "'states' or left out"),
        ({"over": {SEED: SEEDS}, "observe": "overlap"}, "Did you mean"),
        ({"over": {"flow.attention.betta": [1.0]}, "observe": "mean_overlap"}, "betta"),
        ({"over": {"colour": [1.0]}, "observe": "mean_overlap"}, "no such field"),
        ({"over": {SEED: SEEDS}, "observe": "mean_overlap", "rtol": 1e-3}, "A spec says everything itself"),
    ):
        with pytest.raises(InputError, match=words):
            tkf.sweep(SPEC, workers=0, **arguments)
    with pytest.raises(InputError, match="needs a start and an end time"):
        tkf.sweep(tkf.sa(1.0), over={"seed": [1]}, observe="mean_overlap")
    with pytest.raises(InputError, match="has a parameter 'betta'"):
        tkf.sweep(lambda beta: tkf.sa(beta), starts()[0], 1.0, over={"betta": [1.0]}, observe="mean_overlap")
    with pytest.raises(TypeError, match="no option 'rtl'"):
        tkf.sweep(tkf.sa(1.0), starts()[0], 1.0, over={"rtol": [1e-3]}, observe="mean_overlap", rtl=1e-3)
