"""The archive of Spark's classes: found, mapped, and missed without harm."""

from __future__ import annotations

import sys
from pathlib import Path

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
