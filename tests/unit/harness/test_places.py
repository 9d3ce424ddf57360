"""Under pytest-xdist clusters take turns where the cores are too few for all workers'."""

from __future__ import annotations

import subprocess
import sys

import pytest

from highwater.errors import HarnessError
from highwater.testing import places as module
from highwater.testing.places import place_for_cluster, places
from highwater.testing.verdicts import AT_ONCE

COUNT = "PYTEST_XDIST_WORKER_COUNT"


@pytest.mark.parametrize(
    ("environment", "cores", "most"),
    [
        ({}, 2, 0),
        ({COUNT: "2"}, 4, 0),
        ({COUNT: "2"}, 2, 1),
        ({COUNT: "8"}, 5, 2),
        ({COUNT: "8"}, 1, 1),
        ({COUNT: "8"}, 0, 0),
        ({COUNT: "8", AT_ONCE: "3"}, 2, 3),
        ({COUNT: "3", AT_ONCE: "3"}, 2, 0),
        ({COUNT: "2", AT_ONCE: "1"}, 64, 1),
    ],
)
def test_a_cluster_wants_two_cores_unless_the_user_says_otherwise(
    environment: dict[str, str], cores: int, most: int
) -> None:
    assert places(environment, cores) == most


@pytest.mark.parametrize("told", ["0", "-1", "many", "1.5"])
def test_a_wrong_number_is_told(told: str) -> None:
    with pytest.raises(HarnessError, match=f"{AT_ONCE}={told}: a number"):
        places({AT_ONCE: told}, 2)


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a worker of a test run of two, on a machine for one cluster at a time."""
    monkeypatch.setenv(COUNT, "2")
    monkeypatch.setenv(AT_ONCE, "1")
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", f"of-{two_workers.__name__}")


HOLDS = """
import sys
from highwater.testing.places import place_for_cluster
with place_for_cluster():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("two_workers")
def test_a_worker_waits_until_anothers_cluster_is_gone_also_one_that_was_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        slept: list[float] = []
        with (
            pytest.raises(HarnessError, match="1 may be up at once"),
            place_for_cluster(0.5, slept.append),
        ):
            pass
        assert len(slept) == 5
        with place_for_cluster(60, lambda _: end(other)):
            assert other.returncode == -9


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(30)


@pytest.mark.usefixtures("two_workers")
def test_a_second_cluster_of_one_process_waits_for_none() -> None:
    with place_for_cluster(0), place_for_cluster(0):
        assert len(module._held) == 1
    assert module._held == []
    with place_for_cluster(0):
        pass
