"""The job of a plan's clients as a file: for their own process, not for the judge."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from highwater_chaos.plan import Workload
from highwater_checker.history import process_name
from highwater_core.ids import Endpoint


class BadJob(Exception):
    """The text is no job; the message says why."""


@dataclass(frozen=True, slots=True)
class LoadJob:
    """The job of the process.

    history_folder: each client writes its history there.
    start_ns: the machine's monotonic clock at the run's start.
    incarnation: of the clients, from 1; from the second on the topics exist.
    """

    bootstrap: tuple[Endpoint, ...]
    workload: Workload
    seed: int
    start_ns: int
    history_folder: str
    incarnation: int = 1

    @property
    def file_name(self) -> str:
        """The job's file in the run's folder: load.json, load.2.json, ..."""
        return f"{process_name('load', self.incarnation)}.json"


def encode_job(job: LoadJob) -> bytes:
    """Return the job as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(job), indent=2) + b"\n"


def decode_job(text: bytes) -> LoadJob:
    """Return the job.

    Raises:
        BadJob: the text is no JSON, or has another structure.
    """
    try:
        return msgspec.json.decode(text, type=LoadJob)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJob(str(error)) from error
