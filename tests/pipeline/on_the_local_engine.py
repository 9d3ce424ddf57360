"""Fixtures in the place of Spark's: who imports them runs tests on the local engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater_pipeline.local_engine import LocalEngine, local_engine


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with local_engine() as found:
        yield found


@pytest.fixture(scope="module")
def spark(engine: LocalEngine) -> SparkSession:
    return engine.session


@pytest.fixture(scope="module")
def scratch(engine: LocalEngine) -> Path:
    return engine.scratch
