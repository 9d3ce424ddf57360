"""The code that a campaign's workers run, and a Spark session whose workers have it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from highwater.errors import INTERRUPTED_EXIT_CODE
from highwater.output import say
from highwater_pipeline.campaign.shipping import is_here, ship
from highwater_pipeline.campaign.state import group_receipts
from highwater_pipeline.session import spark_session

RUN_ON = (
    "highwater_core",
    "highwater_wire",
    "highwater_controller",
    "highwater_broker",
    "highwater_checker",
    "highwater_chaos",
    "highwater_client",
    "highwater_planted",
    "highwater_simulator",
)
"""The packages whose code decides a schedule's run."""
SHIPPED = (*RUN_ON, "highwater_pipeline", "highwater")


@contextmanager
def campaign_session(master: str) -> Iterator[SparkSession]:
    """Give a session whose workers import the packages of SHIPPED as they are here.

    Raises:
        NoSpark: Spark cannot start.
    """
    with (
        tempfile.TemporaryDirectory(prefix="highwater-campaign-") as shipped,
        spark_session(master) as spark,
    ):
        if not is_here(master):
            ship(spark, SHIPPED, Path(shipped))
        yield spark


def interrupted(store: Path, name: str, wanted: int, what: str) -> int:
    """Say how much of a campaign is kept, and return the exit code. what: schedules or plans."""
    done = sum(each.schedules for each in group_receipts(store, name).values())
    say(
        f"interrupted: {done:,} of {wanted:,} {what} of campaign {name} are kept; the same command "
        "goes on with the others"
    )
    return INTERRUPTED_EXIT_CODE
