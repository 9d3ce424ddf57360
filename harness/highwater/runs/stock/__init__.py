"""A plan's workload by stock clients: a process of its own, which obeys the same commands as ours.

Their histories have the one schema; what a client does not tell, such as how often it sent a
record, stays unknown.
"""
