"""Which engine runs the pipeline's queries: Spark, or the local one for small runs.

Imports neither: the command line names the engines also where none is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    asked: Engine,
    *,
    are_small: bool,
    lacks_spark: Callable[[], str | None],
    lacks_local: Callable[[], str | None],
) -> Sequence[Engine]:
    """Return the engines to try, in order: the next one where the one before it fails.

    lacks_spark, lacks_local: return why an engine is not to be had here; None where it is. Whether
        Spark is, which starts a Java, is asked only where it comes first.

    With auto, runs that are not small go to the local engine only where there is no Spark. An
    engine that was named is the only one.

    Raises:
        NoEngine: none is to be had.
    """
    lacks = {Engine.SPARK: lacks_spark, Engine.LOCAL: lacks_local}
    if asked is not Engine.AUTO:
        wanted = [asked]
    else:
        wanted = [Engine.LOCAL, Engine.SPARK] if are_small else [Engine.SPARK, Engine.LOCAL]
    reasons = []
    for place, engine in enumerate(wanted):
        reason = lacks[engine]()
        if reason is None:
            return wanted[place:] if engine is Engine.LOCAL else [engine]
        reasons.append(reason)
    raise NoEngine("; ".join(reasons))
