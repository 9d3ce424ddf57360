"""The pytest plugin's parts: clusters and plans of tests, hangs, verdicts in the report."""
