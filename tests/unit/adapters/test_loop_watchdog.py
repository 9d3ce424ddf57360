"""A process whose event loop hangs ends; a busy or paused process does not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from highwater_adapters.loop_watchdog import LOOP_STALLED_EXIT_CODE, TICKS, LoopWatchdog


def test_a_loop_that_stands_still_is_found_after_so_many_ticks_with_its_stack() -> None:
    async def where_it_hangs() -> list[str]:
        ends: list[str] = []
        watchdog = LoopWatchdog(1_000, ends.append)
        for _ in range(TICKS):
            watchdog.tick()
        assert ends == []
        watchdog.tick()
        return ends

    (stack,) = asyncio.run(where_it_hangs())
    assert "in where_it_hangs" in stack


def test_a_loop_that_turns_now_and_then_is_left_alone() -> None:
    async def main() -> None:
        ends: list[str] = []
        watchdog = LoopWatchdog(1_000, ends.append)
        for _ in range(5):
            for _ in range(TICKS):
                watchdog.tick()
            await asyncio.sleep(0)
        assert ends == []

    asyncio.run(main())


def test_a_watchdog_stops_with_its_loop() -> None:
    async def main() -> None:
        before = threading.active_count()
        watchdog = LoopWatchdog(20)
        watchdog.start()
        watchdog.start()
        assert threading.active_count() == before + 1
        watchdog.stop()
        assert threading.active_count() == before

    asyncio.run(main())


# ---------------------------------------------------------------- real processes

NODE = """
import sys, time
from highwater_adapters import process
from tests.unit.adapters.node_settings import Settings

class Sessions:
    def __init__(self, hosts):
        pass

    async def open(self, session_timeout_ms):
        return None

class Node:
    def __init__(self, settings, ports):
        self.ports = ports

    def request_stop(self):
        pass

    async def run(self):
        await self.ports.coordination.open(100)
        print("runs", flush=True)
        await HANGS[sys.argv[2]](self.ports.runtime)

async def spins(runtime):
    while True:
        pass

async def blocks(runtime):
    time.sleep(1000)

async def is_stopped(runtime):
    sys.stdin.readline()
    for _ in range(100):
        await runtime.sleep(1)

HANGS = {work.__name__: work for work in (spins, blocks, is_stopped)}
process.KazooCoordinationFactory = Sessions
settings = Settings(sys.argv[1], session_timeout_ms=100, event_loop_stall_max_ms=200)
sys.exit(process.run_node(settings, Node))
"""


def start(folder: Path, work: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", NODE, str(folder), work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("work", ["spins", "blocks"])
def test_a_node_that_hangs_ends_with_a_code_of_its_own_and_says_where(
    tmp_path: Path, work: str
) -> None:
    with start(tmp_path, work) as node:
        _, errors = node.communicate(timeout=60)
    assert node.returncode == LOOP_STALLED_EXIT_CODE == 75, errors
    (line,) = (json.loads(line) for line in errors.splitlines())
    assert line["message"] == "the event loop has not turned for 200 ms: the process ends"
    assert f"in {work}" in line["traceback"]


def test_a_node_that_was_stopped_as_a_whole_goes_on(tmp_path: Path) -> None:
    with start(tmp_path, "is_stopped") as node:
        assert node.stdout is not None
        assert node.stdout.readline() == "runs\n"
        for _ in range(2):
            node.send_signal(signal.SIGSTOP)
            os.waitpid(node.pid, os.WUNTRACED)
            time.sleep(0.5)  # the stop itself: more than twice what a loop may stand still
            node.send_signal(signal.SIGCONT)
        _, errors = node.communicate("go\n", timeout=60)
    assert (node.returncode, errors) == (0, "")
