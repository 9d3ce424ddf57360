"""A client's suite of tests, and how it runs against a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RUN = "client-suite"
CLONE_WITHIN_S = 600

PASSED = "passed"
SKIPPED = "skipped"
NO_TRANSACTIONS = "transactions are refused at once"

Outcomes = dict[str, str]
"""Of each test by its name: PASSED, SKIPPED, or its failure's first line."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A client's tests.

    prepare: makes what the tests need, from the folder with the client's sources, before there is a
        cluster.
    run: runs the tests of that folder against brokers at an address.
    settings: of the brokers, as the suite's own brokers have them.
    fails: the tests that are known to fail, and why.
    """

    client: str
    release: str
    repository: str
    prepare: Callable[[Path], None]
    run: Callable[[Path, str], Outcomes]
    settings: tuple[str, ...]
    fails: Mapping[str, str]


def run_suite(suite: Suite, checkout: Path | None) -> Outcomes:
    """Run the suite's tests against a new cluster, which is removed afterwards.

    checkout: of the client, instead of a clone of its release.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-suite-") as scratch:
        root = _sources(suite, checkout, Path(scratch) / "sources")
        suite.prepare(root)
        with _cluster(suite) as bootstrap:
            return suite.run(root, bootstrap)


def surprises(suite: Suite, found: Mapping[str, str]) -> Outcomes:
    """Return the tests that fail and are not known to, or pass and are known to fail."""
    missing = {name: "it did not run" for name in suite.fails if name not in found}
    return missing | {
        name: "passes, and is known to fail" if outcome == PASSED else outcome
        for name, outcome in found.items()
        if outcome != SKIPPED and (outcome == PASSED) == (name in suite.fails)
    }


def _sources(suite: Suite, checkout: Path | None, folder: Path) -> Path:
    """Clone the checkout, or else the release; return the root.

    A clone, since the tests and the builds write into it.
    """
    if checkout:
        origin: tuple[str, ...] = (str(checkout.resolve()),)
    else:
        origin = ("--depth", "1", "--branch", suite.release, suite.repository)
    clone = ("git", "clone", "--quiet", *origin, folder)
    subprocess.run(clone, check=True, timeout=CLONE_WITHIN_S)
    return folder


@contextmanager
def _cluster(suite: Suite) -> Iterator[str]:
    """Bring a cluster of three brokers up, and give their addresses."""
    highwater = Path(sys.executable).parent / "highwater"
    options = [part for each in suite.settings for part in ("--broker-setting", each)]
    up = [highwater, "up", "--name", RUN, "--json", *options]
    cluster = subprocess.run(up, check=True, stdout=subprocess.PIPE)
    try:
        yield json.loads(cluster.stdout)["bootstrap"]
    finally:
        subprocess.run([highwater, "down", RUN], check=True, stdout=subprocess.DEVNULL)
