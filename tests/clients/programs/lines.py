"""How a client's program talks with the test: JSON lines out, a line in to go on or to stop."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

ACKS = ("0", "1", "all")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 40
PACE_S = 0.025
ATTEMPTS = 100
ATTEMPTS_PAUSE_S = 0.2
PADDING = " " + "padding " * 40


class At(NamedTuple):
    """What a program is told to work at."""

    bootstrap: str
    topic: str
    group: str
    since_ms: int


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def half() -> None:
    """Wait until the test has done to the cluster what it wants."""
    tell(at="half")
    os.read(0, 1)


def is_stopped() -> bool:
    return bool(select.select([0], [], [], 0)[0])


def asked_again(
    ask: Callable[[], Any], errors: type[Exception] | tuple[type[Exception], ...]
) -> Any:
    """Return what is asked for; ask again while a dead broker is asked, where a client does not."""
    for _ in range(ATTEMPTS):
        try:
            return ask()
        except errors:
            time.sleep(ATTEMPTS_PAUSE_S)
    return ask()


def once_all_know(ask: Callable[[], Any], wanted: object) -> Any:
    """Return the answer, once it is the wanted one: one broker hears of a change after another."""
    for _ in range(ATTEMPTS):
        answer = ask()
        if answer == wanted:
            break
        time.sleep(ATTEMPTS_PAUSE_S)
    return answer


def run(steps: Mapping[str, Callable[[At], None]]) -> None:
    step, bootstrap, topic, group, since_ms = sys.argv[1:]
    steps[step](At(bootstrap, topic, group, int(since_ms)))
