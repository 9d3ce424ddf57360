"""Where probes are sent, and what is written of their answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.runs.probing import Prober, offsets_to_probe
from highwater_checker.looks import Look
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.record_batch import build_batch
from tests.support.evidence_makers import AT, look, replica


def seen(time_ns: int, *replicas: object) -> Look:
    made = look(time_ns, *replicas)  # type: ignore[arg-type]
    return Look(made.time_ns, made.nodes)


@pytest.mark.parametrize(
    ("held", "told", "offsets"),
    [
        (replica("leader", 5, 9), None, (5, 7, 8)),
        (replica("leader", 5, 6), None, (5,)),
        (replica("leader", 5, 5), None, (5,)),
        (replica("leader", 5, 9), 6, (5, 6, 7, 8)),
        (replica("follower", 5, 9), 6, (6,)),
        (replica("follower", 5, 9), None, ()),
        (None, 6, (6,)),
    ],
)
def test_where_probes_are_sent(held: object, told: int | None, offsets: tuple[int, ...]) -> None:
    assert offsets_to_probe(seen(0, held), 0, AT, told) == offsets


@pytest.mark.parametrize(
    ("torn_bytes", "error", "first_record"), [(0, "", 7), (3, "CORRUPT_MESSAGE", -1)]
)
def test_an_answer_with_a_torn_batch_is_written_and_does_not_end_the_prober(
    torn_bytes: int, error: str, first_record: int, tmp_path: Path
) -> None:
    batch = build_batch([(None, b"value", 0)], base_offset=7)
    records = batch[: len(batch) - torn_bytes]
    answer = SimpleNamespace(records=records, error=ErrorCode.NONE, high_watermark=9)
    client: Any = SimpleNamespace(fetch=lambda *_, **__: answer)
    prober = Prober({0: Any}, [AT], tmp_path / "probes", lambda: Look(0, {}), lambda: 5)  # type: ignore[dict-item]
    try:
        probe = prober._ask(client, 0, AT, 7, 4)
    finally:
        prober.stop()
    assert (probe.error, probe.first_record) == (error, first_record)
    assert prober.told(AT) == (9 if not error else -1)
