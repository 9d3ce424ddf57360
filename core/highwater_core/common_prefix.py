"""How far two contents of a file are the same."""

from __future__ import annotations


def common_prefix_bytes(one: bytes | bytearray, other: bytes | bytearray) -> int:
    """Return the length of the longest prefix that both begin with.

    By halving: a log of megabytes is compared in slices, not byte by byte.
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
