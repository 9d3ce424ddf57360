"""Fuzzes what judges a run: histories, traces, probes and segments, damaged or forged.

Whatever they hold there is a verdict, and never a pass where a replica's log is not the sound one.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from struct import unpack_from
from typing import Any

from highwater_checker.judging import judge_run
from highwater_checker.segments import batches_in
from highwater_checker.verdict import Outcome
from highwater_wire.kafka.compacted_batch import empty_batch
from highwater_wire.kafka.record_batch import split_batches
from tests.fuzz.cases import Broken, Case, Step
from tests.fuzz.draws import INT64_EDGES, Draws, with_right_crc
from tests.support.sound_runs import COMPACTED, FAILOVER, RUNS, Folder, sound_run


class EvidenceFuzzer:
    """The files of a sound run, some of them damaged; steps name the run if it is no failover."""

    name = "evidence"

    def draw(self, draws: Draws) -> Case:
        name = draws.one_of(sorted(RUNS))
        folder = checked_run(name)
        paths = sorted(path for path in folder if not path.endswith(".json"))
        steps = []
        for _ in range(draws.between(1, 2)):
            path = draws.one_of(paths)
            step = _damage(draws, path, folder[path])
            steps.append(replace(step, label=_label(name, step.label)))
        return tuple(steps)

    def run(self, case: Case) -> None:
        name = _name_of(case)
        sound = checked_run(name)
        folder = dict(sound)
        for step in case:
            action, path = step.label.removeprefix(f"{name}: ").split(" ", 1)
            if action == "remove":
                folder.pop(path, None)
            else:
                folder[path] = step.payload
        if _outcome(folder) is Outcome.PASS and (lost := _is_lost(name, sound, folder)):
            raise Broken("damage is seen", f"a pass with another {lost}")

    def simpler(self, step: Step) -> Iterator[Step]:
        if step.label.endswith(".jsonl"):
            lines = step.payload.splitlines(keepends=True)
            half = len(lines) // 2
            for part in (lines[:half], lines[half:]) if half else ():
                yield Step(step.label, b"".join(part))


def _label(name: str, label: str) -> str:
    return label if name == FAILOVER else f"{name}: {label}"


def _name_of(case: Case) -> str:
    names = (name for step in case for name in RUNS if step.label.startswith(f"{name}: "))
    return next(names, FAILOVER)


@functools.cache
def checked_run(name: str) -> Folder:
    """Return the files of the sound run of that name, which passes."""
    found = sound_run(name)
    if _outcome(found) is not Outcome.PASS:
        raise Broken("set-up", f"the sound run {name} is not sound")
    return found


def _outcome(files: Folder) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="highwater-fuzz-") as name:
        for path, content in files.items():
            place = Path(name) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return judge_run(Path(name)).outcome


def _is_lost(name: str, sound: Folder, found: Folder) -> str:
    """Return the replica of a judged topic whose log lacks something, "" where there is none.

    Of a compacted log the newest record of each key counts: compaction may take the others.
    """
    newest = _newest if name == COMPACTED else dict
    for replica in dict.fromkeys(path.rpartition("/")[0] for path in sound if _is_judged(path)):
        logs = (
            {path: content for path, content in folder.items() if path.startswith(f"{replica}/")}
            for folder in (sound, found)
        )
        expected, held = map(newest, logs)
        if expected != held:
            return replica
    return ""


def _is_judged(path: str) -> bool:
    """Return whether it is a log of a topic: of clients, or of committed offsets."""
    return path.endswith(".log")


def _newest(log: Mapping[str, bytes]) -> dict[bytes | None, tuple[int, bytes | None]]:
    segments = sorted((path.rpartition("/")[2], content) for path, content in log.items())
    return {
        key: (offset, value)
        for batch in batches_in(segments)
        for offset, key, value in batch.records()
    }


# ---------------------------------------------------------------- damage


def _damage(draws: Draws, path: str, content: bytes) -> Step:
    if draws.chance(5):
        return Step(f"remove {path}")
    if draws.chance(30):
        return Step(f"damage {path}", draws.damaged(content))
    forged = _forged_batch if path.endswith(".log") else _forged_lines
    return Step(f"damage {path}", forged(draws, content))


def _forged_batch(draws: Draws, content: bytes) -> bytes:
    """Return the segment with one batch of a right CRC that says, or holds, something else."""
    if not content:
        return draws.batch()
    batches = [bytearray(batch.data) for batch in split_batches(content)]
    at = draws.below(len(batches))
    if draws.chance(30):
        batches[at : at + 1] = [_emptied(batches[at])] if draws.chance(70) else []
    elif draws.chance(30):
        batches[at] = bytearray(draws.batch())
    else:
        draws.forge(batches[at])
        batches[at] = bytearray(with_right_crc(batches[at]))
    return b"".join(batches)


def _emptied(batch: bytearray) -> bytearray:
    """Return the batch without its records, as compaction leaves one: no offset is missing."""
    (base_offset,), (leader_epoch,) = unpack_from(">q", batch), unpack_from(">i", batch, 12)
    (last_delta,) = unpack_from(">i", batch, 23)
    return bytearray(empty_batch(base_offset, base_offset + last_delta, leader_epoch))


def _forged_lines(draws: Draws, content: bytes) -> bytes:
    """Return the lines with one doubled, moved, left out, or with another value in it."""
    lines = content.splitlines()
    if not lines:
        return draws.random.randbytes(9)
    at = draws.below(len(lines))
    kind = draws.below(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.append(lines[at])
    elif kind == 2:
        lines[at] = lines[at][: draws.below(len(lines[at]) + 1)]
    else:
        lines[at] = json.dumps(_forged_value(draws, json.loads(lines[at]))).encode()
    return b"\n".join(lines) + b"\n"


def _forged_value(draws: Draws, event: dict[str, Any]) -> dict[str, Any]:
    key = draws.one_of(sorted(event))
    values = (None, "", "x", "invoke", "ok", [], {}, 1.5, *INT64_EDGES, 2**70)
    return {**event, key: draws.one_of(values)}
