"""The job of a plan's clients, as a file for their process."""

from __future__ import annotations

import pytest

from highwater_chaos.plan import Workload
from highwater_client.load_job import BadJob, LoadJob, decode_job, encode_job
from highwater_core.ids import Endpoint

JOB = LoadJob((Endpoint("127.0.0.1", 9),), Workload(), 3, 5, "history", incarnation=2)


def test_a_written_job_is_read_back() -> None:
    assert decode_job(encode_job(JOB)) == JOB


def test_each_incarnation_has_a_file_of_its_own() -> None:
    assert LoadJob((), Workload(), 3, 5, "history").file_name == "load.json"
    assert JOB.file_name == "load.2.json"


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff"])
def test_a_text_that_is_no_job_is_refused(text: bytes) -> None:
    with pytest.raises(BadJob):
        decode_job(text)
