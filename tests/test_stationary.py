"""Stationary states of noisy Transformers against plain quadrature, full-space Jacobians and what is known exactly."""

import functools

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.optimize import brentq
from scipy.special import eval_gegenbauer, iv, ive, roots_jacobi

import tokenfield as tkf
from tokenfield import theory
from tokenfield.errors import InputError
from tokenfield.stationary import stationary
from tokenfield.stationary.equation import Equation
from tokenfield.stationary.search import Search
from tokenfield.theory.coupling import coupling

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
    from math import comb

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


def fixed_point(flow, d, κ, f, t, w):
    """e^{κΦ[f]}/Z on a grid."""
    c = coupling(flow)
    s, angle = scores(t, d)
    kernel = (s if c.beta == 0 else np.expm1(c.beta * s) / c.beta) @ angle
    if c.kind == "usa":
        potential = c.V * np.exp(-c.log_unit) * kernel @ (w * f)
    else:
        potential = c.V * (kernel @ (w * f) if c.beta == 0 else np.log1p(c.beta * kernel @ (w * f)) / c.beta)
    g = np.exp(κ * (potential - potential.max()))
    return g / (w @ g)


@pytest.mark.parametrize("name", CASES)
def test_every_state_is_stationary(name):
    (flow, d), found = CASES[name], diagram(name)
    t, w = law(220, d)
    states = [state for κ in np.geomspace(0.7, 2.9, 4) * found.kappa_c for state in found.at(κ)]
    states += [state for branch in found.branches for state in (branch[1], branch[len(branch) // 2], branch[-1])]
    assert len({state.name for state in states}) == len(found.branches) > 1
    for state in states:
        f = sum(c * harmonic(l, d, t) for l, c in enumerate(state.coefficients))
        assert np.max(abs(fixed_point(flow, d, state.kappa, f, t, w) - f)) < 1e-10 * f.max(), state
        assert state.order == pytest.approx(abs(w @ (t * f)), abs=1e-12)
        assert np.allclose(state.density(t[::20]), f[::20], atol=1e-11 * f.max())


# The circle, where everything can be checked in the space of all densities.


def velocity(flow, f, θ):
    """V ∫e^{β cos(θ-φ)} sin(φ-θ) f dφ/2π, or its quotient."""
    c, gap = coupling(flow), θ[None, :] - θ[:, None]
    kernel = np.exp(c.beta * np.cos(gap) - c.log_unit) / len(θ)
    sums = c.V * (kernel * np.sin(gap)) @ f
    return sums if c.kind == "usa" else sums / (kernel @ f)


def fokker_planck(flow, κ, f, θ):
    """-∂(f v) + κ⁻¹ ∂²f with Fourier derivatives."""
    k = np.fft.fftfreq(len(θ), 1 / len(θ))
    k[len(θ) // 2] = 0
    flux = np.fft.fft(-f * velocity(flow, f, θ)) * 1j * k - np.fft.fft(f) * k**2 / κ
    return np.fft.ifft(flux).real


def jacobian_spectrum(flow, κ, f, θ):
    """Eigenvalues by central differences (exact for USA, which is quadratic in f), in units of 1/κ."""
    h = 1e-4
    rows = np.eye(len(θ))
    columns = [(fokker_planck(flow, κ, f + h * e, θ) - fokker_planck(flow, κ, f - h * e, θ)) / (2 * h) for e in rows]
    return κ * np.linalg.eigvals(np.array(columns).T)


@pytest.mark.parametrize("name", ["Kuramoto", "usa on the circle", "usa at β = 8", "sa on the circle"])
def test_stability_on_the_circle(name):
    """The count of unstable directions is that of the Fokker–Planck equation's Jacobian, even and odd modes alike."""
    (flow, _), found = CASES[name], diagram(name)
    θ = 2 * np.pi * np.arange(160) / 160
    folds = [κ for κ in found.folds[:1]]
    seen = set()
    for κ in [*(1.004 * κ for κ in folds), 1.15 * found.kappa_c, 2.8 * found.kappa_c]:
        for state in found.at(κ):
            f = sum(c * harmonic(l, 2, np.cos(θ)) for l, c in enumerate(state.coefficients))
            assert np.max(abs(fokker_planck(flow, κ, f, θ))) < 1e-7 * f.max() / κ, "it is at rest"
            assert np.sum(jacobian_spectrum(flow, κ, f, θ).real > 1e-5) == state.unstable, state
            seen.add((state.name, state.unstable))
    assert len(seen) > len(found.branches) or name == "Kuramoto", "stable and unstable ones"


@pytest.mark.parametrize(
    ("flow", "κ"), [(tkf.usa(3.0), 1.7), (tkf.sa(3.0, V=0.5), 9.0), (tkf.usa(6.0, scaled=True), 30)]
)
def test_growth_rates(flow, κ):
    θ = 2 * np.pi * np.arange(48) / 48
    exact = np.sort(jacobian_spectrum(flow, κ, np.ones(48), θ).real)[::-1] / κ
    rates = np.repeat(theory.growth_rates(flow, 2, 12, κ)[1:], 2)
    assert np.allclose(
        exact[: np.sum(rates > -1)], np.sort(np.append(rates, 0.0))[::-1][: np.sum(rates > -1)], atol=1e-7
    )
    assert theory.most_unstable(flow, 2, κ) == np.argmax(theory.growth_rates(flow, 2, 12, κ))


def test_stability_on_the_sphere():
    """The second variation of F on a grid of S², without any use of the axis."""
    flow, found = CASES["usa on S²"][0], diagram("usa on S²")
    t, w = law(24, 3)
    φ = 2 * np.pi * np.arange(36) / 36
    height, angle = (grid.ravel() for grid in np.meshgrid(t, φ, indexing="ij"))
    r = np.sqrt(1 - height**2)
    x = np.stack([height, r * np.cos(angle), r * np.sin(angle)], 1)
    weight = np.repeat(w, 36) / 36
    counts = set()
    for κ in (0.8 * found.kappa_c, 1.3 * found.kappa_c, 1.6 * found.kappa_c):
        for state in found.at(κ):
            root = np.sqrt(weight * state.density(height).clip(0))
            S = κ / 5.0 * root[:, None] * np.exp(5.0 * x @ x.T) * root
            S -= np.outer(root, root @ S)
            S -= np.outer(S @ root, root)
            assert np.sum(np.linalg.eigvalsh(S) > 1 + 1e-6) == state.unstable, (flow, state)
            counts.add((state.name, state.unstable))
    assert {("degree 1", 0), ("degree 1", 1), ("degree 2 (poles)", 3), ("degree 2 (belts)", 5)} <= counts


def test_uniform_gives_way_at_the_critical_noise():
    for name, (flow, d) in CASES.items():
        found, κ = diagram(name), theory.critical_kappa(flow, d)
        assert found.kappa_c == κ
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
    t, w = law(220, found.d)
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
    "another attention": (lambda: stationary(tkf.Flow(tkf.L2(1.0), tkf.PostLN())), "softmax and unnormalized.*L2"),
    "no sphere": (lambda: stationary(tkf.Flow(tkf.Softmax(1.0))), r"PostLN\(\).*Free\(\)"),
    "an MLP": (lambda: stationary(tkf.Flow(tkf.Softmax(1.0), tkf.PostLN(), mlp=tkf.MLP())), "has an MLP. Leave it out"),
    "reweighting": (
        lambda: stationary(tkf.Flow(tkf.Softmax(1.0), tkf.PostLN(), reweighting=tkf.FisherRao())),
        "reweighting. Leave it out",
    ),
    "a matrix": (lambda: stationary(tkf.sa(1.0, V=np.eye(2))), r"`V` must be a multiple.*shape \(2, 2\)"),
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
