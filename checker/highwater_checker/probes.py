"""The history of probes: fetches as a consumer at offsets without a committed record.

On disk: one JSON object a line, each an answer, in the order in which the recorder got them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from highwater_checker.finding import Probed
from highwater_core.json_lines import decode_lines
from highwater_core.numbers import Int64

NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class Probe:
    """One fetch at one offset of one broker, and its answer.

    Units: times by the recorder's monotonic clock from the run's start.
    error: the protocol's name, also of unreadable records in the answer; "" for none, NO_ANSWER
        for a broken or silent connection.
    high_watermark: in the answer, -1 without one.
    first_record, last_record: offsets of the answer's records, -1 when it was empty.
    """

    asked_ns: Int64
    answered_ns: Int64
    broker: Int64
    topic: str
    partition: Int64
    offset: Int64
    error: str = ""
    high_watermark: Int64 = -1
    first_record: Int64 = -1
    last_record: Int64 = -1

    @property
    def probed(self) -> Probed:
        """Return which probe it is, for findings."""
        return Probed(self.asked_ns, self.broker, self.topic, self.partition, self.offset)

    @property
    def is_empty(self) -> bool:
        return self.last_record < 0


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Probe)


def encode_probe(probe: Probe) -> bytes:
    """Return one line of JSON, without its newline."""
    return _ENCODER.encode(probe)


def decode_probes(lines: Iterable[bytes]) -> list[Probe]:
    """Return the probes of complete lines; a torn last line of a killed recorder is left out.

    Raises:
        DamagedLines: a line before the last is malformed.
    """
    return decode_lines(_DECODER.decode, lines)
