"""The requests of strangers in a plan; see StrangeRequests in faults."""

from __future__ import annotations

from enum import StrEnum


class Strange(StrEnum):
    """Requests that no sound client sends, and that must not harm other clients."""

    SAME_PARTITION_AGAIN = "same_partition_again"
    """A fetch that names one partition many times and waits; then its connection ends."""
    SEVERAL_BATCHES = "several_batches"
    """One produce of several batches for one partition, which claim 2^31 - 1 records each."""
    FORGED_COUNT = "forged_count"
    """Such batches, one a request."""
    FORGED_TIMESTAMPS = "forged_timestamps"
    """A record at the end of time, which is then looked up."""
    LONG_NAMES = "long_names"
    """DescribeConfigs of resources with names that fill a string."""
    LONG_VALUES = "long_values"
    """CreateTopics with a value that fills a string, and with brokers that there are not."""
    EXTREME_CONFIGS = "extreme_configs"
    """A topic with a configuration at its least or largest valid value, then a record."""
    NAMES_IN_ZOOKEEPER = "names_in_zookeeper"
    """A topic of a name that no broker would take, written into ZooKeeper."""
    TRANSACTIONS_AND_GROUPS = "transactions_and_groups"
    """A transactional produce, and questions for coordinators that there are not."""
    MANY_ASSIGNMENTS = "many_assignments"
    """CreateTopics with more assignments than a znode holds."""
