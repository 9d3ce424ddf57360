"""Runs: the demo, plans and trials, with their clients, observers and evidence."""
