"""A soak's plans over Spark: each runs on the containers of a worker's machine.

settings.py  what a campaign's plans are drawn from
worker.py    in Spark's Python: a plan at a time, in a process of its own
one_plan.py  that process
running.py   here: the plans' distribution, runs that are fetched, the report
"""
