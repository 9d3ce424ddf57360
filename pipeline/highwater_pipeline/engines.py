"""Which engine runs the pipeline's queries: Spark, or the local one for small runs.

Imports neither: the command line names the engines also where none is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class NoEngine(Exception):
    """No engine is to be had; the message says why, and what to do."""


class Engine(StrEnum):
    """What the user asks for.

    auto: the local engine for small runs where it is installed, else Spark.
    """

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


def engines_to_try(
    asked: Engine, *, are_small: bool, lacks_spark: str | None, lacks_local: str | None
) -> Sequence[Engine]:
    """Return the engines to try, in order: the next one where the one before it fails.

    lacks_spark, lacks_local: why an engine is not to be had here; None where it is.

    With auto, runs that are not small go to the local engine only where there is no Spark. An
    engine that was named is the only one.

    Raises:
        NoEngine: none is to be had.
    """
    lacking = {Engine.SPARK: lacks_spark, Engine.LOCAL: lacks_local}
    if asked is not Engine.AUTO:
        wanted = [asked]
    elif are_small:
        wanted = [Engine.LOCAL, Engine.SPARK]
    else:
        wanted = [Engine.SPARK, Engine.LOCAL]
    found = [engine for engine in wanted if lacking[engine] is None]
    if not found:
        raise NoEngine("; ".join(f"{lacking[engine]}" for engine in wanted))
    return found if are_small or asked is not Engine.AUTO else found[:1]
