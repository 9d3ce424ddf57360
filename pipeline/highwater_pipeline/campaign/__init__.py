"""Campaigns: hundreds of thousands of schedules over Spark's workers, stored group by group.

The caller gives the functions that run and shrink a schedule; workers import them.
"""
