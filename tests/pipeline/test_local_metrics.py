"""On the local engine the figures are those of Spark."""

# ruff: noqa: F401 - fixtures and tests that pytest finds here by their names
from tests.pipeline.on_the_local_engine import engine, scratch, spark
from tests.pipeline.test_metrics import (
    test_a_failover_is_split_into_its_waits,
    test_a_failover_is_timed_from_when_its_fault_acted_not_from_its_proof,
    test_a_long_pause_of_one_partition_is_an_outage_with_the_fault_before_it,
    test_a_median_has_an_interval_from_six_values_on,
    test_a_run_that_does_not_say_when_it_began_has_no_failovers,
    test_a_run_that_sent_nothing_has_no_outage,
    test_commands_without_an_answer_are_counted_by_term_broker_and_command,
    test_fetches_are_timed_by_who_asked,
    test_followers_lag_behind_the_leader_of_their_look,
    test_lag_over_time_is_that_of_the_last_follower_in_each_stretch,
    test_latency_counts_acknowledged_records,
    test_leaderships_handed_over_after_the_last_look_are_no_failovers,
    test_silence_at_a_runs_end_is_an_outage_of_each_partition_that_is_sent_to,
    test_what_64_bits_do_not_hold_is_null_or_left_out,
)
