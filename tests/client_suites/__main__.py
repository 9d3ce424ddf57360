"""`python -m tests.client_suites [CLIENT [CHECKOUT]]` runs stock clients' own tests.

Exit code 1: a test fails that should pass, or a known failure passes.
docs/how-to/client-suites.md lists the known failures.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.client_suites.of_kafka_python import KAFKA_PYTHON
from tests.client_suites.of_librdkafka import LIBRDKAFKA
from tests.client_suites.suite import Suite, run_suite, surprises

SUITES = {suite.client: suite for suite in (KAFKA_PYTHON, LIBRDKAFKA)}


def _run(suite: Suite, checkout: Path | None) -> bool:
    """Run the suite and print its table; return whether all was as it is known to be."""
    found = run_suite(suite, checkout)
    table = Table("test", "outcome", title=f"{suite.client} {checkout or suite.release}")
    for name, outcome in found.items():
        table.add_row(name, suite.fails.get(name, outcome))
    Console().print(table)
    unexpected = surprises(suite, found)
    for name, outcome in unexpected.items():
        print(f"{name}: {outcome}")
    return bool(found) and not unexpected


def main() -> int:
    client, checkout, *more = *sys.argv[1:], None, None
    if any(more) or (client and client not in SUITES):
        print(f"usage: python -m tests.client_suites [{'|'.join(SUITES)} [CHECKOUT]]")
        return 2
    suites = [SUITES[client]] if client else list(SUITES.values())
    as_known = [_run(suite, Path(checkout) if checkout else None) for suite in suites]
    return 0 if all(as_known) else 1


if __name__ == "__main__":
    sys.exit(main())
