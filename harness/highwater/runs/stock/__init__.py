"""A plan's workload by stock clients: a process of its own, which obeys the same commands as ours.

Their histories have the same schema; facts that a library does not report, such as how often it
sent a record, stay unknown.
"""
