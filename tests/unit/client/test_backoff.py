"""How long a client waits after failures in a row."""

from __future__ import annotations

import pytest

from highwater_client.settings import backoff_after


@pytest.mark.parametrize(
    ("failures", "rest_ms"),
    [(0, 50), (1, 50), (2, 100), (3, 200), (4, 400), (5, 400), (10**6, 400)],
)
def test_rest_doubles_up_to_a_limit(failures: int, rest_ms: int) -> None:
    assert backoff_after(failures, 50) == rest_ms
