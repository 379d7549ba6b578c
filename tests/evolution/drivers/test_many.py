"""Many runs as one program: every member is the run that it would be alone."""

import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.evolution.drivers import many, pieces
from tokenfield.evolution.motions import Sums, motion_for

STARTS = [tkf.Tokens.uniform_sphere(n=7, d=3, seed=seed) for seed in range(4)]
FLOWS = [tkf.sa(beta) for beta in (1.0, 4.0)]
HOW = {"t": 30.0, "save": 8, "until": tkf.collapsed}


@pytest.fixture(scope="module")
def runs():
    return tkf.evolve(FLOWS, STARTS, **HOW)


@pytest.fixture
def few_slots(monkeypatch):
    monkeypatch.setattr(many, "MEMORY", 3 * 8 * ((2 * 8 + 12) * 21 + 49))


def assert_same(run, alone, tolerance=1e-10):
    """The same run: states, times, steps and ending.

    Where it blows up, states change without bound: by their own speed in the few last digits of time that round-off leaves to the
    step control. So the last state may differ by so much (and is the same where both end at the same time)."""
    assert run.status is alone.status and len(run) == len(alone)
    assert int(run.steps) == int(alone.steps) and int(run.accepted) == int(alone.accepted)
    late = abs(float(run.reached) - float(alone.reached))
    assert np.max(abs(run.times - alone.times)) < 1e-9 and late < 1e-9
    blown = run.status is tkf.Status.BLOW_UP
    assert not blown or late <= 8 * np.spacing(float(alone.reached))
    slack = late + 4 * np.spacing(float(alone.reached)) if blown else 0.0
    speed = speeds(alone.flow, alone.final) if blown else {}
    for name, theirs in alone.states.arrays.items():
        gap, allowed = (
            np.array(part) for part in (abs(run.states.arrays[name] - theirs), tolerance * (1 + abs(theirs)))
        )
        allowed[-1] += slack * np.max(abs(speed.get(name, np.zeros(1))))
        assert np.all(gap <= allowed), name


def speeds(flow, mu):
    """How fast the arrays of a measure change."""
    motion = motion_for(flow, type(mu)).pose(flow, mu, Sums(None, 1e-7), 0)
    dot = jax.jvp(motion.measure, (motion.first,), (motion.rate(jnp.zeros(()), motion.first, None),))[1]
    return {name: np.asarray(array) for name, array in dot.arrays.items()}


def test_every_member_is_its_run_alone(runs):
    assert runs.batch == (2, 4) and runs.x.shape == (2, 4, 8, 7, 3) and runs.times.shape == (2, 4, 8)
    assert runs.code.shape == runs.steps.shape == runs.accepted.shape == runs.reached.shape == (2, 4)
    assert set(np.ravel(runs.code).tolist()) == {tkf.Status.STOPPED, tkf.Status.COMPLETED}, "some stop, others do not"
    for i, flow in enumerate(FLOWS):
        for j, mu0 in enumerate(STARTS):
            member = runs.member(i, j)
            assert_same(member, tkf.evolve(flow, mu0, **HOW))
            assert eqx.tree_equal(member.flow, flow) and member.provenance.seed == j


def test_members_that_stop_hold_their_last_state(runs):
    assert np.all(np.isfinite(runs.x)) and np.all(runs.times <= runs.reached[..., None])
    stopped = np.asarray(runs.code) == tkf.Status.STOPPED
    assert np.all(runs.times[stopped][:, -1] == runs.reached[stopped])
    assert np.allclose(runs.final.spread[stopped], 1e-3, rtol=1e-6)


def test_one_flow_or_one_start_gives_one_axis(runs):
    one_flow = tkf.evolve(FLOWS[0], STARTS, **HOW)
    one_start = tkf.evolve(tuple(FLOWS), STARTS[1], **HOW)
    assert one_flow.batch == (4,) and one_start.batch == (2,)
    assert np.max(abs(one_flow.x - runs.x[0])) < 1e-12 and np.max(abs(one_start.x - runs.x[:, 1])) < 1e-12
    assert one_start.member(-1).provenance.seed == 1 and one_flow.member(2).provenance.seed == 2


def test_a_batch_of_tokens_is_a_list_of_starts(runs):
    xs = jnp.stack([mu.x for mu in STARTS])
    batch = tkf.evolve(FLOWS, jax.vmap(tkf.Tokens)(xs), **HOW)
    shared = tkf.evolve(FLOWS, STARTS[0].with_points(xs), **HOW)  # one set of weights for all
    assert np.array_equal(batch.x, runs.x) and np.array_equal(shared.x, runs.x)


def test_more_members_than_slots(runs, few_slots, monkeypatch):
    """Members enter as others leave; and nobody's steps are done twice."""
    pieces, advance = [], many._advance

    def counting(fixed, walkers, states):
        before = np.array(walkers.steps)
        after = advance(fixed, walkers, states)
        pieces.append(int(np.sum(np.asarray(after[1].steps) - before)))
        return after

    monkeypatch.setattr(many, "_advance", counting)
    again = tkf.evolve(FLOWS, STARTS, **HOW)
    assert np.max(abs(again.x - runs.x)) < 1e-12 and np.array_equal(again.steps, runs.steps)
    assert np.max(abs(again.reached - runs.reached)) < 1e-9 and len(pieces) > 2
    assert sum(pieces) == int(np.sum(runs.steps))


def test_steps_that_pass_many_save_times(few_slots):
    """Strips of pages, more in a step than there are slots, and more in a run than an album has: every page is written once."""
    how = {"t": 30.0, "save": np.unique(np.concatenate([np.linspace(0, 30, 301), np.linspace(10, 10.1, 200)]))}
    runs = tkf.evolve(FLOWS, STARTS, **how)
    assert_same(runs.member(1, 2), tkf.evolve(FLOWS[1], STARTS[2], **how))
    kept = tkf.evolve(FLOWS, STARTS, observe="mean_overlap", **how)
    assert np.max(abs(kept.mean_overlap - tkf.observe.mean_overlap(runs))) < 1e-13


def test_the_last_ones_move_to_fewer_slots(runs, few_slots, monkeypatch):
    monkeypatch.setattr(many, "WORTH_COMPILING", 0.0)
    monkeypatch.setattr(pieces, "PIECE_SECONDS", 1e-9)
    shrunk, shrink = [], many.Slots.shrink
    monkeypatch.setattr(many.Slots, "shrink", lambda self: (shrink(self), shrunk.append(len(self.who))))
    again = tkf.evolve(FLOWS, STARTS, **HOW)
    assert shrunk == [1]
    assert np.max(abs(again.x - runs.x)) < 1e-12 and np.array_equal(again.steps, runs.steps)


def test_a_member_that_blows_up_does_not_hurt_the_others():
    """One token under unnormalized attention in R: ẋ = e^{x²} x blows up at ½E₁(x₀²), see test_endings."""
    from scipy.special import exp1

    flow, starts = tkf.Flow(tkf.Unnormalized(1.0), tkf.Free()), [tkf.Tokens([[r]]) for r in (0.01, 0.5, 100.0)]
    runs = tkf.evolve(flow, starts, t=1.0, save=6)
    assert runs.code.tolist() == [tkf.Status.COMPLETED, tkf.Status.BLOW_UP, tkf.Status.BLOW_UP]
    assert np.all(np.isfinite(runs.x)) and len(runs.member(0)) == 6 and len(runs.member(2)) == 1
    assert float(runs.reached[1]) == pytest.approx(0.5 * exp1(0.25), rel=1e-5) and float(runs.reached[2]) == 0
    end = float(runs.x[0, -1, 0, 0])  # ½(E₁(x₀²) - E₁(x²)) is the time from x₀ to x
    assert 0.5 * (exp1(1e-4) - exp1(end**2)) == pytest.approx(1.0, rel=1e-5)
    assert "1 completed, 2 blow_up" in str(runs) and "blows up" in str(runs)
    assert_same(runs.member(1), tkf.evolve(flow, starts[1], t=1.0, save=6))


def test_steps_are_counted_a_member(runs):
    short = tkf.evolve(FLOWS, STARTS, max_steps=20, **HOW)
    assert int(np.max(short.steps)) == 20 and np.all(np.asarray(short.code)[np.asarray(runs.steps) > 20] == 2)
    assert np.all(np.isfinite(short.x))


def test_ctrl_c_keeps_what_was_computed(few_slots, monkeypatch):
    advance = many._advance

    def pressed(*arguments):
        signal.raise_signal(signal.SIGINT)
        return advance(*arguments)

    monkeypatch.setattr(many, "_advance", pressed)
    runs = tkf.evolve(FLOWS, STARTS, **HOW)
    assert runs.status is tkf.Status.INTERRUPTED and np.all(np.isfinite(runs.x))
    assert runs.steps[0].tolist()[:3] == [4, 4, 4] and int(runs.steps[1, 3]) == 0
    last = runs.member(1, 3)
    assert len(last) == 1 and np.allclose(last.final.x, STARTS[3].x) and float(last.reached) == 0


@pytest.mark.slow
def test_other_measures():
    flows, mu0 = [tkf.sa(beta) for beta in (1.0, 5.0)], tkf.Equiangular(rho=0.1, n=50)
    runs = tkf.evolve(flows, mu0, t=3.0, save=4)
    assert runs.rho.shape == (2, 4)
    for i, flow in enumerate(flows):
        assert_same(runs.member(i), tkf.evolve(flow, mu0, t=3.0, save=4))


def test_gaussians_some_of_which_blow_up():
    flow = tkf.Flow(tkf.Softmax(A=[[0.5, 0.1], [-0.1, 0.2]]))
    starts = [tkf.Gaussian([0.0, 0.1], [[a, 0.3], [0.3, 0.6]]) for a in (0.3, 1.0)]
    runs = tkf.evolve(flow, starts, t=1.2, save=4)
    assert runs.cov.shape == (2, 4, 2, 2) and runs.code.tolist() == [tkf.Status.COMPLETED, tkf.Status.BLOW_UP]
    for j, start in enumerate(starts):
        assert_same(runs.member(j), tkf.evolve(flow, start, t=1.2, save=4))


def test_noise_differs_from_member_to_member_and_can_be_drawn_again():
    """With steps of a given length, drawn step by step; with steps that adapt, see test_noise."""
    flows, how = [tkf.sa(2.0, kappa=4.0)] * 3, {"t": 1.0, "save": 3, "step": 0.1}
    runs = tkf.evolve(flows, STARTS[0], seed=7, **how)
    assert len({float(x) for x in runs.final.x[:, 0, 0]}) == 3 and len(set(runs.provenance.noise)) == 3
    member = runs.member(1)
    assert_same(member, tkf.evolve(flows[1], STARTS[0], seed=member.provenance.noise, **how))
    other = tkf.evolve(flows, STARTS[0], seed=8, **how)
    assert not set(runs.provenance.noise) & set(other.provenance.noise)


def test_a_batch_tells_its_story(runs):
    told = str(runs)
    assert "Ensemble of 2 × 4 runs, each of n = 7, d = 3 on the sphere" in told
    assert "beta=1" in told and "beta=4" in told and "stopped at t = " in told and "completed" in told
    assert f"{np.min(runs.steps)} to {np.max(runs.steps)} steps, median" in told and "took" in told


def test_a_member_is_a_run_like_any_other(runs, tmp_path):
    member = runs.member(0, 0)
    member.save(tmp_path / "run.zarr")
    again = tkf.Trajectory.load(tmp_path / "run.zarr")
    assert np.array_equal(again.x, member.x) and again.provenance.seed == 0
    assert "Trajectory of n = 7" in str(member)
    for index in [(0,), (2, 0), (0, 0, 0)]:
        with pytest.raises(InputError, match="indices below"):
            runs.member(*index)


@pytest.mark.parametrize(
    ("flow", "mu0", "match"),
    [
        (FLOWS[0], [STARTS[0], tkf.Tokens.uniform_sphere(n=7, d=2)], "cannot stand in one array"),
        (FLOWS[0], [STARTS[0], tkf.Tokens(STARTS[0].x, s=np.linspace(0, 1, 7))], "cannot stand in one array"),
        (FLOWS[0], [STARTS[0], tkf.Equiangular(0.1, 7)], "must be of one kind, but these are Equiangular and Tokens"),
        ([], STARTS, "empty list"),
        (FLOWS, [], "empty list"),
        ([tkf.sa(1.0), 3.0], STARTS, "flow 1 is a float"),
        (FLOWS, [STARTS[0], np.eye(3)], "start 1 is"),
        (FLOWS, STARTS[0].with_points(jnp.ones((2, 2, 7, 3))), "one leading axis"),
        (tkf.sa(1.0), [tkf.Tokens(np.eye(3)), tkf.Tokens(np.diag([1.0, 1.0, 0.0]))], "zero vector"),
    ],
)
def test_members_that_make_no_ensemble_are_refused(flow, mu0, match):
    with pytest.raises(InputError, match=match):
        tkf.evolve(flow, mu0, t=1.0)


def test_unlike_members_have_programs_of_their_own():
    """A function of time beside numbers, two normalizations, two numbers of tokens."""
    flows = [tkf.sa(1.0), tkf.sa(lambda t: 1 + t), tkf.Flow(tkf.Softmax(1.0), tkf.PreLN()), tkf.sa(3.0)]
    starts = [STARTS[0], tkf.Tokens.uniform_sphere(n=5, d=3, seed=8)]
    runs = tkf.evolve(flows, starts, t=1.0, save=3)
    assert runs.batch == (4, 2) and runs.x.shape == (4, 2, 3, 7, 3) and runs.provenance.axes == ("flow", "start")
    assert np.all(np.asarray(runs.states.w)[:, 1, :, 5:] == 0)
    for i in range(4):
        for j in (0, 1):
            assert_same(runs[i, j], tkf.evolve(flows[i], starts[j], t=1.0, save=3))
            assert runs[i, j].flow is flows[i]
    overlaps = tkf.observe.mean_overlap(runs)
    assert np.allclose(overlaps[2, 1], tkf.observe.mean_overlap(runs[2, 1]), atol=1e-14), "weight 0 counts for nothing"


def test_flow_i_from_start_i():
    flows = [tkf.sa(1.0), tkf.sa(4.0), tkf.sa(2.0), tkf.Flow(tkf.Softmax(1.0), tkf.PreLN())]
    runs = tkf.evolve(flows, STARTS, t=1.0, save=3, zipped=True)
    assert runs.batch == (4,) and runs.provenance.axes == ("run",)
    for k in range(4):
        assert_same(runs.member(k), tkf.evolve(flows[k], STARTS[k], t=1.0, save=3))
        assert runs.member(k).provenance.seed == k
    for flow, mu0 in ((flows[:3], STARTS), (flows[0], STARTS), (flows[0], STARTS[0])):
        with pytest.raises(InputError, match="start i"):
            tkf.evolve(flow, mu0, t=1.0, zipped=True)


def test_members_in_coordinates_of_their_own_spans():
    """Fewer tokens than dimensions, zipped: every member comes back in its own basis."""
    starts = [tkf.Tokens.uniform_sphere(n=4, d=12, seed=s) for s in range(3)]
    runs = tkf.evolve([tkf.sa(b) for b in (1.0, 2.0, 4.0)], starts, t=1.0, save=3, zipped=True)
    assert runs.provenance.summation == "span"
    for k in range(3):
        assert (
            np.max(abs(runs.member(k).x - tkf.evolve(tkf.sa([1.0, 2.0, 4.0][k]), starts[k], t=1.0, save=3).x)) < 1e-12
        )


def test_watching_and_tracing_are_refused():
    with pytest.raises(InputError, match="follows one run"):
        tkf.evolve(FLOWS, STARTS, t=1.0, watch=print)
    with pytest.raises(InputError, match=r"jax\.vmap"):
        jax.jit(lambda b: tkf.evolve([tkf.sa(b), tkf.sa(2.0)], STARTS[0], t=1.0).x)(1.0)


def test_ensembles_on_the_circle_are_summed_fast():
    """One summation for all, for the largest β; members are those of dense sums."""
    flows = [tkf.sa(beta) for beta in (1.0, 30.0)]
    starts = [tkf.Tokens.uniform_sphere(300, 2, seed=seed) for seed in range(2)]
    ours, dense = (tkf.evolve(flows, starts, t=1.0, save=3, summation=how) for how in (None, "dense"))
    assert ours.provenance.summation.startswith("circle") and dense.provenance.summation == "dense"
    assert np.max(abs(ours.x - dense.x)) < 1e-11
    few = tkf.evolve(flows, [tkf.Tokens.uniform_sphere(20, 2, seed=0)], t=1.0, save=2)
    assert few.provenance.summation == "dense"


def test_ensembles_refuse_sums_that_do_not_serve_all():
    flows, start = [tkf.sa(1.0), tkf.sa(4.0)], tkf.Tokens.uniform_sphere(150, 4, seed=0)
    with pytest.raises(tkf.errors.InputError, match="'circle' does not serve here"):
        tkf.evolve(flows, start, t=1.0, summation="circle")
