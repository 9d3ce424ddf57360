"""Fuzzes what judges a run: histories, traces, probes and segments, damaged or forged.

Whatever they hold there is a verdict, and never a pass where a replica's log is not the sound one.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from highwater.run_folder import RunFolder
from highwater.runs.simulated_evidence import look_at, write_histories, write_segments, write_traces
from highwater_checker.judging import judge_run
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_checker.verdict import Outcome
from highwater_simulator.world import World
from highwater_wire.kafka.record_batch import split_batches
from tests.fuzz.cases import Broken, Case, Step
from tests.fuzz.draws import INT64_EDGES, Draws, with_right_crc
from tests.support.failover_story import ORDERS, failover

Folder = dict[str, bytes]


class EvidenceFuzzer:
    """The files of a sound run, some of them damaged."""

    name = "evidence"

    def draw(self, draws: Draws) -> Case:
        folder = sound_run()
        paths = sorted(path for path in folder if not path.endswith(".json"))
        steps = []
        for _ in range(draws.between(1, 2)):
            path = draws.one_of(paths)
            steps.append(_damage(draws, path, folder[path]))
        return tuple(steps)

    def run(self, case: Case) -> None:
        sound = sound_run()
        folder = dict(sound)
        for step in case:
            action, path = step.label.split(" ", 1)
            if action == "remove":
                folder.pop(path, None)
            else:
                folder[path] = step.payload
        outcome = _outcome(folder)
        if outcome is not Outcome.PASS:
            return
        for path, content in sound.items():
            if path.endswith(".log") and folder.get(path) != content:
                raise Broken("damage is seen", f"a pass with another {path}")

    def simpler(self, step: Step) -> Iterator[Step]:
        if step.label.endswith(".jsonl"):
            lines = step.payload.splitlines(keepends=True)
            half = len(lines) // 2
            for part in (lines[:half], lines[half:]) if half else ():
                yield Step(step.label, b"".join(part))


def _outcome(files: Folder) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="highwater-fuzz-") as name:
        for path, content in files.items():
            place = Path(name) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return judge_run(Path(name)).outcome


@functools.cache
def sound_run() -> Folder:
    """Return the files of a simulated run with a failover."""
    world = World(1)
    client = world.client("client-0")
    with tempfile.TemporaryDirectory(prefix="highwater-fuzz-") as name:
        try:
            world.run(failover(world, client), 600_000)
            folder = RunFolder(Path(name))
            write_histories(folder, client.history)
            write_traces(folder, world.trace.entries)
            write_segments(folder, world)
            topic = PromisedTopic(ORDERS.topic, 1, 3)
            folder.write(PROMISES, Promises((topic,), (PromisedProducer("client-0"),)))
            folder.write(REQUIREMENTS, ())
            folder.write(FINAL_LOOK, look_at(world))
        finally:
            world.close()
        found = {
            path.relative_to(name).as_posix(): path.read_bytes()
            for path in sorted(Path(name).rglob("*"))
            if path.is_file() and path.suffix in (".json", ".jsonl", ".log")
        }
    if _outcome(found) is not Outcome.PASS:
        raise Broken("set-up", "the sound run is not sound")
    return found


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
        del batches[at]
    elif draws.chance(30):
        batches[at] = bytearray(draws.batch())
    else:
        draws.forge(batches[at])
        batches[at] = bytearray(with_right_crc(batches[at]))
    return b"".join(batches)


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
