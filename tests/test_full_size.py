"""The sizes that people use, behind `make test-full`."""

import subprocess
import sys

import numpy as np
import pytest

import tokenfield as tkf
from tests import naive

pytestmark = pytest.mark.slow


def test_the_whole_demo(tmp_path):
    told = subprocess.run(
        [sys.executable, "-m", "tokenfield", "demo", "--out", str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    run = tkf.Trajectory.load(tmp_path / "run.zarr")
    assert run.x.shape == (240, 1000, 3) and "a merger after" in told
    counts = [len(found) for found in tkf.observe.clusters(run)]
    assert 5 in counts and counts[-1] < 5


def test_ten_thousand_tokens_against_numpy():
    mu = tkf.Tokens.uniform_sphere(n=10_000, d=3, seed=0)
    some = np.arange(0, 10_000, 97)
    x = np.asarray(mu.x)
    v = tkf.velocity(tkf.sa(100.0), mu)
    kernel = np.exp(100.0 * (x[some] @ x.T - 1))
    a = kernel @ x / kernel.sum(1, keepdims=True)
    assert np.max(abs(v[some] - (a - np.sum(a * x[some], axis=1, keepdims=True) * x[some]))) < 1e-13


def test_a_thousand_tokens_against_scipy():
    x = naive.unit(1000, 3, np.random.default_rng(0))
    w = np.full(1000, 1e-3)
    run = tkf.evolve(tkf.sa(9.0), tkf.Tokens(x), 8.0, save=2, rtol=1e-9)
    exact = naive.solve(x, 8.0, w, 9.0, *[np.eye(3)] * 3, softmax=True)
    assert np.linalg.norm(run.final.x - exact) < 1e-7 * np.linalg.norm(exact)
