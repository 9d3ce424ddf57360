"""Plain values of Kafka's protocol, as hypothesis strategies: numbers, texts, arrays."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from highwater_core.errors import ErrorCode

int8s = st.integers(-(2**7), 2**7 - 1)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
durations_ms = st.integers(-1, 2**31 - 1)
texts = st.text(max_size=8)
optional_texts = st.none() | texts
errors = st.sampled_from(ErrorCode)
node_lists = st.lists(int32s, max_size=3).map(tuple)
topic_names = st.sampled_from(["a", "b", "ü-topic", "x" * 249])
record_bytes = st.binary(max_size=300) | st.just(b"r" * 20_000)


def tuples_of(items: st.SearchStrategy[Any], max_size: int = 4) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=max_size).map(tuple)


def topic_of(row: Any) -> str:
    return str(getattr(row, "topic_partition", row).topic)


def grouped(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return lists of items sorted as on the wire: by topic."""
    return st.lists(items, max_size=5).map(lambda rows: tuple(sorted(rows, key=topic_of)))


def since(version: int, first: int, values: st.SearchStrategy[Any], default: Any) -> Any:
    """Return the values from a field's first version on, else its default."""
    return values if version >= first else st.just(default)
