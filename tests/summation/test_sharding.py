"""Dense sums on four virtual devices: the same runs to 1e-12. In a process of its own, since devices are made at start."""

import os
import subprocess
import sys

import pytest

import tokenfield as tkf
from tokenfield.errors import InputError

SCRIPT = """
import jax, numpy as np, tokenfield as tkf
assert len(jax.devices()) == 4
mu = tkf.Tokens.uniform_sphere(1001, 3, seed=0)        # no multiple of four
for flow in (tkf.sa(9.0), tkf.Flow(tkf.Causal(tkf.Sigmoid()), tkf.PreLN())):
    one = tkf.evolve(flow, mu, t=1.0, save=3, summation="dense")
    four = tkf.evolve(flow, mu, t=1.0, save=3, devices=4)
    assert four.provenance.summation == "dense, 4 devices" and "dense sums with 4 devices" in repr(four)
    assert int(one.steps) == int(four.steps)
    print(float(np.max(abs(one.x - four.x))))
"""


def test_four_devices():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    found = subprocess.run([sys.executable, "-c", SCRIPT], env={**os.environ, **flags}, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert max(map(float, found.stdout.split())) < 1e-12


@pytest.mark.parametrize(
    ("how", "why"), [({"devices": 99}, "between 1 and"), ({"devices": 1, "summation": "circle"}, "Only dense")]
)
def test_refusals(how, why):
    with pytest.raises(InputError, match=why):
        tkf.evolve(tkf.sa(1.0), tkf.Tokens.uniform_sphere(4, 2), t=1.0, **how)
