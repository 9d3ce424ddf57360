"""On the local engine runs that were tampered with get the judge's verdict."""

# ruff: noqa: F401 - fixtures and tests that pytest finds here by their names
from tests.pipeline.on_the_local_engine import engine, scratch, spark
from tests.pipeline.test_verdicts import (
    found,
    judged_runs,
    tables,
    test_a_pages_failovers_are_those_of_the_tables,
    test_a_run_with_a_compacted_topic_and_commits_passes_in_both,
    test_a_verdict_is_the_judges_and_of_large_runs_the_tables,
    test_records_that_nobody_sent_are_found_by_sums_of_ranges_too,
    test_the_judge_and_the_tables_say_the_same_of_runs_that_were_tampered_with,
    test_the_judge_and_the_tables_say_the_same_of_runs_with_idle_checks,
)
