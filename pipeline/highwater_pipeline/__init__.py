"""Analyses histories, traces and logs of many runs with Spark: ingest, checks, metrics, report.

The only package that imports PySpark; an extra ("pipeline") installs what it needs. It uses the
DataFrame API alone, so that a session may be local, on a cluster or, for small runs, Sail's.
"""
