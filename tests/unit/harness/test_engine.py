"""How a Docker engine that does not answer is reported."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

from highwater.cluster.engine import connect_engine
from highwater.errors import EngineMissing


def test_an_engine_that_does_not_answer_leaves_no_socket_to_the_next_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing-listens")
    with pytest.raises(EngineMissing, match="nothing-listens: start it") as caught:
        connect_engine()
    assert "No such file" in caught.value.__notes__[0]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gc.collect()
    assert not seen
