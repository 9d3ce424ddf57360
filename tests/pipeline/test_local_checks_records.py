"""On the local engine the checks of records say the same as the checker."""

# ruff: noqa: F401 - fixtures and tests that pytest finds here by their names
from tests.pipeline.on_the_local_engine import engine, scratch, spark
from tests.pipeline.test_checks_records import (
    evidence,
    pipeline,
    python,
    test_findings_do_not_depend_on_where_ranges_end,
    test_planted_violations_are_found_and_nothing_else,
    test_spark_agrees_with_the_checker_to_the_letter,
)
