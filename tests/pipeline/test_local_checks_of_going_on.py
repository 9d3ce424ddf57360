"""On the local engine the check of consumers' places says the same as the checker."""

# ruff: noqa: F401 - fixtures and tests that pytest finds here by their names
from tests.pipeline.on_the_local_engine import engine, scratch, spark
from tests.pipeline.test_checks_of_going_on import (
    evidence,
    python,
    test_spark_agrees_with_the_checker_too,
)
