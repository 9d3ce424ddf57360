"""Stock Java consumers that begin to catch up and are closed, where Maven and a JDK are here."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from bench.apache_kafka.jars import ensure_jars
from bench.hostile.target import Target

_PROGRAM = Path(__file__).with_name("CatchUpAndLeave.java")
_CONSUMERS = 20
_WITHIN_S = 120.0


def java_consumers_that_leave(target: Target, rng: random.Random) -> None:
    """Twenty consumers of the Java client, one after another."""
    jars = ":".join(str(jar) for jar in ensure_jars())
    command = ["java", "-Xmx128m", "-cp", jars, str(_PROGRAM)]
    arguments = [target.bootstrap, target.topic, str(target.partition_count), str(_CONSUMERS)]
    try:
        done = subprocess.run(
            command + arguments, capture_output=True, timeout=_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise OSError(f"no end of it within {_WITHIN_S:g} s") from late
    if done.returncode != 0:
        raise OSError(done.stderr.decode(errors="replace")[-300:])
