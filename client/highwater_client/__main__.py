"""Runs a plan's clients on sockets: `python -m highwater_client JOB.json`, a LoadJob.

Its owner commands it through stdin; see highwater_client.running_load.
"""

from __future__ import annotations

import sys
from pathlib import Path

from highwater_adapters.client_process import ClientProcess, run_client
from highwater_client.load_job import BadJob, decode_job
from highwater_client.running_load import RunningLoad


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m highwater_client JOB.json\n")
        return 2
    try:
        job = decode_job(Path(arguments[0]).read_bytes())
    except (OSError, BadJob) as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return 2

    async def work(process: ClientProcess) -> None:
        await RunningLoad(job, process).run()

    return run_client(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
