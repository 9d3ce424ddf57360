"""Runs a plan's clients by a stock library: `python -m highwater.runs.stock LIBRARY JOB.json`.

JOB.json is a LoadJob; its owner commands it through stdin, see highwater.runs.stock.load.
"""

from __future__ import annotations

import sys
from pathlib import Path

from highwater.runs.stock.libraries import ClientKind, library_of
from highwater.runs.stock.load import StockLoad
from highwater_client.load_job import BadJob, decode_job


def main(arguments: list[str]) -> int:
    kinds = [kind.value for kind in ClientKind if kind is not ClientKind.OWN]
    if len(arguments) != 2 or arguments[0] not in kinds:
        sys.stderr.write(f"usage: python -m highwater.runs.stock {{{','.join(kinds)}}} JOB.json\n")
        return 2
    try:
        job = decode_job(Path(arguments[1]).read_bytes())
    except (OSError, BadJob) as error:
        sys.stderr.write(f"{arguments[1]}: {error}\n")
        return 2
    StockLoad(job, library_of(ClientKind(arguments[0]))).run(sys.stdin)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
