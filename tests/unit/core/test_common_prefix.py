"""How far two contents of a file are the same."""

from __future__ import annotations

import pytest

from highwater_core.common_prefix import common_prefix_bytes


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [
        (b"", b"", 0),
        (b"", b"a", 0),
        (b"a", b"b", 0),
        (b"abc", b"abc", 3),
        (b"abc", b"abcd", 3),
        (b"abXd", b"abYd", 2),
        (b"aXcX", b"aYcY", 1),
    ],
)
def test_the_longest_common_prefix_whichever_comes_first(
    one: bytes, other: bytes, length: int
) -> None:
    assert common_prefix_bytes(one, bytearray(other)) == length
    assert common_prefix_bytes(bytearray(other), one) == length
