"""The options that a session starts with: the archive of Spark's classes, its log, its Python."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from highwater_pipeline.java import archive_options, archive_path, check_java
from highwater_pipeline.session import SHIPPED


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


def test_a_session_maps_the_archive_of_its_environment(
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


def test_all_that_the_pipeline_imports_of_ours_is_shipped_to_a_clusters_workers() -> None:
    imported = {
        name.partition(".")[0]
        for package in SHIPPED
        for file in Path(find_spec(package).submodule_search_locations[0]).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in _imported_by(node)
    }
    assert {name for name in imported if name.startswith("highwater")} == set(SHIPPED)


def _imported_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
