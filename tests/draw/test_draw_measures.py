"""Runs of Gaussians, densities and equiangular tokens are drawn, whole; so is one measure."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import tokenfield as tkf
from tokenfield.draw import picture_of
from tokenfield.draw.densities import Profiles, pooled
from tokenfield.draw.density_runs import curves, parallel
from tokenfield.draw.equiangular import decay
from tokenfield.draw.gaussians import Ellipses
from tokenfield.draw.page import moments
from tokenfield.draw.view import globe
from tokenfield.errors import InputError, StoreError
from tokenfield.trajectory import Provenance

NOISY, NOISY_SA = tkf.usa(1.0, kappa=1.0), tkf.sa(1.0, kappa=2.0)
SHRINKING, GROWING = (tkf.Flow(tkf.Softmax(A=A)) for A in (-np.eye(2), [[0.5, 0.1], [-0.1, 0.2]]))
GAUSSIAN = [[1.0, 0.3], [0.3, 0.6]]


def along(flow, states, end):
    """A run whose states are known."""
    times, zero = jnp.linspace(0, end, len(next(iter(states.arrays.values())))), jnp.zeros((), int)
    return tkf.Trajectory(times, states, flow, jnp.asarray(end), zero, zero, zero, Provenance("none", 0.0, 0.0, "none"))


def rising(mu):
    """Densities from nearly uniform to a given one."""
    return mu.with_coefficients(
        jnp.linspace(0.1, 1, 12)[:, None] ** (np.arange(len(mu.coefficients)) > 0) * mu.coefficients
    )


def narrowing(d):
    """Gaussians whose means run away."""
    t = jnp.linspace(0, 3, 12)
    cov = jnp.exp(-t[:, None, None] * np.arange(d)) * np.eye(d) + 0.1
    return tkf.Gaussian(np.ones(d), np.eye(d)).with_moments(jnp.exp(t)[:, None] * np.ones(d), cov)


def closing():
    return jax.vmap(lambda t: tkf.Equiangular(log_gap=-jnp.logaddexp(0, 2 * t - 9), n=256, r=1 + t))(
        jnp.linspace(0, 20, 12)
    )


MAKERS = {
    "equiangular": lambda: along(tkf.sa(5.0), closing(), 20.0),
    "gaussian": lambda: tkf.evolve(SHRINKING, tkf.Gaussian([1.0, 0.5], GAUSSIAN), 6.0, save=60),
    "blow-up": lambda: tkf.evolve(GROWING, tkf.Gaussian([0.0, 0.0], GAUSSIAN), 5.0, save=60),
    "five dimensions": lambda: along(tkf.Flow(tkf.Softmax(A=-np.eye(5))), narrowing(5), 3.0),
    "line": lambda: along(tkf.Flow(tkf.Softmax(A=-np.eye(1))), narrowing(1), 3.0),
    "circle": lambda: along(NOISY, rising(tkf.CircleDensity.wave(0.9, k=3, degree=16)), 2.0),
    "sphere": lambda: along(NOISY_SA, rising(tkf.SphereDensity.wave(0.9, l=3, degree=8)), 2.0),
    "zonal": lambda: along(NOISY_SA, rising(tkf.SphereDensity.wave(0.9, degree=16, d=8, zonal=True)), 2.0),
}
MEASURES = [name for name in MAKERS if name != "equiangular"]


@pytest.fixture(scope="module")
def runs():
    """Every kind of run, made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = MAKERS[name]()
        return made[name]

    return get


def part(run, count):
    """The first saved states."""
    arrays = list(run.states.arrays)
    states = eqx.tree_at(
        lambda mu: [getattr(mu, name) for name in arrays],
        run.states,
        [array[:count] for array in run.states.arrays.values()],
    )
    return eqx.tree_at(lambda it: (it.times, it.states), run, (run.times[:count], states))


def colours(path):
    with Image.open(path) as image:
        return len(image.convert("RGB").getcolors(1 << 24))


def words(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


@pytest.mark.parametrize("name", MAKERS)
def test_picture(tmp_path, runs, name):
    assert runs(name).plot(tmp_path / "run.png") == tmp_path / "run.png"
    with Image.open(tmp_path / "run.png") as image:
        assert image.size == (1800, 960)
    assert colours(tmp_path / "run.png") > 20, "not an empty page"


@pytest.mark.parametrize("name", MAKERS)
def test_movie(tmp_path, runs, name):
    with Image.open(runs(name).animate(tmp_path / "run.gif", seconds=0.12)) as image:
        assert image.n_frames == 3
        assert image.size == (704, 792)
    assert [path.name for path in tmp_path.iterdir()] == ["run.gif"]


def test_movie_as_mp4(tmp_path, runs):
    mp4 = runs("gaussian").animate(tmp_path / "run.mp4", seconds=0.4)
    assert mp4.suffix == ".mp4" and mp4.read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize("name", MEASURES)
def test_one_measure(tmp_path, runs, name):
    assert runs(name).final.plot(tmp_path / "measure.png") == tmp_path / "measure.png"
    assert colours(tmp_path / "measure.png") > 20


@pytest.mark.parametrize("d", [1, 2, 3, 9])
def test_one_cloud_of_tokens(tmp_path, d):
    mu = tkf.Tokens.gaussian(60, d, seed=0)
    assert mu.plot(tmp_path / "tokens.png") == tmp_path / "tokens.png"
    assert colours(tmp_path / "tokens.png") > 20
    assert repr(mu) in words(mu.plot()) and ("first two principal axes" in words(mu.plot())) == (d == 9)


def test_tokens_on_a_sphere_and_at_one_point_are_drawn_and_many_are_thinned():
    assert tkf.Tokens.uniform_sphere(40, 3, seed=0).plot().get_axes()
    assert tkf.Tokens(np.zeros((3, 2))).plot().get_axes()
    assert "5000 tokens drawn" in words(tkf.Tokens.gaussian(6000, 2, seed=0).plot())


@pytest.mark.parametrize("name", MAKERS)
def test_one_saved_state(runs, name):
    assert part(runs(name), 1).plot().get_axes()


def test_a_blow_up_names_its_time(runs):
    run = runs("blow-up")
    assert run.status is tkf.Status.BLOW_UP
    assert f"blows up at t* = {float(run.reached):.6g}" in words(run.plot())
    assert not any("blows up" in word for word in words(runs("gaussian").plot()))


@pytest.mark.parametrize("name", ["gaussian", "circle"])
def test_bad_paths_are_refused(tmp_path, runs, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="could not be written"):
        runs(name).plot(tmp_path / "run.nonsense")
    with pytest.raises(StoreError, match="could not be written"):
        runs(name).final.plot(tmp_path / "file" / "run.png")
    with pytest.raises(InputError, match=r"\.mp4 or \.gif"):
        runs(name).animate(tmp_path / "run.png")


def test_a_batch_is_refused(runs):
    with pytest.raises(InputError, match="batch"):
        picture_of(runs("circle").states)


# What the pictures say


def test_laws_of_decay():
    t = np.linspace(0, 10, 50)
    told, power = decay(t, -2.0 * t)
    assert "e^{-2\\, t}" in told and not power
    told, power = decay(t, -1.5 * np.log1p(t * 1e6))
    assert "t^{-1.5}" in told and power
    assert decay(t, np.zeros(50)) == ("", False)


def test_equiangular_tokens_closer_than_any_number(runs):
    """1 - ρ below 1e-308 is on the page still."""
    run = eqx.tree_at(lambda it: it.states.log_gap, runs("equiangular"), replace_fn=lambda gap: 40 * gap)
    assert float(run.log_gap[-1]) < -1000
    line = run.plot().get_axes()[-1].get_lines()[0]
    assert np.allclose(line.get_ydata(), np.asarray(run.log_gap) / np.log(10))
    assert np.isfinite(line.get_ydata()).all()


def test_ellipses_share_axes_where_sizes_allow(runs):
    run = runs("blow-up")
    assert not Ellipses(run.states).shared
    first = Ellipses(part(run, 5).states)
    assert first.shared and first.box(0)[1] == first.box(4)[1]


def test_the_globe_is_seen_where_it_is():
    """The points behind the page are projected back to it, turned or not."""
    page = np.array([[0.0, 0.0], [0.5, -0.3], [-0.6, 0.7]])
    for turn in (0.0, 0.4):
        view = globe()
        points = view.points(page, turn)
        back, depth = view.project(points, turn)
        assert np.allclose(np.linalg.norm(points, axis=1), 1) and np.allclose(back, page) and (depth > 0).all()


def test_the_law_of_the_angle_has_mass_1(runs):
    panel = Profiles(runs("zonal").states)
    for i in (0, 11):
        law = parallel(panel.angle, 8) * panel.profile(i)
        assert np.trapezoid(law, panel.angle) == pytest.approx(1, abs=1e-6)


def test_peaks_are_not_lost_between_pixels():
    values = np.ones((2, 5001))
    values[0, 1234] = 99
    small = pooled(values)
    assert small.shape[1] <= 720 and small[0].max() == 99 and small[1].max() == 1


def test_free_energy_is_drawn_where_there_is_one(runs):
    assert [name for name, _ in curves(runs("circle"))] == ["R", "entropy", "free energy"]
    assert [name for name, _ in curves(runs("zonal"))] == ["R", "entropy"]


def test_one_long_step_does_not_take_all_snapshots():
    steps = np.append(np.full(20, 0.01), 5.0)
    assert len(moments(steps)) == 5 and moments(steps)[0] == 0 and moments(steps)[-1] == 21
