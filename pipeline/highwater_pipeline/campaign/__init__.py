"""Campaigns: schedules by the hundred thousand over Spark's workers, kept group by group.

What a schedule is, and how it is run and shrunk, is the caller's: functions that workers import.
"""
