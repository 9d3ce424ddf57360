"""What a session starts with: the archive of Spark's classes, its log, its Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from highwater_pipeline.java import archive_options, archive_path, check_java


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))


def test_nothing_is_mapped_where_nothing_was_recorded() -> None:
    assert archive_options("a Java") == ()


def test_an_archive_is_mapped_by_the_java_that_recorded_it() -> None:
    archive = archive_path("a Java")
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in archive_options("a Java")
    assert archive_options("its update") == ()


def test_a_session_maps_what_was_recorded_in_its_environment(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    options = spark.conf.get("spark.driver.extraJavaOptions")
    assert options is not None
    assert all(option in options for option in archive_options(check_java()))
    assert "-Dlog4j2.configurationFile=" in options


def test_a_local_session_does_not_choose_the_python_of_a_cluster(spark: SparkSession) -> None:
    """Here workers are this Python; a cluster's, begun later by this process, are its own."""
    (version,) = spark.range(1).mapInPandas(_this_python, "python string").collect()
    assert version["python"] == sys.executable
    assert "PYSPARK_PYTHON" not in os.environ


def _this_python(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for _ in frames:
        yield pd.DataFrame({"python": [sys.executable]})
