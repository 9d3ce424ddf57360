"""Small runs go to the local engine; where it fails or does not answer, Spark does it again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from highwater.errors import HarnessError
from highwater.report import pipeline_runs
from highwater_checker.looks import Look
from highwater_pipeline.analysis import Analysis, analyse
from highwater_pipeline.checks.findings import field
from highwater_pipeline.engines import Engine, NoEngine, engines_to_try
from highwater_pipeline.local_engine import LocalEngine, NoLocalEngine
from highwater_pipeline.tables import Tables
from tests.pipeline.on_the_local_engine import engine
from tests.pipeline.tampering import BROKERS, looked
from tests.support.run_on_disk import write_run

__all__ = ["engine"]

LACKS = "it is not here"
CHOICES = {
    # asked, small, Spark is here, Sail is here: engines to try
    (Engine.AUTO, True, True, True): ("local", "spark"),
    (Engine.AUTO, True, True, False): ("spark",),
    (Engine.AUTO, True, False, True): ("local", "spark"),
    (Engine.AUTO, True, False, False): None,
    (Engine.AUTO, False, True, True): ("spark",),
    (Engine.AUTO, False, True, False): ("spark",),
    (Engine.AUTO, False, False, True): ("local",),
    (Engine.AUTO, False, False, False): None,
    (Engine.SPARK, True, True, True): ("spark",),
    (Engine.SPARK, True, False, True): None,
    (Engine.LOCAL, False, True, True): ("local",),
    (Engine.LOCAL, True, True, False): None,
}


@pytest.mark.parametrize(("case", "engines"), CHOICES.items())
def test_small_runs_go_to_the_local_engine_and_others_to_spark(
    case: tuple[Engine, bool, bool, bool], engines: tuple[str, ...] | None
) -> None:
    asked, are_small, has_spark, has_local = case
    lacks = [None if has else LACKS for has in (has_spark, has_local)]

    def choose() -> tuple[str, ...]:
        return tuple(
            engines_to_try(
                asked,
                are_small=are_small,
                lacks_spark=lambda: lacks[0],
                lacks_local=lambda: lacks[1],
            )
        )

    if engines is None:
        with pytest.raises(NoEngine, match=LACKS):
            choose()
    else:
        assert choose() == engines


@contextmanager
def _fails() -> Iterator[LocalEngine]:
    raise NoLocalEngine("Sail does not start: planted")
    yield


@pytest.fixture
def in_sparks_place(monkeypatch: pytest.MonkeyPatch, engine: LocalEngine) -> None:
    """Put another local engine in Spark's place: it is quicker, and what falls back is the same."""

    @contextmanager
    def session(*_: object, **__: object) -> Iterator[SparkSession]:
        yield engine.session

    monkeypatch.setattr(pipeline_runs, "spark_session", session)


@pytest.mark.usefixtures("in_sparks_place")
def test_where_the_local_engine_does_not_start_spark_does_it_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline_runs, "local_engine", _fails)
    code = _report(tmp_path, Engine.AUTO)
    told = capsys.readouterr()
    assert (code, "verdict: pass" in told.out) == (0, True)
    assert "the local engine failed: Sail does not start: planted; spark does it again" in told.err


@pytest.mark.usefixtures("in_sparks_place")
def test_where_the_local_engine_does_not_answer_spark_does_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends, asked = threading.Event(), []

    def hangs_at_first(tables: Tables) -> Analysis:
        asked.append(tables)
        if len(asked) == 1:
            ends.wait(2)
        return analyse(tables)

    monkeypatch.setattr(pipeline_runs, "WITHIN_S", 0.1)
    monkeypatch.setattr(pipeline_runs, "analyse", hangs_at_first)
    code = _report(tmp_path, Engine.AUTO)
    assert (code, len(asked)) == (0, 2)
    assert "it has not answered within 0.1 s" in capsys.readouterr().err


def test_an_engine_that_was_named_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pipeline_runs, "local_engine", _fails)
    with pytest.raises(HarnessError, match="planted"):
        _report(tmp_path, Engine.LOCAL)


def test_the_local_engine_reports_a_run_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("SAIL_EXECUTION__DEFAULT_PARALLELISM", "4")
    assert _report(tmp_path, Engine.LOCAL) == 0
    assert "verdict: pass" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_field_of_a_struct_that_a_case_made_null_is_null(engine: LocalEngine) -> None:
    frame = engine.session.createDataFrame([(1, 7)], "a int, b int")
    nothing = fn.when(fn.col("a") > 1, fn.col("of"))
    rows = frame.withColumn("of", fn.struct("b")).withColumn("none", nothing)
    assert rows.select(field(fn.col("none"), "b").alias("b")).collect()[0]["b"] is None


def _report(root: Path, asked: Engine) -> int:
    folder = write_run(root / "a-run")
    looked(folder, Look(99, BROKERS))
    out = root / "out"
    return pipeline_runs.report_of_runs(
        [folder], root / "store", out, asked, "local[2]", as_json=False
    )
