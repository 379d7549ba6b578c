"""The largest step that spreads tokens, where it has a closed form, and parameters that make no sense."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.figures.published.discrete_vs_continuous import critical_step


def test_the_critical_step_where_it_is_known():
    """At β = 2 by I_2 = I_0 - I_1, and at both ends of β by expansions of I_l."""
    assert critical_step(2.0) == pytest.approx(1.0, abs=1e-14)
    assert critical_step(1e-6) == pytest.approx(4.0, abs=1e-4)
    assert critical_step(400.0) == pytest.approx(2 / (2 + 2 / np.e), abs=2e-3)


@pytest.mark.parametrize("wrong", [{"taus": (0.1, 0.5, 1.0)}, {"taus": (1.0, 0.3, 0.1)}, {"at": 99}, {"n": 4}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(tkf.errors.InputError):
        tkf.figures.make("discrete-vs-continuous", small=True, **wrong)
