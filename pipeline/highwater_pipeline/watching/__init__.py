"""Run folders as they grow: alerts of what is proven already, and each ended run's verdict."""
