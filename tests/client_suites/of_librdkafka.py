"""librdkafka's tests, those that need brokers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.client_suites.suite import NO_TRANSACTIONS, PASSED, SKIPPED, Outcomes, Suite

BUILD_WITHIN_S = 1_800
SUITE_WITHIN_S = 5_400
LAST_LINES = 30

OPTIONS = (
    "-L",  # no tests without brokers
    "-E",  # none that slow the client's own sockets down
    "-K",  # none of the client's known issues
    "-Q",  # less data
    "-p3",
    *("-V", "3.9.1"),
)

_NEEDS_SCRIPTS = "it runs Apache Kafka's shell scripts (KAFKA_PATH), which are not here"

_COLOUR = re.compile(r"\x1b(\[[0-9;]*m|\(B)")
_ROW = re.compile(r"\|\s*(?P<name>\d{4}_\S+)\s*\|\s*(?P<state>[A-Z ]+?)\s*\|[^|]*\|\s*(?P<why>.*)")
NOT_STARTED = "DNS"
_OUTCOMES = {"PASSED": PASSED, "SKIPPED": SKIPPED}


def _prepare(root: Path) -> None:
    """Build the library and its tests."""
    for command in (("./configure",), ("make", "libs"), ("make", "-C", "tests", "test-runner")):
        subprocess.run(command, cwd=root, stdout=sys.stderr, check=True, timeout=BUILD_WITHIN_S)


def _run(root: Path, bootstrap: str) -> Outcomes:
    tests = root / "tests"
    (tests / "test.conf").write_text(f"bootstrap.servers={bootstrap}\n")
    libraries = f"{root / 'src'}:{root / 'src-cpp'}"
    printed = root / "printed.txt"
    with printed.open("w") as output, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            ["./test-runner", *OPTIONS],
            cwd=tests,
            env=os.environ | {"LD_LIBRARY_PATH": libraries},
            stdout=output,
            timeout=SUITE_WITHIN_S,
            check=False,
        )
    lines = printed.read_text(errors="replace")
    found = outcomes(lines)
    if not found:
        print("it ended without a summary:", *lines.splitlines()[-LAST_LINES:], sep="\n")
    return found


def outcomes(printed: str) -> Outcomes:
    """Return the tests' outcomes from the summary that the runner prints last.

    Tests that were not asked for are in it neither as passed nor as failed, and left out.
    """
    rows = (_ROW.match(_COLOUR.sub("", line)) for line in printed.splitlines())
    return {
        row["name"]: _OUTCOMES.get(row["state"], row["why"] or row["state"].lower())
        for row in rows
        if row is not None and row["state"] != NOT_STARTED
    }


LIBRDKAFKA = Suite(
    client="librdkafka",
    release="v2.15.0",
    repository="https://github.com/confluentinc/librdkafka",
    prepare=_prepare,
    run=_run,
    settings=("auto_create_topics_enable=true", "num_partitions=4"),
    fails={
        "0011_produce_batch": "a refused batch names no records (record_errors, KIP-467)",
        "0052_msg_timestamps": _NEEDS_SCRIPTS,
        "0077_compaction": _NEEDS_SCRIPTS,
        "0081_admin": "topics have no compression.type",
        "0092_mixed_msgver": "topics have no message.format.version",
        "0103_transactions": NO_TRANSACTIONS,
        "0109_auto_create_topics": _NEEDS_SCRIPTS,
        "0115_producer_auth": _NEEDS_SCRIPTS,
        "0119_consumer_auth": _NEEDS_SCRIPTS,
        "0129_fetch_aborted_msgs": NO_TRANSACTIONS,
    },
)
