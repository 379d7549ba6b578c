"""Contenders beyond tokens: many small Gaussian flows, and the Fokker–Planck equation on the circle."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import iv

FLOWS, END, RTOL = 10_000, 5.0, 1e-6
SCORE = np.array([[-0.6, 0.4], [-0.2, -0.9]])
BETA, KAPPA, MODES, LONG, FINE = 3.0, 2.0, 64, 20.0, 5e-7


def covariances() -> np.ndarray:
    """Random covariances of trace 1."""
    g = np.random.default_rng(0).normal(size=(FLOWS, 2, 2))
    cov = g @ np.swapaxes(g, 1, 2) + 0.1 * np.eye(2)
    return cov / np.trace(cov, axis1=1, axis2=2)[:, None, None]


def gaussians_exact() -> np.ndarray:
    return np.linalg.inv(np.linalg.inv(covariances()) - END * (SCORE + SCORE.T)).reshape(FLOWS, 4)


def gaussians_tokenfield():
    import jax
    import jax.numpy as jnp

    import tokenfield as tkf

    flow, starts = tkf.Flow(tkf.Softmax(A=SCORE)), jnp.asarray(covariances())
    end = lambda cov: tkf.evolve(flow, tkf.Gaussian(jnp.zeros(2), cov), END, save=1, rtol=RTOL).cov[-1]
    compiled = jax.jit(jax.vmap(end))
    return lambda: np.asarray(compiled(starts)).reshape(FLOWS, 4), "one vmap, compiled before"


def gaussians_scipy_loop():
    starts = covariances()

    def rhs(t, y):
        mean, cov = y[:2], y[2:].reshape(2, 2)
        slope = cov @ SCORE
        growth = slope @ cov
        return np.concatenate([mean + slope @ mean, (growth + growth.T).ravel()])

    solve = lambda cov: solve_ivp(rhs, (0, END), np.append([0.0, 0.0], cov), method="RK45", rtol=RTOL, atol=1e-9).y[
        2:, -1
    ]
    return lambda: np.array([solve(cov) for cov in starts]), "RK45, one after another"


def waves() -> np.ndarray:
    """Coefficients 1, a_1, b_1, ... of the start."""
    f = np.zeros(2 * MODES + 1)
    f[:3] = 1.0, 0.1, 0.02
    return f


class Fourier:
    """The same discretization in plain numpy: MODES Fourier modes, products on a grid that integrates them exactly."""

    def __init__(self):
        self.grid = 3 * MODES + 2 + (3 * MODES) % 2
        self.k = np.arange(MODES + 1)
        self.field = 1j * self.k * iv(self.k, BETA) / BETA

    def __call__(self, t: float, y: np.ndarray) -> np.ndarray:
        c = np.append(1.0, (y[1::2] - 1j * y[2::2]) / np.sqrt(2))
        f, v = (np.fft.irfft(part, self.grid) * self.grid for part in (c, self.field * c))
        flux = np.fft.rfft(f * v)[: MODES + 1] / self.grid
        dc = -1j * self.k * flux - self.k**2 / KAPPA * c
        return np.append(0.0, np.sqrt(2) * np.stack([dc[1:].real, -dc[1:].imag], axis=1).ravel())


def fokker_planck_exact() -> np.ndarray:
    solution = solve_ivp(Fourier(), (0, LONG), waves(), method="DOP853", rtol=1e-10, atol=1e-13)
    return solution.y[None, :, -1]


def fokker_planck_tokenfield():
    import tokenfield as tkf

    flow, mu = tkf.usa(BETA, kappa=KAPPA), tkf.CircleDensity(waves())
    run = lambda: tkf.evolve(flow, mu, LONG, save=1, rtol=FINE, refine=False)
    return lambda: np.asarray(run().coefficients), f"etd4 at rtol {FINE:g}, {int(run().steps)} steps"


def fokker_planck_scipy_bdf():
    rhs, start = Fourier(), waves()
    solve = lambda: solve_ivp(rhs, (0, LONG), start, method="BDF", rtol=RTOL, atol=1e-9)
    note = f"at rtol {RTOL:g}, {(found := solve()).nfev} evaluations, {found.nlu} factorizations, FFTs of numpy"
    return lambda: solve().y[None, :, -1], note
