"""On the local engine the checks of members and of compacted topics say the same as the checker."""

# ruff: noqa: F401 - fixtures and tests that pytest finds here by their names
from tests.pipeline.on_the_local_engine import engine, scratch, spark
from tests.pipeline.test_checks_of_compaction import test_three_judges_agree_about_compacted_topics
from tests.pipeline.test_checks_of_members import (
    evidence,
    python,
    test_spark_agrees_with_the_checker_too,
)
