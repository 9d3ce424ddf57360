"""Copies of a sound run's folder that lost or tore a file: files.json says so of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import FINAL_LOOK
from highwater_core.ids import Offset
from tests.pipeline.tampering import (
    FAIL,
    PASS,
    UNKNOWN,
    first_then,
    having,
    lacking,
    listing,
    look_with,
)
from tests.pipeline.tampering_logs import losing
from tests.support.run_on_disk import BATCH, SEGMENT, write

OF_FOLLOWER = f"segments/broker-1/t-0/{SEGMENT}"
OF_A_MAC = b"\0\5\26\7"
"""How a file begins that a Mac's copy puts beside another, under a name with ._ before it."""


def copied(*damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """The run listed its files, and its copy is damaged."""
    return first_then(listing, *damage)


def looks_out_of_order(folder: Path) -> None:
    """The copy has the looks in another order, so that a high watermark seems to fall."""
    ends = (Offset(0), Offset(1))
    looks = [look_with(high_watermark=end, log_end_offset=end).nodes for end in ends]
    lines = [
        encode_look(Look(at, nodes)) + b"\n" for at, nodes in zip((90, 95), looks, strict=True)
    ]
    write(folder / names.LOOKS, b"".join(lines))
    listing(folder)
    write(folder / names.LOOKS, b"".join(reversed(lines)))


def ending_above(folder: Path) -> None:
    """The copy's final look has a high watermark that no log has."""
    listing(folder)
    end = look_with(high_watermark=Offset(7))
    write(folder / FINAL_LOOK.name, FINAL_LOOK.encode(end))


TAMPERED_COPIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "copy-without-a-segment": (copied(lacking(OF_FOLLOWER)), UNKNOWN),
    "copy-with-an-empty-segment": (copied(having(OF_FOLLOWER, b"")), UNKNOWN),
    "copy-with-half-a-segment": (copied(having(OF_FOLLOWER, BATCH[:-1])), UNKNOWN),
    "copy-with-one-more-segment": (
        copied(having("segments/broker-1/t-0/00000000000000000099.log", b"?")),
        UNKNOWN,
    ),
    "copy-of-a-lost-record-without-a-segment": (
        first_then(losing(None), copied(lacking(OF_FOLLOWER))),
        FAIL,  # the other replica shows it
    ),
    "copy-by-a-mac": (
        copied(
            *(
                having(f"{path}/._{name}", OF_A_MAC)
                for path, name in (
                    ("segments/broker-1/t-0", SEGMENT),
                    ("history", "p0.jsonl"),
                    ("trace", "broker-0-1.jsonl"),
                )
            )
        ),
        PASS,
    ),
    "segment-beside-a-mac's": (having(f"segments/broker-1/t-0/._{SEGMENT}", OF_A_MAC), PASS),
    "copy-with-looks-out-of-order": (looks_out_of_order, UNKNOWN),
    "copy-with-another-end": (ending_above, UNKNOWN),
}
