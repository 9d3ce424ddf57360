"""How tests are spread over workers: those that share a cluster stay together."""

from __future__ import annotations

import re
from typing import Any

import pytest

_SHARED_CLUSTER = re.compile(r"\[((?:steady|brisk)-[a-z0-9]+)")
"""The ids that tests/integration/conftest.py gives its shared clusters."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give as one unit: a shared cluster's tests, another test in containers, a chunk of schedules,
    any other file.

    xdist's own loadgroup does this by marks, but groups nothing under pytest 9.2.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByCluster(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return ByCluster(config, log)


def unit_of(nodeid: str) -> str:
    """Return the name of the unit of work that the test belongs to."""
    shared = _SHARED_CLUSTER.search(nodeid)
    if shared:
        return shared[1]
    is_alone = "/integration/" in nodeid or "/test_schedules.py" in nodeid
    return nodeid if is_alone else nodeid.partition("::")[0]
