"""Runs a stock client's own integration tests against a cluster of Highwater.

`make client-suites` clones the client at a release, brings a cluster up and runs the tests there in
an environment of their own: some ten minutes. `python -m tests.client_suites CHECKOUT` uses a local
checkout. Exit code 1: a test fails that should pass, or a known failure passes.
docs/how-to/client-suites.md lists the known failures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

RUN = "client-suite"
TEST_WITHIN_S = 180
SUITE_WITHIN_S = 3_600
INSTALL_WITHIN_S = 600

_NO_ACLS = "ACLs are not supported: no authorizer"
_NO_DELETE_RECORDS = "DeleteRecords is not supported"
_NO_TRANSACTIONS = "transactions are refused at once"


@dataclass(frozen=True, slots=True)
class Suite:
    """A client's tests. fails: those that are known to, and why.

    settings: of the brokers, as the suite's own brokers have them. leaves_out: test modules that
    start brokers of their own.
    """

    client: str
    release: str
    repository: str
    tests: str
    needs: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    makes_folders: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    fails: Mapping[str, str] = field(default_factory=dict)


KAFKA_PYTHON = Suite(
    client="kafka-python",
    release="3.0.12",
    repository="https://github.com/dpkp/kafka-python",
    tests="test/integration",
    needs=(
        *("py", "pytest", "pytest-mock", "pytest-timeout"),
        *("crc32c", "lz4", "python-snappy", "xxhash", "zstandard"),
    ),
    environment={"KAFKA_VERSION": "3.9.1"},
    makes_folders=("servers/3.9.1/kafka-bin",),  # looked for also where a broker is given
    leaves_out=(
        "test/integration/test_sasl_integration.py",
        "test/integration/test_ssl_integration.py",
    ),
    settings=(
        "auto_create_topics_enable=true",
        "num_partitions=4",
        "group_min_session_timeout_ms=1000",
        "group_initial_rebalance_delay_ms=0",
    ),
    fails={
        "test_create_describe_delete_acls": _NO_ACLS,
        "test_describe_configs_broker_resource_returns_configs": (
            "brokers tell no advertised.listeners among their configurations"
        ),
        "test_delete_records": _NO_DELETE_RECORDS,
        "test_delete_records_with_errors": _NO_DELETE_RECORDS,
        "test_alter_replica_log_dirs": "replicas do not move between log folders",
        "test_kafka_version_infer": (
            "the client infers 3.2 from the versions of the APIs that brokers offer"
        ),
        "test_transactional_producer_messages": _NO_TRANSACTIONS,
        "test_transactional_producer_offsets": _NO_TRANSACTIONS,
    },
)


def sources(suite: Suite, checkout: Path | None, folder: Path) -> Path:
    """Clone what the checkout has, or else the release from where it is kept; return the root.

    A clone, since the tests and the installation write into it.
    """
    if checkout:
        origin: tuple[str, ...] = (str(checkout.resolve()),)
    else:
        origin = ("--branch", suite.release, suite.repository)
    clone = ("git", "clone", "--quiet", *origin, folder)
    subprocess.run(clone, check=True, timeout=INSTALL_WITHIN_S)
    return folder


def environment(suite: Suite, root: Path, folder: Path) -> Path:
    """Make an environment with the client and what its tests need; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    subprocess.run((*install, *suite.needs, root), check=True, timeout=INSTALL_WITHIN_S)
    return python


@contextmanager
def cluster(suite: Suite) -> Iterator[str]:
    """Bring a cluster of three brokers up, and give one's address."""
    highwater = Path(sys.executable).parent / "highwater"
    options = [part for each in suite.settings for part in ("--broker-setting", each)]
    up = [highwater, "up", "--name", RUN, "--json", *options]
    told = subprocess.run(up, check=True, stdout=subprocess.PIPE)
    try:
        yield json.loads(told.stdout)["bootstrap"].split(",")[0]
    finally:
        subprocess.run([highwater, "down", RUN], check=True, stdout=subprocess.DEVNULL)


def outcomes(junit: Path) -> dict[str, str]:
    """Return of each test "passed", "skipped", or its failure's first line."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(junit).iter("testcase"):  # noqa: S314 - pytest wrote it
        failure = next((each for each in case if each.tag in ("failure", "error")), None)
        if failure is not None:
            found[case.get("name", "")] = (failure.get("message") or "failed").split("\n", 1)[0]
        else:
            found[case.get("name", "")] = (
                "skipped" if case.find("skipped") is not None else "passed"
            )
    return found


def surprises(suite: Suite, found: Mapping[str, str]) -> dict[str, str]:
    """Return the tests that fail and are not known to, or pass and are known to fail."""
    missing = {name: "it did not run" for name in suite.fails if name not in found}
    return missing | {
        name: "passes, and is known to fail" if outcome == "passed" else outcome
        for name, outcome in found.items()
        if outcome != "skipped" and (outcome == "passed") == (name in suite.fails)
    }


def run(suite: Suite, checkout: Path | None) -> dict[str, str]:
    """Run the tests; return each one's outcome by its name."""
    with tempfile.TemporaryDirectory(prefix="highwater-suite-") as scratch:
        root = sources(suite, checkout, Path(scratch) / "sources")
        python = environment(suite, root, Path(scratch) / "environment")
        for name in suite.makes_folders:
            (root / name).mkdir(parents=True)
        junit = Path(scratch) / "junit.xml"
        options = ["--timeout", str(TEST_WITHIN_S), "--timeout-method", "signal"]
        options += [f"--ignore={each}" for each in suite.leaves_out]
        with cluster(suite) as bootstrap:
            subprocess.run(
                [python, "-m", "pytest", "-q", suite.tests, f"--junitxml={junit}", *options],
                cwd=root,
                env=os.environ | {**suite.environment, "KAFKA_URI": f"kafka://{bootstrap}"},
                stdout=sys.stderr,
                timeout=SUITE_WITHIN_S,
                check=False,
            )
        return outcomes(junit)


def main() -> int:
    suite = KAFKA_PYTHON
    checkout = Path(sys.argv[1]) if sys.argv[1:] else None
    found = run(suite, checkout)
    table = Table("test", "outcome", title=f"{suite.client} {checkout or suite.release}")
    for name, outcome in found.items():
        table.add_row(name, suite.fails.get(name, outcome))
    Console().print(table)
    unexpected = surprises(suite, found)
    for name, outcome in unexpected.items():
        print(f"{name}: {outcome}")
    return 1 if unexpected or not found else 0


if __name__ == "__main__":
    sys.exit(main())
