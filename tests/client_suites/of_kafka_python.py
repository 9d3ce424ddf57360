"""kafka-python's integration tests."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from xml.etree import ElementTree

from tests.client_suites.suite import NO_TRANSACTIONS, PASSED, SKIPPED, Outcomes, Suite

TEST_WITHIN_S = 180
SUITE_WITHIN_S = 3_600
INSTALL_WITHIN_S = 600

NEEDS = (
    *("py", "pytest", "pytest-mock", "pytest-timeout"),
    *("crc32c", "lz4", "python-snappy", "xxhash", "zstandard"),
)
KAFKA_VERSION = "3.9.1"
LOOKED_FOR = f"servers/{KAFKA_VERSION}/kafka-bin"
"""A folder that the suite looks for also where brokers are given."""
START_BROKERS_OF_THEIR_OWN = (
    "test/integration/test_sasl_integration.py",
    "test/integration/test_ssl_integration.py",
)

_NO_DELETE_RECORDS = "DeleteRecords is not supported"


def _prepare(root: Path) -> None:
    """Make an environment with the client and its tests' packages."""
    venv.create(root / ".environment", with_pip=True)
    install = (_python(root), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    subprocess.run((*install, *NEEDS, root), check=True, timeout=INSTALL_WITHIN_S)
    (root / LOOKED_FOR).mkdir(parents=True)


def _run(root: Path, bootstrap: str) -> Outcomes:
    junit = root / "junit.xml"
    options = ["--timeout", str(TEST_WITHIN_S), "--timeout-method", "signal"]
    options += [f"--ignore={each}" for each in START_BROKERS_OF_THEIR_OWN]
    brokers = {
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_URI": f"kafka://{bootstrap.split(',', maxsplit=1)[0]}",
    }
    subprocess.run(
        [_python(root), "-m", "pytest", "-q", "test/integration", f"--junitxml={junit}", *options],
        cwd=root,
        env=os.environ | brokers,
        stdout=sys.stderr,
        timeout=SUITE_WITHIN_S,
        check=False,
    )
    return outcomes(junit)


def _python(root: Path) -> Path:
    return root / ".environment" / "bin" / "python"


def outcomes(junit: Path) -> Outcomes:
    """Return the tests' outcomes from pytest's JUnit file."""
    found: Outcomes = {}
    for case in ElementTree.parse(junit).iter("testcase"):  # noqa: S314 - pytest wrote it
        failure = next((each for each in case if each.tag in ("failure", "error")), None)
        outcome = PASSED if case.find("skipped") is None else SKIPPED
        if failure is not None:
            outcome = (failure.get("message") or "failed").split("\n", 1)[0]
        found[case.get("name", "")] = outcome
    return found


KAFKA_PYTHON = Suite(
    client="kafka-python",
    release="3.0.12",
    repository="https://github.com/dpkp/kafka-python",
    prepare=_prepare,
    run=_run,
    settings=(
        "auto_create_topics_enable=true",
        "num_partitions=4",
        "group_min_session_timeout_ms=1000",
        "group_initial_rebalance_delay_ms=0",
    ),
    fails={
        "test_create_describe_delete_acls": "ACLs are not supported: no authorizer",
        "test_describe_configs_broker_resource_returns_configs": (
            "a broker's configurations do not include advertised.listeners"
        ),
        "test_delete_records": _NO_DELETE_RECORDS,
        "test_delete_records_with_errors": _NO_DELETE_RECORDS,
        "test_alter_replica_log_dirs": "replicas do not move between log folders",
        "test_kafka_version_infer": (
            "the client infers 3.2 from the versions of the APIs that brokers offer"
        ),
        "test_transactional_producer_messages": NO_TRANSACTIONS,
        "test_transactional_producer_offsets": NO_TRANSACTIONS,
    },
)
