"""Frames: what is packed is what is read."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tokenfield.lab.wire import DTYPES, dumped, pack, unpack

arrays = st.dictionaries(
    st.sampled_from("abcdef"),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    ),
)


@given(
    arrays,
    st.dictionaries(
        st.sampled_from(["t", "say"]), st.floats(allow_nan=False) | st.sampled_from(["", "β ≤ 9", 'a "b"'])
    ),
)
def test_a_frame_is_read_as_it_was_packed(arrays, header):
    frame = pack(header, arrays)
    read, found = unpack(frame)
    assert len(frame) % 4 == 0
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and np.array_equal(
            found[name], array, equal_nan=array.dtype.kind == "f"
        )
    for name, value in header.items():
        assert read[name] == (None if value in (float("inf"), -float("inf")) else value)


def test_json_has_no_infinities():
    assert json.loads(dumped({"a": [float("nan"), np.float64("inf"), np.int32(3)], "b": (1.5,)})) == {
        "a": [None, None, 3],
        "b": [1.5],
    }


def test_only_what_the_page_knows():
    with pytest.raises(AssertionError):
        pack({}, {"x": np.zeros(3)})
