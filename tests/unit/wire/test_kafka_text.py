"""Texts of any length and characters are changed to texts that can be sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_wire.kafka.text import MAX_STRING_BYTES, fitting, quoted, shortened

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


@given(ANY_TEXT, st.integers(0, 400))
def test_a_shortened_text_is_never_larger_than_it_may_be(text: str, max_bytes: int) -> None:
    short = shortened(text, max_bytes)
    assert len(short.encode()) <= max_bytes
    if len(text.encode("utf-8", "replace")) <= max_bytes:
        assert short == text.encode("utf-8", "replace").decode()


def test_a_shortened_text_keeps_both_ends_and_says_how_long_it_was() -> None:
    text = "begin" + "x" * 5000 + "end"
    assert shortened(text, 40) == "beginxxxx ... (5008 bytes) ... xxxxxxend"


def test_sizes_count_bytes_not_characters() -> None:
    assert shortened("é" * 20, 40) == "é" * 20
    assert len(shortened("é" * 21, 40).encode()) <= 40


@pytest.mark.parametrize("text", ["x" * 40_000, "\x01" * 9_000, "é" * 20_000, "\ud800" * 40_000])
def test_any_text_can_be_quoted_and_fits(text: str) -> None:
    assert len(quoted(text).encode()) <= 200
    assert len(fitting(text).encode()) <= MAX_STRING_BYTES


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert fitting("é" * 16_383) == "é" * 16_383
    assert fitting(None) is None
    assert quoted("t") == "'t'"


def test_a_lone_surrogate_is_sent_as_a_question_mark() -> None:
    assert fitting("a\ud800") == shortened("a\ud800") == "a?"
