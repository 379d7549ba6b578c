"""What all tests share: room for compiled programs, and which variants wait for `make test-full`."""

import pytest

VARIANTS = """
test_draw.py::test_picture[one state]
test_draw.py::test_picture[one token]
test_draw.py::test_picture[log times]
test_draw.py::test_picture[line]
test_draw.py::test_picture[plane]
test_draw.py::test_picture[space]
test_draw.py::test_picture[a token at the origin]
test_transformations.py::test_gradients_against_finite_differences[usa]
test_transformations.py::test_gradients_where_nothing_moves_are_finite[x0]
test_compile_once.py::test_gradients_compile_once_too
test_gaussian.py::test_fates_in_the_cone[to two lines]
test_gaussian.py::test_fates_in_the_cone[to a plane]
test_gaussian.py::test_tokens_approach_it_at_the_monte_carlo_rate
test_fast_sums.py::test_transforms_are_exact_to_rounding[1.0]
test_fast_sums.py::test_transforms_are_exact_to_rounding[9.0]
test_fast_sums.py::test_sums_in_space[1]
test_coalescing.py::test_with_every_summation[flow2-mu2-sphere]
test_coalescing.py::test_with_every_summation[flow0-mu0-euclidean]
test_identities.py::test_rescaled_tokens_reach_a_polytope
test_noise.py::test_strong_order[space]
test_trajectory.py::test_a_batch_of_runs_is_indexed_by_time_and_observed
test_trajectory.py::test_save_and_load[float32]
test_density.py::test_quadrature_in_space_converges_exponentially
test_density.py::test_spectral_convergence[circle]
test_depth.py::test_layers_converge_to_the_flow_at_first_order[NGPT]
test_depth.py::test_gradients_of_every_attention
test_draw.py::test_picture[many dimensions]
test_transformations.py::test_forward_mode_agrees_with_reverse_mode
test_transformations.py::test_traced_runs_that_end_early_hold_their_last_state
test_fast_sums.py::test_the_guard_is_needed[Circle-2]
test_fast_sums.py::test_sums_in_space[3]
test_fast_sums.py::test_derivatives[Circle-2]
test_density.py::test_modes_are_added_when_the_spectrum_needs_them
test_density.py::test_many_tokens_approach_the_density[circle]
test_density.py::test_to_tokens_and_back[sphere]
test_ensembles.py::test_other_measures
test_structure.py::test_the_sphere_is_kept[sa]
test_other_measures.py::test_a_spec_runs_is_saved_and_is_the_same_again[density]
test_identities.py::test_mix_ln_switches_by_an_event
""".strip().splitlines()
"""Variants that compile most and show least beyond their neighbours."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(tuple(VARIANTS)):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_teardown(item, nextitem):
    """A session compiles thousands of programs, more than a process has memory maps for."""
    from tokenfield._compile import make_room

    make_room()
