"""Stationary states of noisy Transformers against plain quadrature, full-space Jacobians and what is known exactly."""

import functools
from math import comb

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.optimize import brentq
from scipy.special import eval_gegenbauer, iv, ive, roots_jacobi

import tokenfield as tkf
from tokenfield import theory
from tokenfield.bifurcation import stationary
from tokenfield.bifurcation.coupling import coupling
from tokenfield.bifurcation.equation import Equation
from tokenfield.bifurcation.search import Search
from tokenfield.errors import InputError

CASES = {
    "Kuramoto": (tkf.kuramoto(), 2),
    "usa on the circle": (tkf.usa(3.0), 2),
    "usa at β = 8": (tkf.usa(8.0, scaled=True), 2),
    "usa on S²": (tkf.usa(5.0), 3),
    "usa on S⁵": (tkf.usa(2.0, V=0.5), 6),
    "sa on the circle": (tkf.sa(4.0), 2),
    "sa on S²": (tkf.sa(3.0, Q=2.0), 3),
    "negative β": (tkf.usa(-3.0, V=-1.0), 3),
    "softmax, negative β": (tkf.sa(-3.0), 2),
}


@functools.cache
def diagram(name):
    flow, d = CASES[name]
    return stationary(flow, d=d)


# An implementation of its own: harmonics from SciPy, kernels as dense matrices, integrals as plain sums.


def harmonic(l, d, t):
    """e_l(t): √dim_l at t = 1, ∫e_l² = 1."""
    if d == 2:
        return np.cos(l * np.arccos(t)) * (np.sqrt(2) if l else 1.0)
    dim = comb(l + d - 1, d - 1) - (comb(l + d - 3, d - 1) if l > 1 else 0)
    return eval_gegenbauer(l, d / 2 - 1, t) / eval_gegenbauer(l, d / 2 - 1, 1.0) * np.sqrt(dim)


def law(n, d):
    """Nodes and weights for one coordinate of a uniform point on S^{d-1}; on S⁰ it is ±1."""
    if d == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    t, w = roots_jacobi(n, (d - 3) / 2, (d - 3) / 2)
    return t, w / w.sum()


def scores(t, d):
    """<x, y> for x, y at heights t, by the angle between them around the axis, shape (n, n, m), and its weights."""
    u, w = law(90, d - 1)
    return t[:, None, None] * t[:, None] + np.sqrt(np.outer(1 - t**2, 1 - t**2))[:, :, None] * u, w


@functools.cache
def plain(name, n=180):
    """Grid, weights, harmonics and the kernel (e^{β<x,y>} - 1)/β averaged around the axis."""
    flow, d = CASES[name]
    (t, w), β = law(n, d), coupling(flow).beta
    s, angle = scores(t, d)
    return t, w, np.array([harmonic(l, d, t) for l in range(n)]), (s if β == 0 else np.expm1(β * s) / β) @ angle


def fixed_point(name, κ, f):
    """e^{κΦ[f]}/Z on the grid."""
    c = coupling(CASES[name][0])
    _, w, _, kernel = plain(name)
    sums = kernel @ (w * f)
    potential = np.exp(-c.log_unit) * sums if c.kind == "usa" or c.beta == 0 else np.log1p(c.beta * sums) / c.beta
    g = np.exp(κ * c.V * (potential - potential.max() if c.V > 0 else potential - potential.min()))
    return g / (w @ g)


@pytest.mark.parametrize("name", CASES)
def test_every_state_is_stationary(name):
    found, (t, w, e, _) = diagram(name), plain(name)
    states = [state for κ in np.geomspace(0.7, 2.9, 4) * found.kappa_c for state in found.at(κ)]
    states += [state for branch in found.branches for state in (branch[1], branch[len(branch) // 2], branch[-1])]
    assert len({state.name for state in states}) == len(found.branches) > 1
    for state in states:
        f = state.coefficients @ e[: len(state.coefficients)]
        assert np.max(abs(fixed_point(name, state.kappa, f) - f)) < 1e-10 * f.max(), state
        assert state.order == pytest.approx(abs(w @ (t * f)), abs=1e-11)
        assert np.allclose(state.density(t[::20]), f[::20], atol=1e-11 * f.max())


# The circle, where everything can be checked in the space of all densities.


class FokkerPlanck:
    """-∂(f v) + κ⁻¹ ∂²f, v = V ∫e^{β cos(θ-φ)} sin(φ-θ) f dφ/2π or its quotient, on a grid with Fourier derivatives."""

    def __init__(self, flow, κ, n=181):
        self.θ, self.κ, self.c, k = 2 * np.pi * np.arange(n) / n, κ, coupling(flow), np.fft.fftfreq(n, 1 / n)
        gap = self.θ[None, :] - self.θ[:, None]
        self.kernel = np.exp(self.c.beta * np.cos(gap) - self.c.log_unit) / n
        self.pull = self.c.V * self.kernel * np.sin(gap)
        self.slope = np.fft.ifft(1j * k[:, None] * np.fft.fft(np.eye(n), axis=0), axis=0).real

    def __call__(self, f):
        v = self.pull @ f if self.c.kind == "usa" else (self.pull @ f) / (self.kernel @ f)
        return self.slope @ (self.slope @ f / self.κ - f * v)

    def spectrum(self, f, h=1e-4):
        """Eigenvalues of the Jacobian by central differences (exact for USA, which is quadratic), in units of 1/κ."""
        nudges = h * np.eye(len(f))
        jacobian = (self(f[:, None] + nudges) - self(f[:, None] - nudges)) / (2 * h)
        return self.κ * np.linalg.eigvals(jacobian).real


@pytest.mark.parametrize("name", ["Kuramoto", "usa on the circle", "usa at β = 8", "sa on the circle"])
def test_stability_on_the_circle(name):
    """The count of unstable directions is that of the Fokker–Planck equation's Jacobian, even and odd modes alike."""
    (flow, _), found = CASES[name], diagram(name)
    counts = set()
    for κ in [*(1.004 * found.folds[:1]), 1.1 * found.kappa_c, 1.4 * found.kappa_c]:
        equation = FokkerPlanck(flow, κ)
        for state in found.at(κ):
            f = sum(c * harmonic(l, 2, np.cos(equation.θ)) for l, c in enumerate(state.coefficients))
            assert np.max(abs(equation(f))) < 1e-6 * f.max() / κ, "it is at rest"
            assert np.sum(equation.spectrum(f) > 1e-5) == state.unstable, state
            counts.add(state.unstable)
    assert len(counts) > 1, "stable and unstable ones"


@pytest.mark.parametrize(
    ("flow", "κ"), [(tkf.usa(3.0), 1.7), (tkf.sa(3.0, V=0.5), 9.0), (tkf.usa(6.0, scaled=True), 30)]
)
def test_growth_rates(flow, κ):
    exact = np.sort(FokkerPlanck(flow, κ, n=25).spectrum(np.ones(25))) / κ
    rates = np.append(0.0, np.repeat(theory.growth_rates(flow, 2, 12, κ)[1:], 2))  # cos and sin
    assert np.allclose(exact, np.sort(rates), atol=1e-6)
    assert theory.most_unstable(flow, 2, κ) == np.argmax(theory.growth_rates(flow, 2, 12, κ))


def test_stability_on_the_sphere():
    """The second variation of F on a grid of S², without any use of the axis."""
    found = diagram("usa on S²")
    t, w = law(20, 3)
    φ = 2 * np.pi * np.arange(27) / 27
    height, angle = (grid.ravel() for grid in np.meshgrid(t, φ, indexing="ij"))
    r = np.sqrt(1 - height**2)
    x = np.stack([height, r * np.cos(angle), r * np.sin(angle)], 1)
    weight = np.repeat(w, 27) / 27
    for share, name, counts in (
        (0.72, "degree 1", [0, 1]),
        (1.28, "degree 2 (poles)", [3, 4]),
        (1.6, "degree 2 (belts)", [5]),
    ):
        states = [state for state in found.at(share * found.kappa_c) if state.name == name]
        assert sorted(state.unstable for state in states) == counts
        for state in states:
            root = np.sqrt(weight * state.density(height).clip(0))
            S = state.kappa / 5.0 * root[:, None] * np.exp(5.0 * x @ x.T) * root
            S -= np.outer(root, root @ S)
            S -= np.outer(S @ root, root)
            assert np.sum(np.linalg.eigvalsh(S) > 1 + 1e-4) == state.unstable, state


def test_uniform_gives_way_at_the_critical_noise():
    for name, (flow, d) in CASES.items():
        found, κ = diagram(name), theory.critical_kappa(flow, d)
        assert found.kappa_c == κ
        assert {s.name for s in found.at(found.kappa[1])} == {branch.name for branch in found.branches}, "up to the end"
        before, after = (next(s for s in found.at(c * κ) if s.name == "uniform") for c in (1 - 1e-8, 1 + 1e-8))
        first = int(np.argmin(theory.bifurcation_kappas(flow, d, 4))) + 1
        harmonics = {(2, 1): 2, (3, 1): 3, (6, 1): 6, (3, 2): 5}
        assert before.stable and after.unstable == harmonics[d, first], name


# What is known exactly.


def test_kuramoto():
    assert diagram("Kuramoto").kappa_c == pytest.approx(2, abs=1e-14)
    best, uniform = diagram("Kuramoto").at(4.0)
    assert best.order == pytest.approx(0.83146, abs=1e-5) and best.stable
    assert abs(iv(1, 4 * best.order) / iv(0, 4 * best.order) - best.order) < 1e-12
    assert uniform.order == 0 and uniform.free_energy == 0 and uniform.unstable == 2
    softmax = stationary(tkf.sa(0.0)).at(4.0)[0]
    assert np.allclose(softmax.coefficients, best.coefficients, atol=1e-12) and softmax.free_energy is None


def test_critical_noise_at_both_ends_of_beta():
    for d in (2, 3, 7):
        for beta in (0.0, 1e-12, 1e-6):
            for flow in (tkf.usa(beta), tkf.sa(beta), tkf.usa(beta, scaled=True)):
                assert theory.critical_kappa(flow, d) == pytest.approx(d, rel=2e-6)
    assert theory.critical_kappa(tkf.usa(1000.0, scaled=True), 2) == pytest.approx(1000 / ive(1, 1000.0), rel=1e-12)
    assert theory.critical_kappa(tkf.sa(1000.0), 2) == pytest.approx(1000 * ive(0, 1000.0) / ive(1, 1000.0), rel=1e-12)
    assert np.isinf(theory.critical_kappa(tkf.usa(2.0, V=-1.0), 3))
    assert np.all(np.isinf(theory.bifurcation_kappas(tkf.sa(0.0), 3, 4)[1:]))
    assert theory.most_unstable(tkf.sa(1000.0), 2) == round(np.sqrt(2000))
    assert theory.most_unstable(tkf.usa(1.0, V=-1.0), 2) == 0


@pytest.mark.parametrize("d", [2, 3, 5])
def test_where_the_transition_becomes_first_order(d):
    """Expanding in small R, κ_c/κ = 1 + ((d-1)ρ/(1-ρ) - 1) d R²/(d+2) + ..., ρ = c_2/c_1: first-order from ρ = 1/d on."""
    β = brentq(lambda β: iv(d / 2 + 1, β) / iv(d / 2, β) - 1 / d, 0.1, 9)
    before, after = (stationary(tkf.usa(factor * β), d=d) for factor in (0.98, 1.02))
    assert before.transition == "second-order" and before.kappa_transition == before.kappa_c
    assert not any(len(branch.folds) for branch in before.branches if branch.origin == "degree 1")
    assert after.transition == "first-order"
    assert after.folds[0] < after.kappa_transition < after.kappa_c


def test_small_order_expansion():
    for name, d in (("usa on the circle", 2), ("usa on S²", 3)):
        branch = next(b for b in diagram(name).branches if b.origin == "degree 1")
        ρ = np.divide(*theory.bifurcation_kappas(CASES[name][0], d, 2))
        slope = (diagram(name).kappa_c / branch.kappa[1] - 1) / branch.order[1] ** 2
        assert slope == pytest.approx(((d - 1) * ρ / (1 - ρ) - 1) * d / (d + 2), rel=2e-2)


def test_softmax_has_one_state_below_beta_coth_beta():
    """There f → (e^{β<x,y>} f)^{κ/β} contracts in Hilbert's metric; and no branch was found to bend back to it."""
    for name in ("sa on the circle", "sa on S²"):
        β = abs(coupling(CASES[name][0]).beta)
        assert min(branch.kappa.min() for branch in diagram(name).branches[1:]) > β / np.tanh(β)
        assert diagram(name).transition == "second-order"


def test_units_of_time_and_strength():
    plain, strong, scaled = (
        diagram("usa on the circle"),
        stationary(tkf.usa(3.0, V=2.0)),
        stationary(tkf.usa(3.0, scaled=True)),
    )
    for other, factor in ((strong, 0.5), (scaled, np.exp(3.0))):
        assert other.kappa_transition == pytest.approx(factor * plain.kappa_transition, rel=1e-10)
        assert np.allclose(other.folds, factor * plain.folds, rtol=1e-10)


def test_the_noise_of_the_flow():
    found = stationary(tkf.kuramoto(kappa=9.0))
    assert found.kappa[0] == 1.0 and found.kappa[1] > 9.0 and found.at(9.0)[0].stable
    assert np.allclose(theory.growth_rates(tkf.kuramoto(kappa=4.0), 2, 2), [0.0, 0.25, -1.0])


# First-order transitions.


@pytest.mark.parametrize("name", ["usa on the circle", "usa at β = 8", "usa on S²", "usa on S⁵"])
def test_folds(name):
    """Two states more just above a fold, none just below, to 1e-8; the transition lies between the fold and κ_c."""
    found = diagram(name)
    assert found.transition == "first-order"
    fold = found.folds[0]
    names = [[state.name for state in found.at(c * fold)] for c in (1 - 1e-8, 1 + 1e-8)]
    assert names[0] == ["uniform"] and sorted(names[1]) == ["degree 1", "degree 1", "uniform"]
    assert fold < found.kappa_transition < found.kappa_c
    best, uniform = found.at(1.001 * found.kappa_transition)[:2]
    assert (best.name, uniform.name, best.stable, uniform.stable) == ("degree 1", "uniform", True, True)
    assert found.at(0.999 * found.kappa_transition)[0].name == "uniform"


def test_degree_two_is_transcritical_on_the_sphere():
    found = diagram("usa on S²")
    poles, belts = (next(b for b in found.branches if b.name == f"degree 2 ({side})") for side in ("poles", "belts"))
    onset = theory.bifurcation_kappas(CASES["usa on S²"][0], 3, 2)[1]
    assert poles.kappa[0] == belts.kappa[0] == pytest.approx(onset)
    assert poles.folds[0] < poles.kappa[1] < onset < belts.kappa[1]
    assert poles[-1].density([1.0, 0.0])[0] > 1 > poles[-1].density([0.0])[0] and belts[-1].density([0.0])[0] > 1


@pytest.mark.parametrize("name", ["usa on the circle", "usa on S²", "usa on S⁵", "negative β"])
def test_free_energy_along_branches(name):
    """dF/d(1/κ) = ∫f log f dσ, as F is stationary in f."""
    found = diagram(name)
    t, w = law(180, found.d)
    κ = 1.9 * found.kappa_c
    for state in found.at(κ):
        if state.name == "uniform":
            continue
        near = lambda other, state=state: min(
            (s for s in found.at(other) if s.name == state.name), key=lambda s: abs(s.free_energy - state.free_energy)
        )
        h = 1e-4
        slope = (near(κ / (1 + h)).free_energy - near(κ / (1 - h)).free_energy) / (2 * h / κ)
        f = state.density(t).clip(1e-300)
        assert slope == pytest.approx(w @ (f * np.log(f)), rel=1e-5), state


def test_crossing_branches_are_followed():
    """A kernel of degrees 1 and 2 alone, of which 2 is the stronger: two clusters, of which one wins later on."""
    ρ = np.array([0.6, 1.0])
    equation = Equation(coupling(tkf.usa(1.0)), 2, 60, 1.0, 0.0, np.sqrt(ρ / 2), np.ones(2))
    found = Search(equation, -2.0, np.log(4.0), lambda fraction, note: None).run()
    assert [one.origin for one in found] == ["degree 1", "degree 2", "secondary"]
    last = found[2].trace.places[-1].x
    assert np.max(abs(equation.residual(last))) < 1e-12 and min(abs(last[:-1])) > 0.5


def test_what_is_told(tmp_path):
    found = diagram("usa on the circle")
    assert "first-order at κ = 0.75" in str(found) and "degree 2" in str(found)
    assert repr(found.branches[1]).startswith("Branch(degree 1: κ from 0.7503")
    assert found.plot(tmp_path / "diagram.png") == tmp_path / "diagram.png"
    assert imread(tmp_path / "diagram.png").shape[:2] == (1080, 1575)
    assert len(diagram("sa on S²").plot().get_axes()) == 2
    repulsive = stationary(tkf.usa(2.0, V=-1.0), d=3, kappa=(1.0, 9.0))
    assert repulsive.transition == "none" and repulsive.at(5.0)[0].stable and "every κ" in str(repulsive)
    assert len(repulsive.plot().get_axes()) == 2


REFUSED = {
    "not a flow": (lambda: stationary(3.0), "A Flow such as .* is needed, but got a float"),
    "a class": (lambda: theory.critical_kappa(tkf.usa, 2), "A Flow such as"),
    "another attention": (lambda: stationary(tkf.Flow(tkf.L2(1.0), tkf.PostLN())), "softmax or unnormalized.*L2"),
    "no sphere": (lambda: stationary(tkf.Flow(tkf.Softmax(1.0))), r"PostLN\(\).*has Free"),
    "a gain": (lambda: stationary(tkf.Flow(tkf.Softmax(1.0), tkf.PostLN(gain=[1.0, 2.0]))), "without a gain"),
    "an MLP": (lambda: stationary(tkf.Flow(tkf.Softmax(1.0), tkf.PostLN(), mlp=tkf.MLP())), "has an MLP. Leave it out"),
    "reweighting": (
        lambda: stationary(tkf.Flow(tkf.Softmax(1.0), tkf.PostLN(), reweighting=tkf.FisherRao())),
        "reweighting. Leave it out",
    ),
    "a matrix": (
        lambda: stationary(tkf.sa(1.0, V=np.eye(2))),
        r"multiples of the identity.*`V` is a matrix of shape \(2, 2\)",
    ),
    "a schedule": (lambda: stationary(tkf.sa(lambda t: t)), "`beta` must not change with depth"),
    "no noise at all": (lambda: theory.growth_rates(tkf.sa(1.0), 2, 3, kappa=0.0), "`kappa` must be positive"),
    "a line": (lambda: stationary(tkf.sa(1.0), d=1), "`d` must be at least 2"),
    "degree as text": (lambda: theory.growth_rates(tkf.sa(1.0), 2, "3"), "`degree` must be a whole number"),
    "one κ": (lambda: stationary(tkf.sa(1.0), kappa=3.0), r"pair \(low, high\), but is 3.0"),
    "κ = 0": (lambda: stationary(tkf.sa(1.0), kappa=(0.0, 3.0)), r"`kappa\[0\]` must be positive, but is 0"),
    "κ reversed": (lambda: stationary(tkf.sa(1.0), kappa=(3.0, 1.0)), r"low < high, but is \(3, 1\)"),
    "κ beyond": (lambda: diagram("Kuramoto").at(99.0), "followed up to κ = 6, but κ = 99"),
    "degree too small": (lambda: stationary(tkf.usa(3.0), degree=8), "`degree` is too small: with 8.*try"),
    "no degree": (lambda: stationary(tkf.usa(3.0), degree=2), "`degree` must be at least 4"),
    "too concentrated": (lambda: stationary(tkf.usa(1.0), kappa=(1.0, 1e7)), "too concentrated.*smaller kappa"),
    "overflow": (lambda: theory.critical_kappa(tkf.usa(900.0), 2), "scaled=True"),
    "cancellation": (lambda: stationary(tkf.sa(-9.0)), "β = -9 below -6"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    act, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        act()


@pytest.mark.parametrize("d", [2, 3])
def test_states_rest_under_the_density_solver(d):
    """A stationary state, as a measure, has no velocity in the Fokker–Planck equation of the same flow."""
    import jax
    import jax.numpy as jnp

    from tokenfield.evolution.motions.density import Spectral

    flow = tkf.usa(3.0, kappa=1.2 * theory.critical_kappa(tkf.usa(3.0), d))
    state = next(s for s in stationary(flow, d=d).at(float(flow.kappa)) if s.stable)
    motion = Spectral(flow, state.measure)
    rate = jax.jit(lambda y: motion.rate(jnp.zeros(()), y, None))(motion.first)
    assert state.order > 0.5 and np.max(abs(np.asarray(rate))) < 1e-8
    assert abs(float(state.measure.free_energy(flow)) - state.free_energy) < 1e-10
