"""Clusters of tests: a test's faults and clients are recorded, and judged from the folder."""
