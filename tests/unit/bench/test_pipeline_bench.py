"""The pipeline's bench: its tables are sound except for planted violations; answers agree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import duckdb
import msgspec
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'pipeline'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from bench.machine import Machine
from bench.pipeline import measuring
from bench.pipeline.checks_cost import CHECKS_OF, START, costs
from bench.pipeline.cost import Answer, Cost, Engine, EngineName, Job, cost_of
from bench.pipeline.made_tables import Shape, make_tables
from bench.pipeline.measuring import Measured, compare, measure
from bench.pipeline.result import PipelineResult, markdown
from bench.pipeline.seven import LATENCIES, SEVEN
from highwater.errors import HarnessError
from highwater_pipeline.checks.acknowledged_records import CHECK as LOSSES
from highwater_pipeline.tables import TABLES

SHAPES = (Shape(20_000, partitions=5), Shape(20_070, partitions=5, is_hot=True))
MACHINE = Machine("CPU", 2, 24.0, "6.1", "20.10", "3.11", "2.16", 0.5, 1.5)
Made = tuple[Shape, Path]


@pytest.fixture(scope="module", params=SHAPES, ids=["even", "hot"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    store = tmp_path_factory.mktemp("made")
    make_tables(request.param, store)
    return request.param, store


def job(engine: EngineName, *checks: str, store: Path = Path()) -> Job:
    return Job(engine, str(store), is_small=False, partitions=None, within_s=60, checks=checks)


# ---------------------------------------------------------------- made tables


def test_each_partition_has_the_offsets_up_to_its_end_on_each_broker(made: Made) -> None:
    shape, store = made
    found = duckdb.sql(
        f"""SELECT "partition", broker, count(*), min("offset"), max("offset") + 1
        FROM '{store}/records/**/*.parquet' WHERE broker <> 1 GROUP BY ALL ORDER BY ALL"""  # noqa: S608
    ).fetchall()
    ends = [shape.end_offset(partition) for partition in range(shape.partitions)]
    assert found == [
        (partition, broker, end, 0, end) for partition, end in enumerate(ends) for broker in (0, 2)
    ]
    assert sum(ends) == shape.records


def test_a_hot_partition_has_nine_of_ten_records() -> None:
    hot = Shape(1_000_000, is_hot=True)
    assert hot.end_offset(0) == 0.9 * hot.records


def test_files_have_the_declared_types_and_the_order_of_the_sort_key(made: Made) -> None:
    _, store = made
    for table in TABLES:
        for file in (store / table.name).glob("**/*.parquet"):
            rows = pq.ParquetFile(file).read()
            declared = to_arrow_schema(table.schema)
            assert types_of(rows.schema) == {
                name: kind
                for name, kind in types_of(declared).items()
                if name not in table.partitioned_by
            }
            keys = [rows[name].to_pylist() for name in table.sort_key if name in rows.schema.names]
            in_order = list(zip(*keys, strict=True))
            assert in_order == sorted(in_order), file


def types_of(schema: pa.Schema) -> dict[str, str]:
    """Return the types by name; DuckDB does not write that an array has no nulls."""
    return {field.name: str(field.type).replace(" not null", "") for field in schema}


@pytest.mark.parametrize("engine", [EngineName.DUCKDB, EngineName.POLARS])
def test_engines_find_the_planted_violations_and_agree(made: Made, engine: EngineName) -> None:
    shape, store = made
    names = [name for name in SEVEN if name in CHECKS_OF[engine]]
    by_check = {cost.check: cost for cost in costs(job(engine, *names, store=store))}
    assert [cost.failure for cost in by_check.values() if cost.failure] == []
    found = {name: (by_check[name].findings, by_check[name].examined) for name in names}
    assert found[LOSSES.name] == (shape.lost, 3 * shape.records)
    assert found[LATENCIES] == (0, shape.records)
    assert found["traces are whole (C00)"] == (0, 4 * shape.records + 4 * shape.partitions)
    assert found["one leader per leader epoch (I7)"] == (0, 2 * shape.partitions)


# ---------------------------------------------------------------- measuring


def test_a_check_that_takes_too_long_is_stopped() -> None:
    stopped = threading.Event()

    def run() -> Answer:
        stopped.wait(10)
        raise TimeoutError

    engine = Engine(threading.get_native_id(), {"slow": run}, stopped.set, (TimeoutError,))
    cost = cost_of("slow", engine, within_s=0.01)
    assert (cost.failure, cost.findings, cost.examined) == ("stopped after 0.01 s", 0, 0)


def test_a_check_that_fails_says_why_in_a_line() -> None:
    def run() -> Answer:
        raise MemoryError("no more\nat all")

    engine = Engine(threading.get_native_id(), {"large": run}, lambda: None, (MemoryError,))
    assert cost_of("large", engine, within_s=60).failure == "MemoryError: no more"


Ends = Callable[[Sequence[str]], tuple[int, int]]
"""Given the checks left, how many a process reports (its start counts), and its exit code."""


@pytest.fixture
def ends_like(monkeypatch: pytest.MonkeyPatch) -> Callable[[Ends], None]:
    def use(ends: Ends) -> None:
        @contextmanager
        def process(asked: Job) -> Iterator[SimpleNamespace]:
            told, code = ends(asked.checks)
            lines = [msgspec.json.encode(Cost(name, 1.0)) for name in (START, *asked.checks)]
            yield SimpleNamespace(stdout=lines[:told], returncode=code)

        monkeypatch.setattr(measuring, "_process", process)

    return use


def test_after_a_check_that_ends_its_process_another_does_the_rest(
    ends_like: Callable[[Ends], None],
) -> None:
    first, second, third = tuple(SEVEN)[:3]
    ends_like(lambda left: (2, 52) if len(left) == 3 else (1 + len(left), 0))
    found = measure(SHAPES[0], job(EngineName.SPARK, first, second, third)).costs
    assert [(cost.check, cost.failure) for cost in found] == [
        (START, ""), (first, ""), (second, "its process ended with 52"), (START, ""), (third, ""),
    ]  # fmt: skip


def test_an_engine_that_does_not_start_is_no_measurement(
    ends_like: Callable[[Ends], None],
) -> None:
    ends_like(lambda left: (0, 1))
    with pytest.raises(HarnessError, match="Spark does not start: 1"):
        measure(SHAPES[0], job(EngineName.SPARK, LOSSES.name))


def test_an_engine_is_not_asked_for_checks_that_it_has_not(
    ends_like: Callable[[Ends], None],
) -> None:
    ends_like(lambda left: (1 + len(left), 0))
    found = measure(SHAPES[0], job(EngineName.POLARS, *SEVEN)).costs
    assert {cost.check for cost in found} == {START, *CHECKS_OF[EngineName.POLARS]}


# ---------------------------------------------------------------- results


def measured(engine: EngineName, *given: Cost) -> Measured:
    return Measured(SHAPES[0], engine, 9.0, given)


LOST = SHAPES[0].lost


def test_engines_that_say_the_same_are_compared() -> None:
    of_losses = Cost(LOSSES.name, 1.0, LOST, 7)
    failed = Cost(LOSSES.name, 1.0, failure="no memory")
    compare(SHAPES[0], [measured(EngineName.SPARK, of_losses), measured(EngineName.DUCKDB, failed)])


@pytest.mark.parametrize(
    ("ours", "theirs", "what"),
    [
        (Cost(LOSSES.name, 1.0, LOST, 7), Cost(LOSSES.name, 1.0, LOST, 8), "differ"),
        (Cost(LOSSES.name, 1.0, 0, 7), Cost(LOSSES.name, 1.0, 0, 7), f"{LOST} lost records"),
    ],
    ids=["another answer", "nothing found"],
)
def test_times_of_other_answers_are_no_result(ours: Cost, theirs: Cost, what: str) -> None:
    both = [measured(EngineName.SPARK, ours), measured(EngineName.DUCKDB, theirs)]
    with pytest.raises(HarnessError, match=what):
        compare(SHAPES[0], both)


def test_tables_have_seconds_rows_a_second_memory_and_failures() -> None:
    seven = [Cost(name, 0.004, peak_bytes=2**21) for name in SEVEN]
    spark = measured(EngineName.SPARK, Cost(START, 5.0), *seven)
    broken = Cost(LATENCIES, 3.0, failure="no memory")
    duck = measured(EngineName.DUCKDB, Cost(START, 0.1), *seven[:-1], broken)
    lines = markdown(PipelineResult("today", MACHINE, (spark, duck)))
    assert f"| {LOSSES.name} | 0.00 | 0.00 | 5.00 | 5.00 | 2.00 | 2.00 |" in lines
    assert f"| {LATENCIES} | 0.00 | failed | 5.00 | – | 2.00 | 0.00 |" in lines
    assert "| these 7 together | 0.03 | – |  |  |  |  |" in lines
    assert "| the 6 that all have | 0.02 | 0.02 |  |  |  |  |" in lines
    assert "\n3.5 M rows/s or more: 7 of the seven in Spark." in lines
    assert f"\nDuckDB, {LATENCIES}: no memory" in lines
