"""Clusters of tests: what a test does to its cluster is recorded, and judged from the folder."""
