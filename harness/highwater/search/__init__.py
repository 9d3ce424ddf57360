"""Thousands of simulated schedules: worker processes that search, and reports of the results."""
