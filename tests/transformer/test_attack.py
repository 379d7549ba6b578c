"""`probe` and `train` with hostile arguments: sentences or results, and nothing else."""

import inspect

import pytest

import tokenfield as tkf
from tests.test_fuzz import HOSTILE, attack
from tests.test_fuzz import small_machine as small_machine
from tests.transformer.tiny_training import NUMBERS, TEXT, small

USUAL = {
    "probe": {"model": small(), "texts": "to be or not to be", "lipschitz": 0},
    "train": {"model": small(), "text": TEXT, **NUMBERS, "steps": 2, "every": 1, "minutes": 1e-9},
}
CALLS = [
    (name, key, value)
    for name in USUAL
    for key in inspect.signature(getattr(tkf, name)).parameters
    for value in HOSTILE
]
OWN = {("probe", "watch", what) for what in ("class", "function of t", "MLP")}
"""Functions of the user's, which raise as they will."""


@pytest.mark.parametrize("name", list(USUAL))
def test_what_is_usual_is_answered(name):
    assert attack(getattr(tkf, name), USUAL[name]) is None


@pytest.mark.parametrize("share", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_hostile_arguments(share):
    calls = [call for call in CALLS if call not in OWN][::share]
    wrong = {call: attack(getattr(tkf, call[0]), USUAL[call[0]] | {call[1]: HOSTILE[call[2]]}) for call in calls}
    assert {call: words for call, words in wrong.items() if words is not None} == {}
