"""On the local engine the checks of events say the same as the checker."""

# ruff: noqa: F401 - fixtures and tests that pytest finds here by their names
from tests.pipeline.on_the_local_engine import engine, scratch, spark
from tests.pipeline.test_checks_events import (
    evidence,
    pipeline,
    python,
    test_clocks_that_differ_change_no_verdict_but_that_of_cuts_within_an_epoch,
    test_events_that_lack_details_are_found_and_the_rest_is_judged,
    test_planted_violations_are_found_and_nothing_else,
    test_spark_agrees_with_the_checker_to_the_letter,
    test_where_the_checker_stops_at_an_event_that_event_is_found,
)
