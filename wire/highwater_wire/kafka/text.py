"""Bounds texts to their fields: a peer's names and messages may be too long.

A legacy string has a length of 16 bits (Kafka's protocol guide, STRING). A longer text is cut, and
is never an error of the answering node.
"""

from __future__ import annotations

from typing import overload

MAX_STRING_BYTES = 2**15 - 1
"""The longest text that versions without tagged fields can carry, as UTF-8."""
MAX_MESSAGE_BYTES = 1_000
"""The longest error message that is sent."""
MAX_QUOTE_BYTES = 200
"""Most bytes of a peer's own text that an error message repeats."""


def shortened(text: str, max_bytes: int = MAX_MESSAGE_BYTES) -> str:
    """Return the text, or its two ends and its length, in at most max_bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text if text.isascii() else data.decode()
    middle = f" ... ({len(data)} bytes) ... "
    kept = max(max_bytes - len(middle), 0)
    head, tail = kept - kept // 2, kept // 2
    # A character that is cut in two is left out.
    start = data[:head].decode("utf-8", "ignore")
    end = data[len(data) - tail :].decode("utf-8", "ignore")
    return (start + middle + end)[:max_bytes] if kept == 0 else start + middle + end


def quoted(text: str) -> str:
    """Return a peer's text for a message: on one line, in quotes, not too long."""
    # The result of repr is bounded too: it writes up to ten characters for one.
    return shortened(repr(shortened(text, MAX_QUOTE_BYTES)), MAX_QUOTE_BYTES)


@overload
def fitting(text: str) -> str: ...
@overload
def fitting(text: None) -> None: ...
def fitting(text: str | None) -> str | None:
    """Return the text as a legacy string: its first 32,767 bytes."""
    if text is None or (text.isascii() and len(text) <= MAX_STRING_BYTES):
        return text
    return text.encode("utf-8", "replace")[:MAX_STRING_BYTES].decode("utf-8", "ignore")
